"""The candidates of a plan: each scheme over each protection, and why others are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from faultline.experiments.analysis.quantities import time_text
from faultline.experiments.config.errors import UserError, did_you_mean
from faultline.experiments.config.tables.job import HUNDRED_YEARS_S
from faultline.experiments.figures.palette import look_of
from faultline.experiments.job.choices import Choice
from faultline.experiments.job.hardware import standbys_of
from faultline.experiments.job.job_shape import NEEDS_LAYOUT, job_shape, lacks_layout
from faultline.experiments.job.protected import Protected
from faultline.experiments.planner.situation import DAY_S, Situation, choices_of
from faultline.platforms.errors import PlatformError
from faultline.strategies.interface.errors import StrategyError
from faultline.strategies.plugins.registry import all_protections, all_strategies, strategy_class

MOST_SET_UPS = 2
"""Protections of a scheme, and of a moment of return, that are simulated."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A scheme that is left out, over one protection or (None) over all, and the reason."""

    scheme: str
    protection: str | None
    reason: str
    beside: str = ""  # The standbys beside which it is left out, if their number is chosen.


@dataclass(frozen=True, slots=True)
class Candidate:
    """A scheme over a protection, with one moment of return: what of it is still open is tuned."""

    choices: tuple[Choice, ...]  # One per redundancy, the best by closed forms first.
    beside: str = ""  # Machines on standby, if their number is chosen: ``12 standbys``.

    @property
    def name(self) -> str:
        """What is chosen: a number of standbys, or else the scheme."""
        return self.beside or look_of(self.scheme).label

    @property
    def scheme(self) -> str:
        """Name of the scheme."""
        return self.choices[0].scheme

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What is simulated first: a scheme with its moment of return, over one protection.

        Groups that return have their redundancy, too.
        """
        first = self.choices[0]
        returning = first.redundancy if first.returns_groups else 0
        return self.beside, first.scheme, first.rejoin_when, returning

    def left_out(self, reason: str) -> LeftOut:
        """Return it as left out for a reason."""
        return LeftOut(self.scheme, self.choices[0].protection, reason, self.beside)

    @property
    def order(self) -> tuple[bool, bool, float]:
        """Order by prediction, unreliable ones last: they may be far too optimistic."""
        first = self.choices[0]
        return not first.is_prediction, first.rough, first.ratio


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates in the order of their closed forms, and what is left out."""

    found: tuple[Candidate, ...]
    left_out: tuple[LeftOut, ...]
    behind: int  # Other set-ups of the same schemes, which closed forms rank behind.


def find_candidates(
    situation: Situation, schemes: Sequence[str] | None, protections: Sequence[str] | None
) -> Candidates:
    """Return the candidates for a job.

    Parameters
    ----------
    situation : Situation
        The job.
    schemes, protections : sequence of str, optional
        Names to choose from; by default all for which the scenario states enough.

    Raises
    ------
    UserError, StrategyError, PlatformError
        If a name is unknown, the scheme whose redundancy the scenario states cannot be built with
        it, or no requested scheme can be built.
    """
    chosen = _chosen("--schemes", "scheme", schemes, all_strategies())
    unfit = {name: why for name in chosen if (why := why_unfit(situation, name)) is not None}
    left_out = [LeftOut(name, None, why) for name, why in unfit.items()]
    names = [name for name in chosen if name not in unfit]
    pairs = list(
        product(names, _chosen("--protections", "protection", protections, all_protections()))
    )
    found: list[Candidate] = []
    alike: dict[str, Protected] = {}
    refused: list[UserError | StrategyError | PlatformError] = []
    for scheme, protection in pairs:
        try:
            of_pair, reason = _of_pair(situation, scheme, protection, alike.get(protection))
        except (UserError, StrategyError, PlatformError) as error:
            if situation.stated_redundancy(scheme) is not None:
                raise
            refused.append(error)
            left_out.append(LeftOut(scheme, protection, _reason_of(error, protection)))
            continue
        found += of_pair
        for one in of_pair:
            alike.setdefault(protection, one.choices[0].resolved.protected)
        if reason is not None and not of_pair:
            left_out.append(LeftOut(scheme, protection, reason))
    if refused and len(refused) == len(pairs):
        raise refused[0]
    leading, behind = _leading(sorted(found, key=lambda one: one.order))
    return Candidates(tuple(leading), tuple(left_out), behind)


def _reason_of(error: Exception, protection: str) -> str:
    """Return why a pair cannot be built, without the place: the pair is named beside it."""
    if isinstance(error, StrategyError):
        return f"{error.what}; {error.remedy}"
    return str(error).removeprefix(f'protection.name = "{protection}": ')


def _leading(found: Iterable[Candidate]) -> tuple[list[Candidate], int]:
    """Return the first candidates of each scheme and moment of return, and the number of others.

    The first of each scheme come first, then the second of each, as real time may be short.
    Closed forms compare protections under one scheme well; schemes are compared by simulation.
    """
    taken: Counter[tuple[str, str, str, int]] = Counter()
    places: Counter[str] = Counter()
    leading: list[tuple[int, Candidate]] = []
    behind = 0
    for one in found:
        taken[one.key] += 1
        # Closed forms do not see that frequent checkpoints on storage let groups return soon.
        first = one.choices[0]
        is_soon = first.returns_groups and first.protection == "storage"
        if taken[one.key] <= MOST_SET_UPS or is_soon:
            places[one.scheme] += 1
            leading.append((places[one.scheme], one))
        else:
            behind += 1
    leading.sort(key=lambda pair: pair[0])
    return [one for _, one in leading], behind


def _of_pair(
    situation: Situation, scheme: str, protection: str, alike: Protected | None
) -> tuple[list[Candidate], str | None]:
    """Return the candidates of a scheme over a protection, and why others would not finish.

    No closed form compares redundancies whose groups return before a restart. If they return soon,
    the least redundancy suffices: it is a candidate of its own.
    """
    found, why = [], None
    for moment in situation.moments_of_return(scheme):
        choices = choices_of(situation, scheme, protection, moment, alike)
        reasons = [why_untrained(situation, choice) for choice in choices]
        why = why or reasons[0]
        pairs = zip(choices, reasons, strict=True)
        finishing = [choice for choice, reason in pairs if reason is None]
        returning = [choice for choice in finishing if choice.returns_groups]
        if not returning:
            found += [Candidate(tuple(finishing))] if finishing else []
            continue
        least = min(returning, key=lambda choice: choice.redundancy)
        found += [Candidate((one,)) for one in _distinct((finishing[0], least))]
    return found, why


def _distinct(choices: Iterable[Choice]) -> list[Choice]:
    return list({choice.redundancy: choice for choice in choices}.values())


def _chosen(option: str, kind: str, names: Sequence[str] | None, known: Iterable[str]) -> list[str]:
    """Return the names to plan: those of an option, or all; an unknown name is a UserError."""
    all_names = list(known)
    for name in names or ():
        if name not in all_names:
            raise UserError(f"{option} {name}: no such {kind}; {did_you_mean(name, all_names)}")
    return list(dict.fromkeys(names or all_names))


def why_unfit(situation: Situation, scheme: str) -> str | None:
    """Return why a scheme cannot train a job under any protection; None if it may."""
    scenario, made = situation.scenario, strategy_class(scheme)
    if lacks_layout(scenario.model, scheme):
        return NEEDS_LAYOUT
    if "standbys" in made.needs and not standbys_of(scenario):
        return "no machine stands by: set recovery.hardware=standby and recovery.standbys"
    error = made.unfit_for(job_shape(scenario))
    return None if error is None else str(error)


def why_untrained(situation: Situation, choice: Choice) -> str | None:
    """Return why a choice would not finish in time; None if it would.

    The horizon is ``job.time_limit_s``. A job that finishes before its first restart passes; so
    does a scheme that continues with broken groups, since no closed form covers it.
    """
    if strategy_class(choice.scheme).tracks_components:
        return None
    job = situation.scenario.job
    horizon_s = HUNDRED_YEARS_S if job.time_limit_s is None else job.time_limit_s
    horizon = _long_time(horizon_s)
    if horizon_s != HUNDRED_YEARS_S:
        horizon = f"job.time_limit_s ({horizon})"
    needed_s, restart_s = choice.ratio * situation.ideal_s, situation.restart_s
    if needed_s <= horizon_s or choice.steps_per_life >= job.steps:
        return None
    if restart_s >= horizon_s:
        return (
            f"a restart takes {_long_time(restart_s)}, longer than {horizon}, and one is due after "
            f"{choice.steps_per_life:,.1f} of {job.steps:,} steps: the job would never finish"
        )
    return f"would take {_long_time(needed_s)}, longer than {horizon}"


def _long_time(seconds: float) -> str:
    years = seconds / (365.25 * DAY_S)
    if years < 2:
        return time_text(seconds)
    return f"{years:,.0f} years" if years < 1e6 else "more than a million years"
