"""Conditions under which a job goes on: stragglers, a degraded network, an outage of storage.

A condition begins and ends at its own times, whatever the job does. It affects the job from the
next step on; so do a hang and other momentary failures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush, merge
from math import inf
from typing import TYPE_CHECKING

from faultline.simulator.failures.failure import NETWORK, Failure, Kind
from faultline.simulator.failures.mix import Cause, stream_index
from faultline.simulator.failures.random_streams import Purpose, stream
from faultline.simulator.failures.reactions import Reactions, SlowResponse
from faultline.simulator.job.effects import Effect, Effects
from faultline.simulator.pattern.plan_shares import SOUND_STEP, SlowStep

if TYPE_CHECKING:
    from faultline.simulator.pattern.activity_graph import Rank


LASTING: frozenset[Kind] = frozenset({"slow", "partial", "storage"})
"""Kinds of failures that are conditions; other kinds happen at one or two moments."""


@dataclass(frozen=True, slots=True)
class Slowdown:
    """The slowdown of a step of some members."""

    # How many times as long each slow member computes.
    compute: Mapping[int, float] = field(default_factory=dict, hash=False)
    collective: float = 1.0  # How many times as long the all-reduce takes.
    causes: tuple[Failure, ...] = ()  # The components that cause it.
    step: SlowStep = SOUND_STEP  # The stragglers of a step that is simulated.

    @property
    def ranks_are_known(self) -> bool:
        """Whether each straggler is a known rank or link."""
        return bool(self.step.ranks) or all(cause.level in NETWORK for cause in self.causes)

    def at(self, factor: float, effects: Effects, types: int = 1) -> Slowdown:
        """Return the slowdown of a step whose computations take `factor` times as long.

        Messages take their usual time, so a slow link has a smaller effect. With several shard
        types in one go, pipelines are filled and drained once.
        """
        if not self.compute or self.step.deal:
            return self
        compute = {}
        for group in self.compute:
            struck = [cause for cause in self.causes if group in cause.groups]
            slow = tuple(cause for cause in struck if effects(cause).compute > 1.0)
            if len(slow) == 1:
                compute[group] = effects(slow[0], factor, types).compute
            else:
                compute[group] = effects.together(slow, group, factor, types)
        return replace(self, compute=compute)

    def at_most(self, slowest: float, members: Sequence[int]) -> Slowdown:
        """Return this slowdown with `slowest` as the largest factor of one of the members.

        If a step is simulated with all of its members, their single times are unknown.
        """
        if not self.compute:
            return self if slowest == 1.0 else replace(self, compute={members[0]: slowest})
        first = max(self.compute, key=self.compute.__getitem__)
        compute = {group: min(factor, slowest) for group, factor in self.compute.items()}
        return replace(self, compute={**compute, first: slowest})

    @property
    def slowest(self) -> float:
        """How many times as long the slowest member computes."""
        return max(self.compute.values()) if self.compute else 1.0


UNDISTURBED = Slowdown()

SlowParts = Sequence[tuple[Failure, Effect]]
"""The stragglers, each with its own effect on a step."""


def slowdown_of(
    slow_parts: SlowParts,
    members: Sequence[int],
    effects: Effects,
) -> Slowdown:
    """Return the slowdown of a step of some groups; the worst part determines the all-reduce."""
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
        else effects.together(tuple(failure for failure, _ in parts), group)
        for group, parts in slow.items()
    }
    if not causes:
        return UNDISTURBED
    step = SlowStep(tuple(sorted(links.items())), tuple(sorted(ranks.items())))
    return Slowdown(compute, collective, tuple(causes), step)


@dataclass(frozen=True, slots=True)
class Disturbances:
    """The failures of a run that stop no group, and what the job does about them."""

    # Yields them in the order of time, from the start of the run; independent of the job. None
    # without any.
    begin: Callable[[], Iterator[Failure]] | None = field(default=None, compare=False)
    effects: Effects | None = None  # Effects of components on a step; needed if there are any.
    causes: tuple[str, ...] = ()  # Causes that are counted.
    reactions: Reactions = field(default_factory=Reactions)
    slow_response: SlowResponse | None = None  # Mitigation of stragglers; None without any.


NO_DISTURBANCES = Disturbances()


class Conditions:
    """The conditions of a job as time goes on.

    Attributes
    ----------
    effects : Effects or None
        Effects of components on a step; None without any.
    counts : dict of str to int
        How many failures have begun by now, by cause.
    parts_down : tuple of str
        Parts of the network that are down and can be routed around, each once.
    slow : sequence of (Failure, Effect)
        The stragglers, each with its effect on a step.
    storage_back_s : float
        When storage is available again, in seconds; minus infinity while it is available.
    next_change_s : float
        When the next change is due, in seconds; minus infinity until `happened` returns the last.
    """

    def __init__(self, disturbances: Disturbances) -> None:
        self._failures = disturbances.begin() if disturbances.begin else iter(())
        self.effects = disturbances.effects
        self._next = next(self._failures, None)
        self._ends: list[tuple[float, int, Failure]] = []
        self._begun: list[Failure] = []
        self._ended: list[Failure] = []
        self._begun_count = 0
        self.slow: SlowParts = ()
        self.counts = dict.fromkeys(disturbances.causes, 0)
        self.parts_down: tuple[str, ...] = ()
        self.storage_back_s = -inf
        self.next_change_s = self._next.time_s if self._next else inf

    def advance(self, now_s: float) -> None:
        """Apply all changes up to now."""
        changed = False
        while self._next and self._next.time_s <= now_s:
            failure, self._next = self._next, next(self._failures, None)
            if failure.cause in self.counts:
                self.counts[failure.cause] += 1
            self._begun_count += 1
            changed = True
            if failure.kind not in LASTING:
                self._begun.append(failure)
            if failure.kind not in ("flap", "hang"):
                heappush(self._ends, (failure.time_s + failure.lasts_s, self._begun_count, failure))
        while self._ends and self._ends[0][0] <= now_s:
            failure = heappop(self._ends)[-1]
            changed = True
            if failure.kind not in LASTING:
                self._ended.append(failure)
        if changed:
            self._update()
            self.next_change_s = -inf

    def happened(self) -> tuple[list[Failure], list[Failure]]:
        """Return the failures other than conditions that began or ended since the last call."""
        begun, self._begun = self._begun, []
        ended, self._ended = self._ended, []
        self.next_change_s = min(
            self._next.time_s if self._next else inf, self._ends[0][0] if self._ends else inf
        )
        return begun, ended

    def _update(self) -> None:
        """Set the conditions from the failures that have begun and not ended."""
        lasting = [failure for _, _, failure in sorted(self._ends) if failure.kind in LASTING]
        outages = [failure for failure in lasting if failure.kind == "storage"]
        ends_s = (failure.time_s + failure.lasts_s for failure in outages)
        self.storage_back_s = max(ends_s, default=-inf)
        assert self.effects is not None
        parts = [(part, self.effects(part)) for part in lasting if part.kind != "storage"]
        self.parts_down = tuple(sorted({name for _, effect in parts for name in effect.parts_down}))
        self.slow = tuple(
            (part, effect)
            for part, effect in parts
            if effect.compute > 1 or effect.collective > 1 or effect.links
        )


def drawn_outages(
    causes: Sequence[Cause],
    gpus: int,
    groups: int,
    switches: int,
    repair_s: float,
    seed: int,
) -> Iterator[Failure]:
    """Yield the outages of switches that can be routed around, all equally likely.

    The rate of a cause, per GPU of the job, is that of all these switches together. A repair takes
    `repair_s` seconds if the cause does not state it.
    """
    drawn = (_outages_by(cause, gpus, range(groups), switches, repair_s, seed) for cause in causes)
    return merge(*drawn)


def _outages_by(
    cause: Cause, gpus: int, groups: range, switches: int, repair_s: float, seed: int
) -> Iterator[Failure]:
    # These streams are apart from those of the failures that stop groups, which stay unchanged.
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


def routable_causes(causes: Sequence[Cause], fatal: int, around: int) -> tuple[Cause, ...]:
    """Return causes at the rates of the `around` switches that can be routed around.

    The stated rates are of interruptions, so they are those of the `fatal` switches. Each other
    switch fails at the same rate as a fatal one. If none is fatal, the whole rate applies to the
    others.
    """
    ratio = around / fatal if fatal else 1.0
    return tuple(replace(cause, rate_per_gpu_s=ratio * cause.rate_per_gpu_s) for cause in causes)
