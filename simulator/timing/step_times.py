"""Times of steps on a platform, by members, shares and conditions: SimGrid simulates each once.

Not all equal ranks are simulated. Replicas and tensor-parallel positions fold into one if the
platform treats them alike: same speeds, and for each kind of message routes of the same latency and
the same share of their narrowest link while all ranks send. Positions fold into two if the links of
their ring carry other traffic. Gradients that hide behind the passes arrive from replicas that are
not simulated at the times at which simulated replicas send theirs. If a link carries messages of
several ranks and fewer are simulated, its bandwidth shrinks by that ratio. Groups with different
work are simulated too, each as if all groups did its work. All ranks are simulated in a small step,
in a step with slow ranks, and on a platform that is uneven anywhere on a route.

A step of more than a few groups is simulated for some sets of members; the time of any other set
follows from these (`AlikeMembers`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from faultline.platforms.outages import bandwidths_left
from faultline.platforms.symmetry import Symmetry
from faultline.platforms.xml_reader import platform_at
from faultline.simulator.job.durations import StepTime
from faultline.simulator.pattern.activity_graph import Rank
from faultline.simulator.pattern.alike_pipelines import Kind, for_all, kinds_of
from faultline.simulator.pattern.placed_step import PlacedStep
from faultline.simulator.pattern.plan_shares import SOUND_STEP, SlowStep, StepShares
from faultline.simulator.pattern.step_pattern import StepPattern
from faultline.simulator.pattern.teams import Hosts
from faultline.simulator.simgrid.traffic import Traffic
from faultline.simulator.timing.alike_members import AlikeMembers, Place, places_of
from faultline.simulator.timing.alike_states import AlikeStates, LinkShares
from faultline.simulator.timing.kept_platform import look_up_on, simulate_on
from faultline.simulator.timing.probe_cache import cached
from faultline.simulator.timing.transfer_times import all_reduce_s

if TYPE_CHECKING:
    import simgrid

Result = TypeVar("Result")

# Raise this number if the method of measuring changes; raise `PlacedStep.version` if steps change.
_VERSION = 16

_MOST_UNFOLDED_PASSES = 1024
"""Largest number of forward passes in a step for which all ranks are simulated: about 0.1 s."""

_FEW_GROUPS, _FEW_GPUS = 8, 32
"""Each set of members is simulated itself if this many groups work, or the job has so few GPUs."""

_MOST_KNOWN = 10_000

_PARTS = tuple(one.name for one in fields(StepTime) if one.name.endswith("_s"))

_SYNC_PARTS = ("data_parallel_s", "optimizer_s")


class _Conditions(NamedTuple):
    """What a step meets besides its shares: `slow` without its stages, and the rest."""

    slow: SlowStep
    stages: tuple[tuple[int, float], ...]
    factor: float  # How many times as long computations take.


def _changed(total: StepTime, more: StepTime, less: StepTime, weight: float = 1.0) -> StepTime:
    """Return a time, changed by a share of the difference of two others, part by part."""
    parts = {
        name: getattr(total, name) + weight * (getattr(more, name) - getattr(less, name))
        for name in _PARTS
    }
    return replace(total, **parts)


@dataclass(frozen=True)
class SimulatedStepTimes:
    """Times of steps that SimGrid simulates; each distinct step is simulated once.

    If the platform `is_even`, it treats all members alike: then any members represent others that
    are as far from each other.
    """

    platform: Path  # Platform XML.
    step: PlacedStep  # The step of all groups.
    is_even: bool
    symmetry: Callable[[], Symmetry] = field(repr=False, compare=False)
    _known: dict[object, StepTime] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def depends_on_members(self) -> bool:
        """Whether times depend on the members, not only on their number."""
        return not self.is_even

    def passes_s(
        self,
        shares: StepShares,
        slow: SlowStep = SOUND_STEP,
        rounds: int = 1,
        factor: float = 1.0,
    ) -> float:
        """Return the time of the slowest member for `rounds` rounds of its share, in seconds.

        Computations take `factor` times as long.
        """
        hides, shares = self.step.pattern.hides, self._dealt(shares, slow)
        is_sound = slow._replace(deal=(), stages=()) == SOUND_STEP
        changed = any(line.stages for line in shares.pipelines)
        if self.is_even and is_sound and not hides and not changed:
            # Members are alike, so their number has no effect.
            shares = shares._replace(members=self._everyone.members, pipelines=())
        if not hides:
            return rounds * self._passes_s(shares, slow, factor)
        each = (shares.of_round(number, rounds) for number in range(rounds))
        return sum(self._passes_s(one, slow, factor) for one in each)

    def exchange_s(self, shares: StepShares, slow: SlowStep = SOUND_STEP) -> float:
        """Return the time from the last pass to the end of the step, in seconds."""
        return self._time(self._dealt(shares, slow), slow).sync_s

    def _dealt(self, shares: StepShares, slow: SlowStep) -> StepShares:
        pattern = self.step.pattern
        return shares.dealt(slow.deal, pattern.pipeline, pattern.tensor)

    @cached_property
    def _everyone(self) -> StepShares:
        return StepShares(tuple(range(self.step.groups)))

    def _passes_s(self, shares: StepShares, slow: SlowStep, factor: float) -> float:
        sound = self._time(shares, slow)
        if factor == 1.0:
            return sound.passes_s
        # Slower passes hide more gradients. `exchange_s` has no factor: the difference counts here.
        return self._time(shares, slow, factor).step_s - sound.sync_s

    def _time(self, shares: StepShares, slow: SlowStep, factor: float = 1.0) -> StepTime:
        stages, slow = slow.stages, slow._replace(deal=(), stages=())
        key = shares, _Conditions(slow, stages, factor)
        if key not in self._known:
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            self._known[key] = self._found(*key)
        return self._known[key]

    def _found(self, shares: StepShares, conditions: _Conditions) -> StepTime:
        """Return the time of the very step if it is of few groups, or like no other."""
        like_no_other = shares.pipelines and not self._alike_members.are_all_alike
        few = len(self.step.names) <= _FEW_GPUS or len(shares.computing_groups) <= _FEW_GROUPS
        if few or conditions.slow.ranks or like_no_other:
            return self._simulated(shares, conditions)
        return self._by_parts(shares, conditions)

    def _simulated(self, shares: StepShares, conditions: _Conditions) -> StepTime:
        """Return the time of the very step, or of one of equal time."""
        step = self.step
        if conditions.slow == SOUND_STEP:
            step, shares = self._representative(shares)
        return self._measured(step, shares, conditions)

    @cached_property
    def _alike_members(self) -> AlikeMembers:
        if self.is_even:
            return AlikeMembers([Place(group, None) for group in range(self.step.groups)])
        return AlikeMembers(places_of(platform_at(self.platform), self.step, self.symmetry()))

    def _measured(self, step: PlacedStep, shares: StepShares, conditions: _Conditions) -> StepTime:
        """Return the time of the very step."""
        slow, stages, factor = conditions
        # The digest of the step of all groups would take longer than the rest of most look-ups.
        key = None if step is self.step else step, shares, conditions
        if key not in self._known:
            whole = None if shares == self._everyone else shares
            slower = step.with_slow_stages(dict(stages)) if stages else step
            slower = slower if factor == 1.0 else slower.slower(factor)
            self._known[key] = step_time(self.platform, slower, whole, slow)
        return self._known[key]

    def _by_parts(self, shares: StepShares, conditions: _Conditions) -> StepTime:
        """Return the time of a step of many groups: that of its members, and of each change.

        The slowest kind of pipeline, and narrowed links, cost it as much as a step of which all
        else is sound. So a state that differs in several ways is not simulated itself. Sums
        differ from simulated steps by less than 0.05 %; by up to 0.6 % if all groups share weights.
        """
        sound = conditions._replace(slow=SOUND_STEP)
        working = shares.computing_groups
        total = self._of_members(shares, working, sound)
        pattern = self.step.pattern
        kinds, is_usual = kinds_of(shares, pattern.pipeline, pattern.micro_batches, pattern.tensor)
        if kinds:
            total = self._with_kinds(total, kinds, shares, sound, is_usual=is_usual)
        if conditions.slow != SOUND_STEP:
            members, left = self._alike_state(working, _left(self.platform, conditions.slow))
            if left:
                narrowed = conditions._replace(slow=SlowStep(left))
                more = self._of(members, shares, narrowed)
                total = _changed(total, more, self._of_members(shares, members, sound))
        return total

    def _alike_state(
        self, working: Sequence[int], left: LinkShares
    ) -> tuple[tuple[int, ...], LinkShares]:
        """Return members and narrowed links that represent all states of about equal time."""
        if self._alike_members.are_all_alike:
            changed_ns = self.platform.stat().st_mtime_ns
            found = _alike_states(self.platform, changed_ns, self.step).canonical(working, left)
            if found is not None:
                return found
        return tuple(sorted(working)), left

    def _with_kinds(
        self,
        total: StepTime,
        kinds: Sequence[Kind],
        shares: StepShares,
        conditions: _Conditions,
        *,
        is_usual: bool,
    ) -> StepTime:
        """Return the time of a step with changed pipelines, given that of its members.

        If some groups work as usual (`is_usual`), each kind is simulated beside such groups;
        otherwise, as if all groups were of that kind.
        """
        everyone = self._everyone.members
        timed = []
        for kind in kinds:
            pipelines = kind if is_usual else for_all(kind, self.step.groups)
            alike = shares._replace(members=everyone, pipelines=pipelines)
            sound = self._of_members(shares, alike.computing_groups, conditions)
            timed.append((self._measured(self.step, alike, conditions), sound))
        slowest, usual = max(timed, key=lambda pair: pair[0].passes_s - pair[1].passes_s)
        last, sound = max(timed, key=lambda pair: pair[0].sync_s - pair[1].sync_s)
        passes, sync = _changed(total, slowest, usual), _changed(total, last, sound)
        return replace(passes, **{name: getattr(sync, name) for name in _SYNC_PARTS})

    def _of_members(
        self, shares: StepShares, members: Sequence[int], conditions: _Conditions
    ) -> StepTime:
        """Return the time of a sound step of some members with unchanged pipelines."""
        first = self._alike_members.first(members)
        total = self._of(first, shares, conditions)
        if len(first) == len(members):
            return total
        fewer, more = (
            self._of_number(shares, len(groups), conditions) for groups in (members, first)
        )
        return _changed(total, fewer, more)

    def _of_number(self, shares: StepShares, members: int, conditions: _Conditions) -> StepTime:
        """Return the time of a sound step of a number of members that fill their domains.

        Each of its parts is a constant, and another over the number of members. Both follow from
        two steps that are simulated, of more members and of at most half of those.
        """
        levels = self._alike_members.levels
        if len(levels) == 1:
            return self._of(levels[0], shares, conditions)
        fewer = next((level for level in levels[1:] if len(level) <= members), levels[-1])
        more = levels[levels.index(fewer) - 1]
        members = max(members, len(fewer))
        weight = (1.0 / members - 1.0 / len(more)) / (1.0 / len(fewer) - 1.0 / len(more))
        least, most = (self._of(groups, shares, conditions) for groups in (fewer, more))
        return _changed(most, least, most, weight)

    def _of(
        self, members: tuple[int, ...], shares: StepShares, conditions: _Conditions
    ) -> StepTime:
        """Return the time of a simulated step of some members with unchanged pipelines."""
        return self._measured(self.step, shares._replace(members=members, pipelines=()), conditions)

    def _representative(self, shares: StepShares) -> tuple[PlacedStep, StepShares]:
        """Return a step of equal time; with few GPUs, latencies of all routes are equal too."""
        step, working = self.step, shares.working
        if shares == self._everyone or not self.is_even:
            return step, shares
        if step.keeps_ranks_apart:
            # Rings connect groups in ascending order.
            working.sort()
            step = step.with_first(working, self.symmetry().stand_ins)
        return step, shares.renamed(working, step.groups)


@dataclass(frozen=True)
class MeasuredExchanges:
    """Times of steps with a stated compute time and a measured all-reduce."""

    platform: Path  # Platform XML.
    traffic: Traffic  # Traffic of all groups.
    compute_s: float  # Time to compute one shard type, in seconds.
    depends_on_members: bool = False  # Whether times depend on more than the number of members.
    step: None = None  # Steps are not simulated.

    def passes_s(
        self,
        shares: StepShares,
        slow: SlowStep = SOUND_STEP,
        rounds: int = 1,
        factor: float = 1.0,
    ) -> float:
        """Return the compute time, in seconds; it includes no messages."""
        return rounds * shares.stack_size * self.compute_s * factor

    def exchange_s(self, shares: StepShares, slow: SlowStep = SOUND_STEP) -> float:
        """Return the time of the members' all-reduce, in seconds."""
        hosts = tuple(tuple(self.traffic.hosts[group]) for group in sorted(shares.members))
        left = _left(self.platform, slow)
        return all_reduce_s(self.platform, hosts, self.traffic.bytes_per_rank, left)


def step_time(
    platform: Path, step: PlacedStep, shares: StepShares | None = None, slow: SlowStep = SOUND_STEP
) -> StepTime:
    """Return the time of a step on a platform, by default with equal shares of all groups."""
    return _step_time(platform, platform.stat().st_mtime_ns, step, shares, slow)


@lru_cache(maxsize=64)
def _step_time(
    platform: Path, _changed_ns: int, step: PlacedStep, shares: StepShares | None, slow: SlowStep
) -> StepTime:
    def simulate() -> StepTime:
        left = _left(platform, slow)
        arguments = step.hosts, step.pattern, dict(left), shares

        def simulate_with_left() -> StepTime:
            look_up_on(platform, look_up_step, *arguments)
            return simulate_on(platform, simulate_step, *arguments, dict(slow.ranks))

        if not slow.parts_down:
            return simulate_with_left()
        # Which rail of a server is down has no effect: its GPUs share the other rails alike.
        same = [_VERSION, repr(step), repr(shares), "left", repr(left), repr(slow.ranks)]
        return cached(platform, same, simulate_with_left, StepTime)

    return cached(platform, [_VERSION, repr(step), repr(shares), repr(slow)], simulate, StepTime)


def _left(platform: Path, slow: SlowStep) -> tuple[tuple[str, float], ...]:
    """Return the share of its bandwidth that each affected link has left."""
    return bandwidths_left(platform, slow.links, slow.parts_down)


@lru_cache(maxsize=2)
def _alike_states(platform: Path, _changed_ns: int, step: PlacedStep) -> AlikeStates:
    return AlikeStates(platform_at(platform), step)


TimeStep = Callable[[Hosts, StepPattern], StepTime]
"""Returns the time of a step on GPU hosts, which are given by replica, stage and position."""


def with_step_timer(
    platform: Path, plan: Callable[[TimeStep], Result], *, folds: bool = True
) -> Result:
    """Call a module-level function that times steps on one platform, in a child process.

    `folds` is whether equal ranks may represent each other. Returns the result of the function.
    """
    return simulate_on(platform, _with_timer, plan, folds)


def simulate_step(
    engine: simgrid.Engine,
    hosts: Hosts,
    pattern: StepPattern,
    bandwidths: Mapping[str, float],
    shares: StepShares | None = None,
    slow: Mapping[Rank, float] = MappingProxyType({}),
) -> StepTime:
    """Return the time of a step on an engine's platform.

    `bandwidths` are the remaining shares of the bandwidth of some links, by name. Computations of
    the ranks in `slow` take these factors longer.
    """
    from faultline.simulator.simgrid.links import narrowed
    from faultline.simulator.timing.step_timer import StepTimer

    ranks = sum(len(stage) for replica in hosts for stage in replica)
    folds = ranks * pattern.micro_batches * pattern.virtual_stages > _MOST_UNFOLDED_PASSES
    link_shares = frozenset(bandwidths.items())
    with narrowed(bandwidths):
        return StepTimer(engine, folds, link_shares)(hosts, pattern, shares, slow)


def look_up_step(
    engine: simgrid.Engine,
    hosts: Hosts,
    pattern: StepPattern,
    bandwidths: Mapping[str, float],
    shares: StepShares | None = None,
) -> None:
    """Look up the platform properties of `simulate_step`: forks of this process know them."""
    from faultline.simulator.simgrid.links import narrowed
    from faultline.simulator.timing.step_timer import StepTimer

    link_shares = frozenset(bandwidths.items())
    with narrowed(bandwidths):
        StepTimer(engine, folds=True, link_shares=link_shares).look_up(hosts, pattern, shares)


def _with_timer(engine: simgrid.Engine, plan: Callable[[TimeStep], Result], folds: bool) -> Result:
    from faultline.simulator.timing.step_timer import StepTimer

    return plan(StepTimer(engine, folds))
