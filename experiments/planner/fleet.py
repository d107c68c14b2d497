"""A fleet of machines, split into groups that train and machines on standby.

More groups train more per step; more standbys let fewer failures stop the job. Failed machines are
repaired and return as standbys. If no standby is left, the job waits for a repair. A plan chooses
the number of standbys as it chooses a scheme: all splits train the same samples in the same worlds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

import numpy as np
from faultline.experiments.analysis.quantities import duration_text
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.keys import value_at
from faultline.experiments.config.scenario_file import read_source
from faultline.experiments.job.choices import Choice
from faultline.experiments.job.failure_model import failure_model
from faultline.experiments.job.hardware import breakage_of, gpus_per_machine
from faultline.experiments.planner.answer import Answer
from faultline.experiments.planner.candidates import Candidate, Candidates, LeftOut, why_unfit
from faultline.experiments.planner.planning import Effort, answer_base, answer_plan, race_answers
from faultline.experiments.planner.race import FIRST_WORLDS
from faultline.experiments.planner.simulation import OnDone
from faultline.experiments.planner.situation import Situation, choices_like, read_situation
from faultline.platforms.errors import PlatformError
from faultline.strategies.interface.errors import StrategyError

MOST_SPLITS = 9
"""Splits that are compared: from no standbys to twice as many as are needed 95 times of 100."""

MOST_SCHEMES = 4
"""Schemes that are simulated at each split: the soonest of a plan at a split with standbys."""

_ENOUGH = 0.95
_MTBF = ("failures", "mtbf_s")


@dataclass(frozen=True, slots=True)
class Split:
    """A number of machines on standby beside all groups that the others make."""

    standbys: int
    situation: Situation  # Its steps train as many samples as the job without standbys.

    @property
    def name(self) -> str:
        """The choice in words."""
        return f"{self.standbys:,} standby{'' if self.standbys == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Fleet:
    """The splits of a fleet, those with fewer standbys first."""

    splits: tuple[Split, ...]
    enough: int  # Standbys that suffice 95 times of 100.

    @property
    def planned(self) -> Situation:
        """The job that has enough standbys, or most of them."""
        found = (one for one in self.splits if one.standbys >= self.enough)
        return next(found, self.splits[-1]).situation


def read_fleet(
    name: str,
    settings: Sequence[str],
    machines: int,
    mtbf_s: float | None = None,
    restart_s: float | None = None,
) -> Fleet:
    """Return the splits of a fleet.

    Parameters
    ----------
    name, settings
        The scenario, and changes of it. Its machines for replacement are those of the split.
    machines : int
        Machines of the fleet.
    mtbf_s : float, optional
        Mean time between failures of a job on the whole fleet, in seconds.
    restart_s : float, optional
        Time of a restart, in seconds.

    Raises
    ------
    UserError
        If a value is invalid, or the fleet is smaller than a group.
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

    source = read_source(name, settings)
    is_stated = _MTBF in source.options and value_at(source.tables, _MTBF) is not None

    def at(groups: int, standbys: int) -> Situation:
        changes = [*settings, *_standby_settings(standbys)]
        if own.model.name == "stated":  # Otherwise the groups follow from the GPUs.
            changes.append(f"job.groups={groups}")
        # What is not stated scales with the GPUs by itself.
        every_s = every_whole_s * most / groups if mtbf_s or is_stated else None
        return read(changes, groups * job.gpus_of_group, every_s)

    every_whole_s = mtbf_s or failure_model(own).mtbf_s
    whole = at(most, 0)
    broken = breakage_of(whole.scenario, failure_model(whole.scenario))
    from scipy.stats import poisson  # Takes long to import.

    enough = int(poisson.ppf(_ENOUGH, broken.under_repair))
    text = (
        f"{machines:,} machines of {per_machine} GPUs, of which {broken.under_repair:,.1f} are "
        f"under repair on average, for {duration_text(broken.mean_repair_s)}. A machine in no "
        "group stands by; if none is left, the job waits for a repair."
    )
    splits = []
    for groups, standbys in splits_of(machines, per_machine, job.gpus_of_group, 2 * enough):
        found = at(groups, standbys)
        steps = ceil(whole.scenario.job.steps * most / groups)
        scenario = found.scenario.change({"job.steps": steps})
        splits.append(Split(standbys, replace(found, scenario=scenario, fleet=text)))
    return Fleet(tuple(splits), enough)


def fleet_answers(
    fleet: Fleet,
    schemes: Sequence[str] | None,
    protections: Sequence[str] | None,
    effort: Effort,
    *,
    at_values: bool = False,
    on_done: OnDone = None,
) -> Iterator[Answer]:
    """Yield how many machines should stand by, after each stage, as `answers` does for schemes.

    Raises
    ------
    UserError, StrategyError, PlatformError
        If a name is unknown, or no requested scheme can be built.
    """
    ends_s = effort.ends_s()
    base = answer_base(fleet.splits[0].situation, effort, at_values=at_values)
    yield base
    planned = answer_plan(
        fleet.planned,
        schemes,
        protections,
        replace(effort, worlds=FIRST_WORLDS),
        at_values=at_values,
    )
    leading = [row.choice for row in planned.rows if row.judgement.capped < 1.0][:MOST_SCHEMES]
    if not leading:
        yield replace(base, left_out=planned.left_out, is_last=True)
        return
    yield from race_answers(base, _candidates(fleet, leading), effort, ends_s, on_done)


def _candidates(fleet: Fleet, leading: Sequence[Choice]) -> Candidates:
    """Return the leading schemes at each split, those that were planned first.

    There are enough standbys there, so that the jobs end, and state the cap of the others.
    """
    splits = sorted(fleet.splits, key=lambda split: split.situation is not fleet.planned)
    tried = [_candidate(split, leader) for split in splits for leader in leading]
    found = tuple(one for one in tried if isinstance(one, Candidate))
    return Candidates(found, tuple(one for one in tried if isinstance(one, LeftOut)), 0)


def _candidate(split: Split, leader: Choice) -> Candidate | LeftOut:
    """Return a scheme at a split, at its redundancy if that is possible, or why it is left out."""
    why, choices = why_unfit(split.situation, leader.scheme), list[Choice]()
    if why is None:
        try:
            choices = choices_like(split.situation, leader)
        except (UserError, StrategyError, PlatformError) as error:
            why = str(error)
    if why is not None:
        return LeftOut(leader.scheme, leader.protection, why, split.name)
    alike = [one for one in choices if one.redundancy == leader.redundancy]
    return Candidate(tuple(alike or choices[:1]), split.name)


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
