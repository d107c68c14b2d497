"""``faultline plan``: the best scheme, redundancy and checkpoint interval for a cluster."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from faultline.experiments.commands.output import (
    PAGES,
    check_ending,
    check_output,
    print_json,
    progress_of,
    write_output,
)
from faultline.experiments.config.errors import UserError
from faultline.experiments.planner.advice import advise, plan_data
from faultline.experiments.planner.comparison import (
    comparison_texts,
    print_comparison,
    summary_of,
)
from faultline.experiments.planner.fleet import fleet_data, print_fleet, split_fleet
from faultline.experiments.planner.over_priors import (
    QUICK_SAMPLES,
    SAMPLES,
    OverPriors,
    simulate_over_priors,
)
from faultline.experiments.planner.over_priors_printing import (
    over_priors_data,
    over_priors_page,
    print_over_priors,
)
from faultline.experiments.planner.plan import RankedPlan, make_plan
from faultline.experiments.planner.printing import print_plan
from faultline.experiments.planner.search import (
    Optimised,
    check_searchable,
    optimise_schemes,
)
from faultline.experiments.planner.situation import Situation, read_situation
from faultline.experiments.runs.execution import workers_kept
from faultline.experiments.screen import Screen, text_column
from faultline.experiments.streams import print_text
from rich.progress import SpinnerColumn, TimeElapsedColumn


def execute(arguments: argparse.Namespace) -> int:
    """Run the command; the status is 1 if no scheme would finish a job."""
    names, prices = arguments.scenarios, arguments.prices
    if arguments.page is not None:
        check_ending("--page", arguments.page, *PAGES)
        check_output("--page", arguments.page)
    if len(names) > 1:
        _check_for_several(arguments)
        return _compare(arguments)
    if len(prices) > 1:
        raise UserError(f"--price: {len(prices)} prices for one scenario; state one")
    if arguments.nodes is not None:
        return _split(arguments)
    price = next(iter(prices), None)

    def print_first(plan: RankedPlan, optimised: list[Optimised]) -> None:
        """Print the answer at the scenario's values, before the long part over the priors."""
        if not arguments.json:
            print_plan(Screen(), plan, advise(plan), optimised, price, all_lines=arguments.all)
            sys.stdout.flush()

    plan, optimised, over = _planned(names[0], arguments, print_first)
    if arguments.json:
        print_json(_data(plan, optimised, over, price))
    elif over is not None:
        print_over_priors(Screen(), over)
    if arguments.page is not None:
        _write_page(plan, over, price, arguments)
    return 0 if plan.lines else 1


_COLUMNS = (SpinnerColumn(), text_column("{task.description}"), TimeElapsedColumn())


def _planned(
    name: str,
    arguments: argparse.Namespace,
    on_plan: Callable[[RankedPlan, list[Optimised]], None] | None = None,
) -> tuple[RankedPlan, list[Optimised], OverPriors | None]:
    """Return the plan of a scenario, the results of a search, and the plan over the priors.

    `on_plan` is called with the first two before the third begins.
    """
    situation = read_situation(
        name,
        arguments.settings,
        arguments.gpus,
        mtbf_s=arguments.mtbf,
        restart_s=arguments.restart,
    )
    if arguments.optimise:
        check_searchable(situation)
    of_several = f"{name}: " if len(arguments.scenarios) > 1 else ""
    samples, over = _samples(arguments), None
    with workers_kept():
        plan, optimised = _at_the_values(situation, arguments, of_several)
        if on_plan is not None:
            on_plan(plan, optimised)
        if samples:
            with progress_of(*_COLUMNS) as progress:
                task = progress.add_task(f"{of_several}simulating over the priors", total=None)
                over = simulate_over_priors(plan, samples, partial(progress.advance, task))
    return plan, optimised, over


def _at_the_values(
    situation: Situation, arguments: argparse.Namespace, of_several: str
) -> tuple[RankedPlan, list[Optimised]]:
    """Return the plan at the scenario's values, and the results of a search."""
    with progress_of(*_COLUMNS) as progress:
        task = progress.add_task(f"{of_several}closed forms", total=None)

        def on_chosen(choices: int) -> None:
            # The first job may take minutes: it measures steps on the platform.
            text = f"{of_several}simulating the first of {choices:,} choices"
            progress.update(task, description=text)

        def on_done() -> None:
            progress.advance(task)
            done = int(progress.tasks[task].completed)
            text = f"{of_several}verifying: {done:,} jobs simulated"
            progress.update(task, description=text)

        plan = make_plan(
            situation,
            arguments.schemes,
            arguments.protections,
            range(arguments.seeds),
            arguments.verify,
            arguments.steps,
            on_done,
            on_chosen,
        )
        optimised = []
        if arguments.optimise:
            optimised = optimise_schemes(plan, arguments.steps, on_done)
    return plan, optimised


def _data(
    plan: RankedPlan, optimised: list[Optimised], over: OverPriors | None, price: float | None
) -> dict[str, Any]:
    data = plan_data(plan, advise(plan), optimised, price)
    return data if over is None else {**data, "over_priors": over_priors_data(over)}


def _check_for_several(arguments: argparse.Namespace) -> None:
    """Refuse options that apply to one scenario only, and a wrong number of prices."""
    alone = {
        "--page": arguments.page is not None,
        "--nodes": arguments.nodes is not None,
        "--optimise": arguments.optimise,
        "--all": arguments.all,
    }
    for option, is_stated in alone.items():
        if is_stated:
            raise UserError(f"{option}: applies to one scenario; plan each by itself")
    scenarios, prices = len(arguments.scenarios), len(arguments.prices)
    if prices not in (0, 1, scenarios):
        raise UserError(
            f"--price: {prices} prices for {scenarios} scenarios; state one, or one for each"
        )


def _compare(arguments: argparse.Namespace) -> int:
    """Plan several scenarios, and print them side by side."""
    names, prices = arguments.scenarios, arguments.prices
    each_price = prices if len(prices) == len(names) else [next(iter(prices), None)] * len(names)
    planned = [_planned(name, arguments) for name in names]
    summaries = [
        summary_of(plan, over, price)
        for (plan, _, over), price in zip(planned, each_price, strict=True)
    ]
    if arguments.json:
        plans = [
            {"summary": asdict(summary), **_data(*results, price)}
            for results, summary, price in zip(planned, summaries, each_price, strict=True)
        ]
        print_json({"plans": plans, "sentences": comparison_texts(summaries)})
    else:
        for name, (plan, *_) in zip(names, planned, strict=True):
            print_text(f"{name}: {advise(plan).sentence}")
        print_comparison(Screen(), summaries)
    return 0 if all(plan.lines for plan, *_ in planned) else 1


def _split(arguments: argparse.Namespace) -> int:
    """Split a fleet into groups and standbys, and print the goodput of each split."""
    with progress_of(*_COLUMNS) as progress, workers_kept():
        task = progress.add_task("simulating splits of the fleet", total=None)
        fleet = split_fleet(
            arguments.scenarios[0],
            arguments.settings,
            arguments.nodes,
            arguments.schemes,
            arguments.protections,
            range(arguments.seeds),
            arguments.steps,
            arguments.mtbf,
            arguments.restart,
            partial(progress.advance, task),
        )
    price = next(iter(arguments.prices), None)
    if arguments.json:
        print_json(fleet_data(fleet, price))
    else:
        print_fleet(Screen(), fleet, price)
    return 0


def _samples(arguments: argparse.Namespace) -> int:
    """Return the number of samples of the priors; 0 leaves the priors out."""
    if arguments.priors is not None:
        return int(arguments.priors)
    if arguments.verify == 0:
        return 0
    return QUICK_SAMPLES if arguments.quick else SAMPLES


def _write_page(
    plan: RankedPlan, over: OverPriors | None, price: float | None, arguments: argparse.Namespace
) -> None:
    if over is None:
        raise UserError(
            f"--page {arguments.page}: no choice finishes the job at the values of the scenario, "
            "so that there is nothing to compare over the priors"
        )
    page = over_priors_page(plan, over, shlex.join(("faultline", *sys.argv[1:])), price)
    write_output("--page", arguments.page, page)
    print_text(str(arguments.page), as_message=arguments.json)
