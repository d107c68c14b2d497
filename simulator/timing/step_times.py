"""Times of steps on a platform, by members, shares and conditions: SimGrid simulates each once.

Not all equal ranks are simulated. Replicas and tensor-parallel positions fold into one if the
platform treats them alike: same speeds, and for each kind of message routes of the same latency and
the same share of their narrowest link while all ranks send. Positions fold into two if the links of
their ring carry other traffic. Gradients that hide behind the passes arrive from replicas that are
not simulated at the times at which simulated replicas send theirs. If a link carries messages of
several ranks and fewer are simulated, its bandwidth shrinks by that ratio. Groups with different
work are simulated too, each as if all groups did its work. All ranks are simulated in a small step,
in a step with slow ranks, and on a platform that is uneven anywhere on a route.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from faultline.platforms.outages import bandwidths_with_parts_down
from faultline.platforms.platform_data import Platform
from faultline.platforms.symmetry import Symmetry
from faultline.platforms.xml_reader import read_platform
from faultline.simulator.job.durations import StepTime
from faultline.simulator.pattern.activity_graph import Rank
from faultline.simulator.pattern.placed_step import PlacedStep
from faultline.simulator.pattern.plan_shares import SOUND_STEP, SlowStep, StepShares
from faultline.simulator.pattern.step_pattern import StepPattern
from faultline.simulator.pattern.teams import Hosts
from faultline.simulator.simgrid.traffic import Traffic
from faultline.simulator.timing.alike_states import AlikeStates
from faultline.simulator.timing.kept_platform import look_up_on, simulate_on
from faultline.simulator.timing.probe_cache import cached
from faultline.simulator.timing.transfer_times import all_reduce_s

if TYPE_CHECKING:
    import simgrid

Result = TypeVar("Result")

# Raise this number if the method of measuring changes; raise `PlacedStep.version` if steps change.
_VERSION = 15

_MOST_UNFOLDED_PASSES = 1024
"""Largest number of forward passes in a step for which all ranks are simulated: about 0.1 s."""

_SharedStep = tuple[PlacedStep, StepShares]
"""A step on its hosts, with the share of each member."""


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
    # The representative steps of members.
    _alike: dict[StepShares, _SharedStep] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
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
        step = self.step
        if self.is_even and not (slow == SOUND_STEP or slow.ranks or step.keeps_ranks_apart):
            shares, slow = self._canonical(shares, slow)
            if slow != SOUND_STEP and any(line.stages for line in shares.pipelines):
                return self._with_both(shares, slow, stages, factor)
        if self.is_even and slow == SOUND_STEP:
            step, shares = self._represented(shares)
        key = step, shares, slow, stages, factor
        if key not in self._known:
            whole = None if shares == self._everyone else shares
            slower = step.with_slow_stages(dict(stages)) if stages else step
            slower = slower if factor == 1.0 else slower.slower(factor)
            self._known[key] = step_time(self.platform, slower, whole, slow)
        return self._known[key]

    def _canonical(self, shares: StepShares, slow: SlowStep) -> tuple[StepShares, SlowStep]:
        """Return a state of equal time over narrowed links: the same for all such states."""
        left = remaining_shares(self.platform, slow)
        changed_ns = self.platform.stat().st_mtime_ns
        found = _alike_states(self.platform, changed_ns, self.step).canonical(shares, left)
        if found is None:
            return shares, slow
        return found[0], SlowStep(found[1])

    def _with_both(
        self,
        shares: StepShares,
        slow: SlowStep,
        stages: tuple[tuple[int, float], ...],
        factor: float,
    ) -> StepTime:
        """Return the time of a large step with changed pipelines over narrowed links.

        The narrowed links cost it as much as an unchanged step of the same members: all of its
        ranks would be simulated otherwise, which takes a minute.
        """
        sound, narrowed = SOUND_STEP._replace(stages=stages), slow._replace(stages=stages)
        plain = shares._replace(pipelines=())
        changed = self._time(shares, sound, factor)
        more, less = self._time(plain, narrowed, factor), self._time(plain, sound, factor)
        parts = {
            one.name: getattr(changed, one.name) + getattr(more, one.name) - getattr(less, one.name)
            for one in fields(changed)
            if one.name.endswith("_s")
        }
        return replace(changed, **parts)

    def _represented(self, shares: StepShares) -> _SharedStep:
        """Return a step of equal time; with few GPUs, latencies of all routes are equal too."""
        if shares not in self._alike:
            step, working = self.step, shares.working
            if shares == self._everyone:
                self._alike[shares] = step, shares
                return step, shares
            if step.keeps_ranks_apart:
                # Rings connect groups in ascending order.
                working.sort()
                step = step.with_first(working, self.symmetry().stand_ins)
            self._alike[shares] = step, shares.renamed(working, step.groups)
        return self._alike[shares]


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
        left = remaining_shares(self.platform, slow)
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
        left = remaining_shares(platform, slow)
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


def remaining_shares(platform: Path, slow: SlowStep) -> tuple[tuple[str, float], ...]:
    """Return the share of its bandwidth that each affected link has left."""
    left = dict[str, float]()
    if slow.parts_down:
        content = _content(platform, platform.stat().st_mtime_ns)
        left = bandwidths_with_parts_down(content, slow.parts_down)
    for link, share in slow.links:
        left[link] = min(share, left.get(link, 1.0))
    return tuple(sorted(left.items()))


@lru_cache(maxsize=2)
def _content(platform: Path, _changed_ns: int) -> Platform:
    return read_platform(platform)


@lru_cache(maxsize=2)
def _alike_states(platform: Path, changed_ns: int, step: PlacedStep) -> AlikeStates:
    return AlikeStates(_content(platform, changed_ns), step)


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
