"""``faultline plan``: the best scheme, redundancy and checkpoint interval for a cluster."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import replace
from functools import partial

from faultline.experiments.commands.output import explained, print_json, progress_of
from faultline.experiments.config.errors import UserError
from faultline.experiments.planner.advice import advise, plan_data
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
from faultline.experiments.planner.plan import (
    Plan,
    chosen_protections,
    chosen_schemes,
    make_plan,
)
from faultline.experiments.planner.printing import print_plan
from faultline.experiments.planner.situation import Situation, read_situation
from faultline.experiments.runs.execution import workers_kept
from faultline.experiments.screen import Screen, text_column
from faultline.platforms.files import check_writable, write_file
from rich.progress import SpinnerColumn, TimeElapsedColumn


def execute(arguments: argparse.Namespace) -> int:
    """Run the command; the status is 1 if no scheme would finish the job."""
    price = arguments.price
    if arguments.page is not None:
        with explained(f"--page {arguments.page}", "name a file that can be written"):
            check_writable(arguments.page)
    if arguments.nodes is not None:
        return _split(arguments)
    plan, over = _planned(arguments)
    advice = advise(plan)
    if arguments.json:
        data = plan_data(plan, advice, price)
        print_json(data if over is None else {**data, "over_priors": over_priors_data(over)})
    else:
        # A file's lines are wide enough for the table.
        print_plan(Screen(), plan, advice, price, all_lines=arguments.all)
        if over is not None:
            print_over_priors(Screen(), over)
    if arguments.page is not None:
        _write_page(plan, over, arguments)
    return 0 if plan.lines else 1


_COLUMNS = (SpinnerColumn(), text_column("{task.description}"), TimeElapsedColumn())


def _planned(arguments: argparse.Namespace) -> tuple[Plan, OverPriors | None]:
    """Return the plan of a scenario, and the plan over the priors."""
    situation = read_situation(
        arguments.scenario,
        arguments.settings,
        arguments.gpus,
        mtbf_s=arguments.mtbf,
        restart_s=arguments.restart,
    )
    protections = chosen_protections(arguments.protections)
    schemes, not_named = chosen_schemes(arguments.schemes, situation)
    with progress_of(*_COLUMNS) as progress, workers_kept():
        task = progress.add_task("closed forms", total=None)

        def on_chosen(choices: int) -> None:
            # The first job may take minutes: it measures steps on the platform.
            progress.update(task, description=f"simulating the first of {choices:,} choices")

        def on_done() -> None:
            progress.advance(task)
            done = int(progress.tasks[task].completed)
            progress.update(task, description=f"verifying: {done:,} jobs simulated")

        plan = make_plan(
            situation,
            schemes,
            protections,
            range(arguments.seeds),
            arguments.verify,
            arguments.steps,
            on_done,
            on_chosen,
        )
        plan = replace(plan, left_out=(*plan.left_out, *not_named))
        over = None
        if samples := _samples(arguments):
            progress.update(task, description="simulating over the priors")
            over = simulate_over_priors(plan, samples, partial(progress.advance, task))
    return plan, over


def _split(arguments: argparse.Namespace) -> int:
    """Split a fleet into groups and standbys, and print what each split trains."""

    def candidates(situation: Situation) -> tuple[list[str], list[str]]:
        schemes, _ = chosen_schemes(arguments.schemes, situation)
        return schemes, chosen_protections(arguments.protections)

    with progress_of(*_COLUMNS) as progress, workers_kept():
        task = progress.add_task("simulating splits of the fleet", total=None)
        fleet = split_fleet(
            arguments.scenario,
            arguments.settings,
            arguments.nodes,
            candidates,
            range(arguments.seeds),
            arguments.steps,
            arguments.mtbf,
            arguments.restart,
            partial(progress.advance, task),
        )
    if arguments.json:
        print_json(fleet_data(fleet, arguments.price))
    else:
        print_fleet(Screen(), fleet, arguments.price)
    return 0


def _samples(arguments: argparse.Namespace) -> int:
    """Return the number of samples of the priors; 0 leaves the priors out."""
    if arguments.priors is not None:
        return int(arguments.priors)
    if arguments.verify == 0:
        return 0
    return QUICK_SAMPLES if arguments.quick else SAMPLES


def _write_page(plan: Plan, over: OverPriors | None, arguments: argparse.Namespace) -> None:
    if over is None:
        raise UserError(
            f"--page {arguments.page}: no choice finishes the job at the values of the scenario, "
            "so that there is nothing to compare over the priors"
        )
    command = shlex.join(("faultline", *sys.argv[1:]))
    page = over_priors_page(plan, over, command, arguments.price)
    with explained(f"--page {arguments.page}"):
        write_file(arguments.page, page)
    print(arguments.page, file=sys.stderr if arguments.json else sys.stdout)
