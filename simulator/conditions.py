"""What a job goes on under: slow components, a network that carries less, storage that is away.

A condition begins and ends at its times, whatever the job does. The job takes it in at the first
step that begins later; so does the moment of a hang, or of whatever else just happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush, merge
from math import inf
from typing import NamedTuple, Protocol

from faultline.simulator.durations import AllReduceTime
from faultline.simulator.failures.failure import NETWORK, TO_THE_NETWORK, Failure, Kind, Level
from faultline.simulator.failures.mix import Cause, stream_index
from faultline.simulator.pattern.activity_graph import Rank
from faultline.simulator.pattern.step_shares import SlowStep
from faultline.simulator.random_streams import Purpose, stream

LASTING: frozenset[Kind] = frozenset({"slow", "partial", "storage"})
"""Kinds that are conditions; others happen at one moment, or at two."""


class Effect(NamedTuple):
    """What a slow component, or one that the network lacks, does to a step."""

    compute: float = 1.0  # How many times as long its groups compute.
    collective: float = 1.0  # How many times as long an all-reduce takes that they are part of.
    # Parts of the platform that are down, around which there is a way.
    without: tuple[str, ...] = ()
    # What is left of the bandwidth of links, where messages are played.
    links: tuple[tuple[str, float], ...] = ()
    # How many times as long its ranks compute, where each of a job is simulated.
    ranks: tuple[tuple[Rank, float], ...] = ()


class Effects(Protocol):
    """What components do to a step, by where they are."""

    def __call__(self, failure: Failure, factor: float = 1.0, types: int = 1) -> Effect:
        """Return the effect of a component on a step of some shard types in one go.

        Each computation takes `factor` times as long as usual.
        """
        ...

    def together(
        self, failures: Sequence[Failure], group: int, factor: float = 1.0, types: int = 1
    ) -> float:
        """Return how many times as long a group computes of which several components are slow."""
        ...

    def places(self, failure: Failure, group: int) -> Sequence[Failure]:
        """Return the component at each place of a group that differs; none if it then harms nobody.

        The places for what carries messages are such where it is spared those of the collective.
        """
        ...


@dataclass(frozen=True, slots=True)
class StatedEffects:
    """Effects on a job whose compute is stated.

    Groups wait for their slowest GPU, and whatever GPUs are part of; of the network, all messages
    of the collective pass what is slow. None is known to pass NVLink.
    """

    all_reduce_s: AllReduceTime  # What an all-reduce takes.
    groups: int  # Groups of the job.
    # What is gone with switches and cables without which messages are played another way.
    around: Mapping[Level, Sequence[tuple[str, ...]]] = field(default_factory=dict)
    stages: int = 1  # Stages of a group, between which what is sent is hidden.

    def __call__(self, failure: Failure, factor: float = 1.0, types: int = 1) -> Effect:
        """Return the effect of a component, which is the same at any factor."""
        around = self.around.get(failure.level, ())
        if around and failure.kind == "partial" and failure.factor == 1.0:
            return Effect(without=around[failure.number % len(around)])
        if failure.level == "nvlink":
            return Effect()
        if failure.kind != "partial" and failure.level not in NETWORK:
            return Effect(compute=failure.factor)
        whole_s, slowed = self.all_reduce_s(self.groups), self.all_reduce_s.slowed(failure.factor)
        return Effect(collective=slowed(self.groups) / whole_s if whole_s else 1.0)

    def together(
        self, failures: Sequence[Failure], group: int, factor: float = 1.0, types: int = 1
    ) -> float:
        """Return how many times as long a group computes: as its slowest GPU."""
        return max(self(failure).compute for failure in failures)

    def places(self, failure: Failure, group: int) -> Sequence[Failure]:
        """Return a place in the group; none for an adapter that only pipelines use from then on."""
        hides = failure.level in TO_THE_NETWORK and self.stages > 1
        return () if hides else (failure._replace(groups=range(group, group + 1)),)


@dataclass(frozen=True, slots=True)
class Slowdown:
    """What slows a step of some members."""

    # How many times as long a member computes, of those that are slow.
    compute: Mapping[int, float] = field(default_factory=dict, hash=False)
    collective: float = 1.0  # How many times as long the all-reduce takes.
    causes: tuple[Failure, ...] = ()  # The components behind it.
    # Micro-batches of those groups that were dealt more or fewer than usual.
    deal: Mapping[int, int] = field(default_factory=dict, hash=False)
    links: tuple[tuple[str, float], ...] = ()  # As of `Effect`.
    ranks: tuple[tuple[Rank, float], ...] = ()  # As of `Effect`.

    @property
    def step(self) -> SlowStep:
        """What is slow in a step that is simulated."""
        return SlowStep(self.links, self.ranks, tuple(sorted(self.deal.items())))

    @property
    def ranks_are_known(self) -> bool:
        """Whether all that is slow is a rank or a link that is known."""
        return bool(self.ranks) or all(one.level in NETWORK for one in self.causes)

    def at(self, factor: float, effects: Effects, types: int = 1) -> Slowdown:
        """Return the same where each computation takes `factor` times as long.

        Messages take as long as ever, so a slow link counts for less of it. Of several shard types
        in one go, pipelines are filled and drained once.
        """
        if not self.compute or self.deal:
            return self
        compute = {}
        for group in self.compute:
            struck = [one for one in self.causes if group in one.groups]
            slow = tuple(one for one in struck if effects(one).compute > 1.0)
            if len(slow) == 1:
                compute[group] = effects(slow[0], factor, types).compute
            else:
                compute[group] = effects.together(slow, group, factor, types)
        return replace(self, compute=compute)

    def at_most(self, slowest: float) -> Slowdown:
        """Return the same where the slowest member takes so many times as long, and no other more.

        A step that is simulated with all of its members has no known time for each of them.
        """
        first = max(self.compute, key=self.compute.__getitem__)
        compute = {group: min(factor, slowest) for group, factor in self.compute.items()}
        return replace(self, compute={**compute, first: slowest})

    @property
    def slowest(self) -> float:
        """How many times as long the slowest member computes."""
        return max(self.compute.values()) if self.compute else 1.0


UNDISTURBED = Slowdown()

SlowParts = Sequence[tuple[Failure, Effect]]
"""What is slow, and what each alone does to a step."""


def slowdown_of(
    slow_parts: SlowParts,
    members: Sequence[int],
    together: Callable[[tuple[Failure, ...], int], float],
) -> Slowdown:
    """Return what slows a step of some groups; of an all-reduce the worst of its parts.

    What several components of one group do to it, `together` tells.
    """
    if not slow_parts:
        return UNDISTURBED
    taking_part = set(members)
    slow: dict[int, list[tuple[Failure, Effect]]] = {}
    collective, causes = 1.0, []
    links: dict[str, float] = {}
    ranks: dict[Rank, float] = {}
    for failure, effect in slow_parts:
        struck = [group for group in failure.groups if group in taking_part]
        if not struck:
            continue
        causes.append(failure)
        collective = max(collective, effect.collective)
        for link, share in effect.links:
            links[link] = min(share, links.get(link, 1.0))
        for rank, factor in effect.ranks:
            ranks[rank] = max(factor, ranks.get(rank, 1.0))
        if effect.compute > 1.0:
            for group in struck:
                slow.setdefault(group, []).append((failure, effect))
    compute = {
        group: parts[0][1].compute
        if len(parts) == 1
        else together(tuple(failure for failure, _ in parts), group)
        for group, parts in slow.items()
    }
    if not causes:
        return UNDISTURBED
    left, slower = tuple(sorted(links.items())), tuple(sorted(ranks.items()))
    return Slowdown(compute, collective, tuple(causes), {}, left, slower)


@dataclass(frozen=True, slots=True)
class Disturbances:
    """The failures of a run that stop no group."""

    # Begins them anew, in the order of time, whatever the job does.
    begin: Callable[[], Iterator[Failure]]
    effects: Effects  # What components do to a step.
    causes: tuple[str, ...] = ()  # Those that are counted.


class Conditions:
    """What holds for a job as time goes on.

    Parameters
    ----------
    disturbances : Disturbances or None
        What there is of them.

    Attributes
    ----------
    counts : dict of str to int
        How many have begun by now, by cause.
    without : tuple of str
        The parts that are down around which there is a way, each once.
    slow : sequence of (Failure, Effect)
        What is slow, and what it does to a step.
    storage_back_s : float
        When storage is there again, in seconds; minus infinity while it is there.
    next_change_s : float
        When to look again, in seconds; minus infinity where something has changed that nobody has
        asked for.
    """

    def __init__(self, disturbances: Disturbances | None) -> None:
        self._failures = disturbances.begin() if disturbances else iter(())
        self._effects = disturbances.effects if disturbances else None
        self._next = next(self._failures, None)
        self._ends: list[tuple[float, int, Failure]] = []
        self._begun: list[Failure] = []
        self._ended: list[Failure] = []
        self._met = 0
        self.slow: SlowParts = ()
        self.counts = dict.fromkeys(disturbances.causes if disturbances else (), 0)
        self.without: tuple[str, ...] = ()
        self.storage_back_s = -inf
        self.next_change_s = self._next.time_s if self._next else inf

    def advance(self, now_s: float) -> None:
        """Take in what has happened by now."""
        changed = False
        while self._next and self._next.time_s <= now_s:
            failure, self._next = self._next, next(self._failures, None)
            if failure.cause in self.counts:
                self.counts[failure.cause] += 1
            self._met += 1
            changed = True
            if failure.kind not in LASTING:
                self._begun.append(failure)
            if failure.kind not in ("flap", "hang"):
                heappush(self._ends, (failure.time_s + failure.lasts_s, self._met, failure))
        while self._ends and self._ends[0][0] <= now_s:
            failure = heappop(self._ends)[-1]
            changed = True
            if failure.kind not in LASTING:
                self._ended.append(failure)
        if changed:
            self._look()
            self.next_change_s = -inf

    def happened(self) -> tuple[list[Failure], list[Failure]]:
        """Return what has begun and ended since the last call, of what is no condition."""
        begun, self._begun = self._begun, []
        ended, self._ended = self._ended, []
        self.next_change_s = min(
            self._next.time_s if self._next else inf, self._ends[0][0] if self._ends else inf
        )
        return begun, ended

    def effect(self, failure: Failure) -> Effect:
        """Return what a component would do to a step."""
        assert self._effects is not None
        return self._effects(failure)

    def together(self, failures: tuple[Failure, ...], group: int) -> float:
        """Return how many times as long a group computes (`Effects.together`)."""
        assert self._effects is not None
        return self._effects.together(failures, group)

    def places(self, failure: Failure, group: int) -> Sequence[Failure]:
        """Return the component at each place of a group that differs (`Effects.places`)."""
        assert self._effects is not None
        return self._effects.places(failure, group)

    def _look(self) -> None:
        lasting = [failure for _, _, failure in sorted(self._ends) if failure.kind in LASTING]
        away = [one.time_s + one.lasts_s for one in lasting if one.kind == "storage"]
        self.storage_back_s = max(away, default=-inf)
        assert self._effects is not None
        found = [(one, self._effects(one)) for one in lasting if one.kind != "storage"]
        self.without = tuple(sorted({name for _, effect in found for name in effect.without}))
        self.slow = tuple(
            one for one in found if one[1].compute > 1 or one[1].collective > 1 or one[1].links
        )


def drawn_outages(
    causes: Sequence[Cause],
    gpus: int,
    groups: int,
    switches: int,
    repair_s: float,
    seed: int,
) -> Iterator[Failure]:
    """Yield the outages of switches around which there is a way, all equally likely.

    Parameters
    ----------
    causes : sequence of Cause
        Why they fail, with the rates of all of these switches together.
    gpus, groups : int
        GPUs of the job, by which rates are stated, and its groups.
    switches : int
        How many there are.
    repair_s : float
        Seconds to repair one, where the cause does not say.
    seed : int
        Seed of the run.
    """
    drawn = (_by_cause(one, gpus, range(groups), switches, repair_s, seed) for one in causes)
    return merge(*drawn)


def _by_cause(
    cause: Cause, gpus: int, groups: range, switches: int, repair_s: float, seed: int
) -> Iterator[Failure]:
    # Streams of their own: the failures that do take groups down stay what they are.
    index = stream_index(f"{cause.name}, with a way around")
    times, places, repairs = (
        stream(seed, purpose, index)
        for purpose in (Purpose.CAUSE_TIMES, Purpose.CAUSE_PLACES, Purpose.CAUSE_REPAIRS)
    )
    between, now_s = cause.time_between_failures(gpus), 0.0
    while True:
        now_s += between.sample(times, 1)[0]
        lasts_s = cause.repair.sample(repairs, 1)[0] if cause.repair else repair_s
        number = int(places.integers(switches))
        yield Failure(now_s, "switch", number, cause.name, "partial", None, groups, lasts_s)


def shared_out(causes: Sequence[Cause], fatal: int, around: int) -> tuple[Cause, ...]:
    """Return causes at the rates of the switches that have a way around them.

    Counts of interruptions are of those that have none; each of the others fails as often. Where
    none is fatal, the others are struck in their place.
    """
    ratio = around / fatal if fatal else 1.0
    return tuple(replace(one, rate_per_gpu_s=ratio * one.rate_per_gpu_s) for one in causes)
