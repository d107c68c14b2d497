"""A fleet of machines, split into groups that train and machines on standby.

More groups train more per step; more standbys let fewer failures stop the job. Failed machines are
repaired and return as standbys. If no standby is left, the job waits for a repair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from math import ceil
from typing import Any

import numpy as np
from faultline.experiments.analysis.intervals import Interval, interval_of
from faultline.experiments.analysis.printing import text_table
from faultline.experiments.analysis.quantities import percent_text
from faultline.experiments.config.errors import UserError
from faultline.experiments.figures.palette import look_of
from faultline.experiments.job.choices import Choice
from faultline.experiments.job.failure_model import failure_model
from faultline.experiments.job.hardware import breakage_of, gpus_per_machine, standbys_of
from faultline.experiments.planner.choice_texts import choice_data, pair_name
from faultline.experiments.planner.planning import Effort, answer_plan
from faultline.experiments.planner.race import FIRST_WORLDS
from faultline.experiments.planner.simulation import run_tasks, simulated_steps
from faultline.experiments.planner.situation import Situation, choices_like, read_situation
from faultline.experiments.runs.point import Point
from faultline.platforms.errors import PlatformError
from faultline.strategies.interface.errors import StrategyError
from faultline.strategies.plugins.registry import strategy_class
from rich.box import SIMPLE
from rich.console import Console

MOST_SPLITS = 9
"""Splits that are simulated: from no standbys to twice as many as are needed 95 times of 100."""

MOST_SCHEMES = 4
"""Schemes that are simulated at each split: the soonest of a plan at a split with standbys."""

_ENOUGH = 0.95
_GIVE_UP = 20.0
"""A run is stopped at this multiple of the time without failures."""


@dataclass(frozen=True, slots=True)
class FleetOutcome:
    """What a scheme makes of a split, with 95 % intervals over the seeds.

    Attributes
    ----------
    choice : Choice
        The scheme with its protection, redundancy and interval.
    goodput : Interval
        Share of the job's time in useful training.
    share : Interval
        Throughput as a share of the fleet's: of all groups that fit, without failures.
    """

    choice: Choice
    goodput: Interval
    share: Interval


@dataclass(frozen=True, slots=True)
class Split:
    """A number of groups, and the machines that are left as standbys."""

    standbys: int
    groups: int
    outcomes: tuple[FleetOutcome, ...]  # The best first; empty if no scheme can be built.


@dataclass(frozen=True, slots=True)
class Fleet:
    """The splits of a fleet, those with fewer standbys first."""

    machines: int
    gpus: int
    mean_under_repair: float
    repair_s: float
    splits: tuple[Split, ...]

    @property
    def best(self) -> Split:
        """The split with the largest share of the fleet's throughput."""
        simulated = [split for split in self.splits if split.outcomes]
        return max(simulated, key=lambda split: split.outcomes[0].share.mean)


def split_fleet(
    name: str,
    settings: Sequence[str],
    machines: int,
    schemes: Sequence[str] | None,
    protections: Sequence[str] | None,
    seeds: Sequence[int],
    steps: int | None = None,
    mtbf_s: float | None = None,
    restart_s: float | None = None,
    on_done: Callable[[], None] | None = None,
) -> Fleet:
    """Simulate the leading schemes at several splits of a fleet.

    Parameters
    ----------
    name, settings
        The scenario, and changes of it. Its machines for replacement are those of the split.
    machines : int
        Machines of the fleet.
    schemes, protections : sequence of str, optional
        The candidates; by default all for which the scenario states enough.
    seeds : sequence of int
        Seeds of the runs.
    steps : int, optional
        Steps of a simulated job; by default enough for 100 failures.
    mtbf_s : float, optional
        Mean time between failures of a job on the whole fleet, in seconds.
    restart_s : float, optional
        Time of a restart, in seconds.
    on_done : callable, optional
        Called after each run.

    Raises
    ------
    UserError
        If the fleet is smaller than a group, or no scheme finishes.
    """
    read = partial(read_situation, name, restart_s=restart_s)
    own = read(settings).scenario
    job, per_machine = own.job, gpus_per_machine(own)
    most = machines * per_machine // job.gpus_of_group
    if most < 1:
        raise UserError(
            f"--nodes {machines:,}: {machines * per_machine:,} GPUs do not make a group of "
            f"{job.gpus_of_group:,}; use at least {ceil(job.gpus_of_group / per_machine):,}"
        )

    def at(groups: int, standbys: int, every_s: float | None) -> Situation:
        scaled_s = None if every_s is None else every_s * most / groups
        changes = [*settings, *_standby_settings(standbys)]
        if own.model.name == "stated":  # Otherwise the groups follow from the GPUs.
            changes.append(f"job.groups={groups}")
        return read(changes, groups * job.gpus_of_group, scaled_s)

    whole = at(most, 0, mtbf_s)
    # Failures of a trace happen when they happened, whatever the number of groups.
    every_s = None if whole.scenario.failures.model == "trace" else whole.mtbf_s
    failures = failure_model(whole.scenario)
    broken = breakage_of(whole.scenario, failures)
    from scipy.stats import poisson  # Takes long to import.

    enough = int(poisson.ppf(_ENOUGH, broken.under_repair))
    sizes = splits_of(machines, per_machine, job.gpus_of_group, 2 * enough)
    situations = [at(groups, standbys, every_s) for groups, standbys in sizes]
    planned = next(
        (one for one, (_, standbys) in zip(situations, sizes, strict=True) if standbys >= enough),
        situations[-1],
    )
    effort = Effort(FIRST_WORLDS, steps=steps)
    answer = answer_plan(planned, schemes, protections, effort, at_values=True, on_done=on_done)
    leading = [row.choice for row in answer.rows if row.judgement.capped < 1.0][:MOST_SCHEMES]
    if not leading:
        raise UserError(f"{name}: no scheme finishes the job on {machines:,} machines")
    choices = [_choices_at(situation, leading) for situation in situations]
    outcomes = _simulated(whole, choices, seeds, steps, on_done)
    splits = [
        Split(standbys, groups, tuple(sorted(found, key=lambda one: -one.share.mean)))
        for (groups, standbys), found in zip(sizes, outcomes, strict=True)
    ]
    gpus, repair_s = machines * per_machine, broken.mean_repair_s
    return Fleet(machines, gpus, broken.under_repair, repair_s, tuple(splits))


def _standby_settings(standbys: int) -> list[str]:
    return [
        "recovery.hardware=standby",
        f"recovery.standbys={standbys}",
        "recovery.free_machines=0",
        "recovery.shortage=wait",
    ]


def splits_of(
    machines: int, gpus_per_machine: int, gpus_of_group: int, most_standbys: int
) -> list[tuple[int, int]]:
    """Return pairs of groups and standbys; each has as many groups as its standbys leave room for.

    At most `MOST_SPLITS`: the numbers of groups get further apart as standbys get more.

    Parameters
    ----------
    machines, gpus_per_machine, gpus_of_group : int
        Sizes of the fleet.
    most_standbys : int
        Standbys of the last split, rounded up to whole groups.
    """
    most = machines * gpus_per_machine // gpus_of_group
    by_standbys: dict[int, int] = {}
    for groups in range(most, 0, -1):
        standbys = machines - ceil(groups * gpus_of_group / gpus_per_machine)
        by_standbys.setdefault(standbys, groups)
        if standbys >= most_standbys and len(by_standbys) > 2:
            break
    pairs = [(groups, standbys) for standbys, groups in by_standbys.items()]
    places = np.unique(np.geomspace(1, len(pairs), MOST_SPLITS).round().astype(int)) - 1
    return [pairs[place] for place in places]


def _choices_at(situation: Situation, leading: Sequence[Choice]) -> list[Choice]:
    """Return the leading schemes for a split, at their redundancy where it is possible."""
    found = []
    for leader in leading:
        needs = "standbys" in strategy_class(leader.scheme).needs
        if needs and not standbys_of(situation.scenario):
            continue
        try:
            choices = choices_like(situation, leader)
        except (UserError, StrategyError, PlatformError):
            continue
        alike = [choice for choice in choices if choice.redundancy == leader.redundancy]
        found.append((alike or choices)[0])
    return found


def _simulated(
    whole: Situation,
    choices: Sequence[Sequence[Choice]],
    seeds: Sequence[int],
    steps: int | None,
    on_done: Callable[[], None] | None,
) -> list[list[FleetOutcome]]:
    """Return the outcome of each choice at each split."""
    flat = [choice for at_split in choices for choice in at_split]
    resolved_jobs = [choice.resolved for choice in flat]
    length = steps or simulated_steps(resolved_jobs[0])
    limit_s = _GIVE_UP * length * whole.ideal_step_s
    pairs = [(place, seed) for place in range(len(flat)) for seed in seeds]
    short = [resolved.shortened(length, limit_s) for resolved in resolved_jobs]
    points = [Point.of(short[place], seed) for place, seed in pairs]
    records = (record for record in run_tasks(points, on_done) if record is not None)
    outcomes = []
    for at_split in choices:
        found = []
        for choice in at_split:
            runs = [next(records) for _ in seeds]
            groups = choice.resolved.scenario.job.groups / whole.scenario.job.groups
            shares = [
                groups * run["completed_steps"] * whole.ideal_step_s / run["time_s"] for run in runs
            ]
            goodput = interval_of([run["goodput"] for run in runs])
            found.append(FleetOutcome(choice, goodput, interval_of(shares)))
        outcomes.append(found)
    return outcomes


def print_fleet(console: Console, fleet: Fleet, price_per_gpu_hour: float | None = None) -> None:
    """Print goodput against standbys, the best split, and what a point of throughput is worth."""
    console.print(
        f"{fleet.machines:,} machines ({fleet.gpus:,} GPUs); a repair takes "
        f"{fleet.repair_s / 3600.0:,.1f} hours on average, so that {fleet.mean_under_repair:,.1f} "
        "machines are under repair. A machine that is in no group stands by; if none is left, the "
        "job waits for a repair.",
        soft_wrap=True,
    )
    schemes = list(
        dict.fromkeys(one.choice.scheme for split in fleet.splits for one in split.outcomes)
    )
    columns: list[dict[str, Any]] = [
        {"header": name, "justify": "right"} for name in ("standbys", "groups")
    ]
    columns += [
        {"header": look_of(scheme).label, "justify": "right", "min_width": 9} for scheme in schemes
    ]
    columns += [{"header": "of the fleet", "justify": "right"}]
    rows = [_row(split, schemes) for split in fleet.splits]
    console.print(text_table(rows, columns, box=SIMPLE, pad_edge=False))
    console.print(
        "scheme: goodput, the share of the job's time in useful training; of the fleet: throughput "
        "of the best scheme over that of all groups that fit, without failures",
        soft_wrap=True,
    )
    console.print(fleet_text(fleet, price_per_gpu_hour), style="bold", soft_wrap=True)


def _row(split: Split, schemes: Sequence[str]) -> list[str]:
    goodputs = {one.choice.scheme: percent_text(one.goodput.mean, 1) for one in split.outcomes}
    share = percent_text(split.outcomes[0].share.mean, 1) if split.outcomes else "-"
    cells = [goodputs.get(scheme, "-") for scheme in schemes]
    return [f"{split.standbys:,}", f"{split.groups:,}", *cells, share]


def fleet_text(fleet: Fleet, price_per_gpu_hour: float | None = None) -> str:
    """Return the best split in a sentence, and the worth of a point of throughput in another."""
    best, first = fleet.best, fleet.splits[0]
    outcome = best.outcomes[0]
    scheme = pair_name(outcome.choice.scheme, outcome.choice.protection)
    low, high = (max(0.0, end) for end in (outcome.share.low, outcome.share.high))
    ends = f"{percent_text(low, 1)} to {percent_text(high, 1)}"
    interval = f" (95 % interval {ends})" if low <= high else ""
    share = percent_text(outcome.share.mean, 1)
    text = (
        f"Keep {best.standbys:,} of {fleet.machines:,} machines on standby and train "
        f"{best.groups:,} groups with {scheme}: {share} of the fleet{interval}"
    )
    if first is not best and first.outcomes:
        alone = first.outcomes[0].share.mean
        text += f"; with {first.standbys:,} on standby at most {percent_text(alone, 1)}"
    hours = 0.01 * 24.0 * fleet.gpus
    cost = "" if price_per_gpu_hour is None else f", {hours * price_per_gpu_hour:,.0f}"
    return f"{text}. One point of it is {hours:,.0f} GPU-hours a day{cost}."


def fleet_data(fleet: Fleet, price_per_gpu_hour: float | None = None) -> dict[str, Any]:
    """Return the splits as JSON data."""
    splits = [
        {
            "standbys": split.standbys,
            "groups": split.groups,
            "schemes": [
                {
                    **choice_data(one.choice),
                    "goodput": asdict(one.goodput),
                    "share_of_fleet": asdict(one.share),
                }
                for one in split.outcomes
            ],
        }
        for split in fleet.splits
    ]
    return {
        "machines": fleet.machines,
        "gpus": fleet.gpus,
        "mean_under_repair": fleet.mean_under_repair,
        "repair_s": fleet.repair_s,
        "splits": splits,
        "sentence": fleet_text(fleet, price_per_gpu_hour),
    }
