"""The step time of a job that trains a model: SimGrid simulates it on the platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from faultline.experiments.config.cluster import platform_at
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.model_numbers import parallel_job
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.job.platform_files import (
    edited_platform,
    explaining_aborts,
    is_plane,
    once_per_file,
    platform_file,
    reduces_on_network,
    spec_of,
    symmetry_of,
    traffic_of,
)
from faultline.simulator.job.durations import MemberTimes, StepTime
from faultline.simulator.pattern.step_shares import SOUND_STEP, SlowStep, StepShares
from faultline.simulator.timing.cache_folder import platform_in_cache
from faultline.strategies.theory.prediction import largest_of_normals

if TYPE_CHECKING:
    # Functions import these on first use: most runs simulate no steps.
    from faultline.simulator.pattern.activity_graph import Rank
    from faultline.simulator.pattern.placed_step import PlacedStep
    from faultline.simulator.simgrid.traffic import Flow, Traffic


# Raise this number if the method of measuring changes; raise `PlacedStep.version` if steps change.
_SIMULATE_VERSION = 14


def is_simulated(scenario: Scenario) -> bool:
    """Return whether a scenario's step is simulated: it names a model and states no compute time.

    Steps on a rail plane are not simulated; see `compute_beside_plane_s`.
    """
    return _lacks_compute(scenario) and not is_plane(spec_of(scenario))


def measures_compute(scenario: Scenario) -> bool:
    """Return whether compute is measured on another platform, since a rail plane cannot time it."""
    return _lacks_compute(scenario) and is_plane(spec_of(scenario))


def _lacks_compute(scenario: Scenario) -> bool:
    return scenario.model.name != "stated" and scenario.times.compute_s is None


_GROUPS_BESIDE = 2
"""Groups whose passes are simulated for a rail plane, on a separate platform of servers."""


def compute_beside_plane_s(scenario: Scenario) -> float:
    """Measure the compute time of a step on a rail plane, in seconds.

    A plane lacks scale-up domains. So the passes of two groups, with their messages between tensor
    ranks and between stages, are simulated on servers of the same spec. The plane itself times the
    all-reduce of gradients. A UserError refuses gradients that hide behind the passes, and an
    edited XML: the servers follow from the spec in it.
    """
    from faultline.platforms.topology import servers_of
    from faultline.platforms.xml_writer import xml_text
    from faultline.simulator.pattern.placed_step import PlacedStep

    table, spec = scenario.model, spec_of(scenario)
    assert spec is not None
    assert spec.plane is not None
    assert spec.plane.domain_gpus is not None
    if edited_platform(scenario) is not None:
        raise UserError(
            f"{scenario.platform.file}: an edited rail plane cannot time the steps of a model; "
            "generate one (faultline platform generate, with --set), or state times.compute_s"
        )
    if table.gradient_overlap:
        raise UserError(
            f"model.gradient_overlap = {table.gradient_overlap:g}: a rail plane cannot overlap its "
            "all-reduce with compute; use 0, or a platform of servers"
        )
    job = parallel_job(table, _GROUPS_BESIDE)
    domains = -(-job.layout.gpus // (_GROUPS_BESIDE * spec.plane.domain_gpus))
    path = platform_in_cache(xml_text(servers_of(spec, _GROUPS_BESIDE, domains)).encode())
    step = _step_time(path, PlacedStep.in_order(job.pattern(), platform_at(path).gpu_names))
    optimizer_s = step.optimizer_s
    if table.shard_optimizer:
        optimizer_s *= min(1.0, _GROUPS_BESIDE / scenario.job.groups)
    return step.passes_s + optimizer_s


def placed_step(scenario: Scenario, path: Path) -> PlacedStep:
    """Return the step of a scenario that names a model, on the GPUs of its platform in order."""
    from faultline.simulator.pattern.placed_step import PlacedStep

    job, gpus = parallel_job(scenario.model, scenario.job.groups), platform_at(path).gpus
    if len(gpus) < job.layout.gpus:
        raise UserError(
            f"{path}: has {len(gpus):,} GPUs, the job needs {job.layout.gpus:,}; lower job.groups, "
            "model.pipeline or model.tensor, or name a larger platform"
        )
    tensor = job.layout.tensor
    for first in range(0, job.layout.gpus, tensor):
        ranks = gpus[first : first + tensor]
        if len({gpu.domain for gpu in ranks}) > 1:
            domain, size = ranks[0].domain, sum(gpu.domain == ranks[0].domain for gpu in gpus)
            raise UserError(
                f"{path}: scale-up domain {domain} has {size} GPUs, no multiple of model.tensor = "
                f"{tensor}, so a stage would be on {ranks[0].name} to {ranks[-1].name}, in domains "
                f"{domain} and {ranks[-1].domain}; add or remove GPUs, or lower model.tensor"
            )
    return PlacedStep.in_order(job.pattern(), [gpu.name for gpu in gpus])


def simulated_traffic(scenario: Scenario, path: Path, snapshot: tuple[Flow, ...] = ()) -> Traffic:
    """Return the messages of a job on its platform, with its step if that is simulated."""
    traffic = replace(traffic_of(scenario, path), snapshot=snapshot)
    return replace(traffic, step=placed_step(scenario, path)) if is_simulated(scenario) else traffic


def step_time_of(scenario: Scenario) -> StepTime | None:
    """Return the time of an undisturbed step; None if no step is simulated."""
    if not is_simulated(scenario):
        return None
    path = platform_file(scenario)
    return _step_time(path, placed_step(scenario, path))


_SharedStep: TypeAlias = "tuple[PlacedStep, StepShares]"
"""A step on its hosts, with the share of each member."""


@dataclass(frozen=True)
class SimulatedMemberTimes:
    """Step times by members and shares; each distinct step is simulated once."""

    platform: Path  # Platform XML.
    step: PlacedStep  # The step of all groups.
    parts_down: tuple[str, ...] = ()  # Switches and links that are down.
    slow: SlowStep = SOUND_STEP
    # The representative steps of members; times by representative steps.
    _alike: dict[StepShares, _SharedStep] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _known: dict[tuple[_SharedStep, float], StepTime] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def passes_s(self, shares: StepShares, rounds: int = 1, factor: float = 1.0) -> float:
        """Return the time of the slowest member for `rounds` rounds of its share, in seconds.

        Computations take `factor` times as long.
        """
        hides, shares = self.step.pattern.hides, self._dealt(shares)
        if self._is_even and not (hides or any(line.stages for line in shares.pipelines)):
            # Members are alike, so their number has no effect.
            shares = shares._replace(members=tuple(range(self.step.groups)), pipelines=())
        if not hides:
            return rounds * self._passes_s(shares, factor)
        return sum(self._passes_s(shares.of_round(at, rounds), factor) for at in range(rounds))

    def sync_s(self, shares: StepShares) -> float:
        """Return the time from the last pass to the end of the step, in seconds."""
        return self._of(self._dealt(shares)).sync_s

    def _dealt(self, shares: StepShares) -> StepShares:
        pattern = self.step.pattern
        return shares.dealt(self.slow.deal, pattern.pipeline, pattern.tensor)

    @cached_property
    def _is_even(self) -> bool:
        return (
            not (self.parts_down or self.slow.links or self.slow.ranks)
            and self._of(StepShares(tuple(range(self.step.groups)))).is_even
        )

    def _passes_s(self, shares: StepShares, factor: float) -> float:
        if factor == 1.0:
            return self._of(shares).passes_s
        # Slower passes hide more gradients. `sync_s` has no factor, so the difference counts here.
        return self._of(shares, factor).step_s - self._of(shares).sync_s

    def _of(self, shares: StepShares, factor: float = 1.0) -> StepTime:
        arguments = self._simulated_step(shares)
        key = arguments, factor
        if key not in self._known:
            self._known[key] = self._simulated(*arguments, factor)
        return self._known[key]

    def _simulated_step(self, shares: StepShares) -> _SharedStep:
        """Return the simulated step; on an even platform, equal members have one representative."""
        if shares not in self._alike:
            self._alike[shares] = self.step, shares
            if shares != StepShares(tuple(range(self.step.groups))) and self._is_even:
                self._alike[shares] = self._by_stand_ins(shares)
        return self._alike[shares]

    def _by_stand_ins(self, shares: StepShares) -> _SharedStep:
        """Return a step of equal time; with few GPUs, latencies of all routes are equal too."""
        from faultline.simulator.pattern.placed_step import MOST_RANKS_APART

        step, working = self.step, shares.working
        if len(step.names) <= MOST_RANKS_APART:
            # Rings connect groups in ascending order.
            working.sort()
            step = step.with_first(working, symmetry_of(self.platform).stand_ins)
        return step, shares.renamed(working, step.groups)

    def _simulated(self, step: PlacedStep, shares: StepShares, factor: float = 1.0) -> StepTime:
        undisturbed = StepShares(tuple(range(self.step.groups)))
        arguments = None if shares == undisturbed else shares
        step = step if factor == 1.0 else step.slower(factor)
        links, ranks = self.slow.links, self.slow.ranks
        return _step_time(self.platform, step, self.parts_down, links, arguments, ranks)


def member_times(scenario: Scenario, step: StepTime | None) -> SimulatedMemberTimes | None:
    """Return the step times by members; None if only the number of members matters."""
    return None if step is None or step.is_even else _simulated_by_members(scenario)


def _simulated_by_members(scenario: Scenario) -> SimulatedMemberTimes:
    path = platform_file(scenario)
    return SimulatedMemberTimes(path, placed_step(scenario, path))


@dataclass(frozen=True)
class MeasuredMemberTimes:
    """Step times with a stated compute time and a measured all-reduce."""

    platform: Path  # Platform XML.
    traffic: Traffic  # Traffic of all groups.
    compute_s: float  # Time to compute one shard type, in seconds.
    parts_down: tuple[str, ...] = ()  # Switches and links that are down.
    slow: SlowStep = SOUND_STEP

    def passes_s(self, shares: StepShares, rounds: int = 1, factor: float = 1.0) -> float:
        """Return the compute time, in seconds; it includes no messages."""
        return rounds * shares.stack_size * self.compute_s * factor

    def sync_s(self, shares: StepShares) -> float:
        """Return the time of the members' all-reduce, in seconds."""
        return self._reduced_s(sorted(shares.members), self._left)

    def slowed_s(self, left: Mapping[str, float]) -> float:
        """Return the time of all groups if links have only the shares `left`, in seconds."""
        return self._reduced_s(range(len(self.traffic.hosts)), left)

    @cached_property
    def _left(self) -> Mapping[str, float]:
        """Share of the bandwidth that each affected link has left."""
        from faultline.platforms.outages import bandwidths_with_parts_down

        left = bandwidths_with_parts_down(platform_at(self.platform), self.parts_down)
        return _narrower(left, self.slow.links)

    def _reduced_s(self, members: Sequence[int], left: Mapping[str, float]) -> float:
        from faultline.simulator.timing.simulated_times import all_reduce_s

        traffic, links = self.traffic, tuple(sorted(left.items()))
        hosts = tuple(tuple(traffic.hosts[group]) for group in members)
        return all_reduce_s(self.platform, hosts, traffic.bytes_per_rank, links)


def reduced_by_members(scenario: Scenario, compute_s: float) -> MeasuredMemberTimes:
    """Return the step times of a job with a known compute time and a measured all-reduce."""
    path = platform_file(scenario)
    return MeasuredMemberTimes(path, traffic_of(scenario, path), compute_s)


@dataclass(frozen=True)
class SimulatedDetourTimes:
    """Step times while some switches or links are down."""

    sound: SimulatedMemberTimes | MeasuredMemberTimes  # With all switches and links.
    _known: dict[object, MemberTimes] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __call__(self, switches: Sequence[str], slow: SlowStep = SOUND_STEP) -> MemberTimes:
        """Return the step times without these switches, with some stragglers."""
        key = tuple(switches), slow
        if key not in self._known:
            self._known[key] = replace(self.sound, parts_down=key[0], slow=slow)
        return self._known[key]


def detour_times(scenario: Scenario, compute_s: float) -> SimulatedDetourTimes | None:
    """Return the step times while switches that have a detour are down.

    None if no message of a step is simulated on the platform. `compute_s` is the compute time of a
    step that is not simulated, in seconds.
    """
    if is_simulated(scenario):
        return SimulatedDetourTimes(_simulated_by_members(scenario))
    if not reduces_on_network(scenario):
        return None
    return SimulatedDetourTimes(reduced_by_members(scenario, compute_s))


def jitter_of_passes(scenario: Scenario) -> float:
    """Return the standard deviation of the time of passes, as a share of it.

    Messages have no jitter. So passes vary less than computations in simulated steps.
    The ratio is the slope of the time of passes, up to the usual delay of the slowest group.
    """
    job = scenario.job
    jitter = job.compute_jitter
    if not (jitter and is_simulated(scenario)):
        return jitter
    times = _simulated_by_members(scenario)
    all_groups = StepShares(tuple(range(job.groups)))
    delay = jitter * max(1.0, float(largest_of_normals([job.groups])[0]))
    slow_s = times.passes_s(all_groups, factor=1.0 + delay)
    return jitter * (slow_s / times.passes_s(all_groups) - 1.0) / delay


def simulated_time(
    path: Path, step: PlacedStep, slow: Mapping[str, float], shares: StepShares | None = None
) -> StepTime:
    """Return the time of a step if `slow` links have only a share of their bandwidth."""
    return _step_time(path, step, (), tuple(sorted(slow.items())), shares)


def _narrower(left: dict[str, float], slow: Sequence[tuple[str, float]]) -> dict[str, float]:
    for link, share in slow:
        left[link] = min(share, left.get(link, 1.0))
    return left


@partial(once_per_file, kept=64)
def _step_time(
    path: Path,
    step: PlacedStep,
    parts_down: tuple[str, ...] = (),
    slow: tuple[tuple[str, float], ...] = (),
    shares: StepShares | None = None,
    ranks: tuple[tuple[Rank, float], ...] = (),
) -> StepTime:
    from faultline.platforms.outages import bandwidths_with_parts_down
    from faultline.simulator.timing.kept_platform import look_up_on, simulate_on
    from faultline.simulator.timing.probe_cache import cached
    from faultline.simulator.timing.step_timing import look_up_step, time_step

    def simulate() -> StepTime:
        bandwidths = _narrower(bandwidths_with_parts_down(platform_at(path), parts_down), slow)

        def simulate_with_left() -> StepTime:
            arguments = step.hosts, step.pattern, bandwidths, shares
            look_up_on(path, look_up_step, *arguments)
            return simulate_on(path, time_step, *arguments, dict(ranks))

        if not parts_down:
            return simulate_with_left()
        # Which rail of a server is down has no effect: its GPUs share the other rails alike.
        left = map(repr, sorted(bandwidths.items()))
        same = [_SIMULATE_VERSION, repr(step), repr(shares), "left", *left, *map(repr, ranks)]
        return cached(path, same, simulate_with_left, StepTime)

    key = [_SIMULATE_VERSION, repr(step), repr(shares), *parts_down, *map(repr, (*slow, *ranks))]
    with explaining_aborts(path):
        return cached(path, key, simulate, StepTime)
