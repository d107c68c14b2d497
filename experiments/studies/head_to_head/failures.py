"""Failures of the head-to-head: before a run, during it, and the spare GPUs that they require.

A run is a piece of a long training, and short in comparison with repairs. A start with all hardware
intact would favour schemes that continue without the failed groups, and schemes that a short run
never makes restart. So each scheme first receives the failures before the start, without a clock.
The run starts in the resulting state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import ceil, inf, sqrt

from faultline.simulator.failures.clocks import FailureClocks
from faultline.simulator.failures.distributions import Constant, Uniform
from faultline.simulator.failures.failure import Failure, JobLayout
from faultline.simulator.failures.mix import Cause, CauseMix
from faultline.simulator.job.job import Job
from faultline.simulator.job.phases import Restart
from faultline.simulator.loop.training import Training, TrainingLoop
from faultline.strategies.interface.scheme import Hit, Strategy, WipeOut

DAY_S = 86_400.0
# 78 % of the interruptions of Llama 3 were of hardware (Grattafiori et al. 2024); repair times as
# in Arfeen et al. 2025 (NTP, arXiv 2504.06095): 3 to 5 days for hardware, 3 h for software.
HARDWARE_SHARE = 0.78
HARDWARE_REPAIR = Uniform(3 * DAY_S, 5 * DAY_S)
SOFTWARE_REPAIR = Constant(3 * 3600.0)
_LONGEST_REPAIR_S = 5 * DAY_S

_PAST_FAILURES = 100
# A scheme that restarts with new hardware does not depend on earlier failures.
_MOST_PAST_FAILURES = 400
# Offset of the seeds of past failures, so that they differ from those of the run.
_PAST = 1_000_003
# One-sided 95 % quantile of the normal distribution.
_QUANTILE_95 = 1.645


@dataclass(frozen=True, slots=True)
class FailureProcess:
    """Failures of single GPUs and of whole scale-up domains, memoryless."""

    layout: JobLayout  # Which GPUs share a host and a domain.
    mtbf_s: float  # Mean time between failures of the whole job, in seconds.
    # Share of failures that break a whole scale-up domain; of the others 78 % break one GPU's
    # hardware, and the rest is software on one GPU.
    domain_share: float = 0.0

    @property
    def model(self) -> CauseMix:
        """The process in the form that the engines take."""
        rate = 1.0 / (self.mtbf_s * self.layout.gpus)
        single = rate * (1.0 - self.domain_share)
        causes = [
            Cause("hardware", "gpu", "hardware", single * HARDWARE_SHARE, HARDWARE_REPAIR),
            Cause("software", "gpu", "software", single * (1 - HARDWARE_SHARE), SOFTWARE_REPAIR),
            Cause("domain", "domain", "hardware", rate * self.domain_share, HARDWARE_REPAIR),
        ]
        possible = tuple(cause for cause in causes if cause.rate_per_gpu_s > 0.0)
        return CauseMix(possible, self.layout)

    def past_failures(self, seed: int) -> list[Failure]:
        """Return failures before the start, in order, at negative times.

        They cover the longest repair, and at least a hundred mean times between failures.
        """
        span_s = max(_LONGEST_REPAIR_S, _PAST_FAILURES * self.mtbf_s)
        failures = self.model.failures_until(span_s, _PAST + seed)
        return [failure._replace(time_s=failure.time_s - span_s) for failure in failures]

    def spare_gpus(self) -> int:
        """Return the GPUs on standby with which 95 % of restarts find new hardware.

        If failed hardware is replaced at once, the number of servers under repair is Poisson
        distributed, with a mean of failure rate times mean repair time (Palm 1943); so is the
        number of domains. The standbys of each kind are the mean plus 1.645 standard deviations.
        """
        hosts, domains = self._under_repair()
        return (
            _upper(hosts) * self.layout.gpus_per_host
            + _upper(domains) * self.layout.gpus_per_domain
        )

    @property
    def machines_under_repair(self) -> float:
        """Mean number of hosts under repair."""
        hosts, domains = self._under_repair()
        return hosts + domains * self.layout.gpus_per_domain / self.layout.gpus_per_host

    def _under_repair(self) -> tuple[float, float]:
        """Return the mean numbers of single hosts and of domains under repair."""
        broken = HARDWARE_REPAIR.mean_s / self.mtbf_s
        return broken * (1.0 - self.domain_share) * HARDWARE_SHARE, broken * self.domain_share


def still_under_repair(failures: Sequence[Failure]) -> list[Failure]:
    """Return the failures whose repair ends after time 0."""
    return [failure for failure in failures if failure.time_s + (failure.repair_s or 0.0) > 0.0]


def _upper(mean: float) -> int:
    return ceil(mean + _QUANTILE_95 * sqrt(mean))


Damage = list[tuple[float, Hit]]
"""Failed parts, each with the end of its repair in seconds from the start."""


@dataclass(frozen=True, slots=True)
class StateAtStart:
    """Failed parts and dropped groups at the start of a run."""

    # Failed parts, if the scheme keeps track of them.
    damage: Damage = field(default_factory=list)
    # Groups that do not train, and when each returns, in seconds from the start.
    dropped: dict[int, float] = field(default_factory=dict)


class SteadyStateTraining(Training):
    """A training whose scheme starts in the state after past failures.

    Past failures have negative times. The training begins when `Progress.now_s` is `begun_s`.
    """

    def __init__(self, job: Job, strategy: Strategy, past: Sequence[Failure]) -> None:
        super().__init__(job, strategy)
        self._past = self.machines.begin_in_repair(past) if job.hardware.standbys else past
        self.begun_s = 0.0

    def loop(self, clocks: FailureClocks) -> TrainingLoop:
        """Apply the past failures, start the working groups, and continue as any training."""
        layout = self.state.hardware.layout
        returns = self._absence_s if self.state.readmits else None
        at_start = apply_past_failures(self.strategy, self._past, layout, returns)
        self.state.hits.inherit(at_start.damage)
        yield from self.restarter.wait_for_hardware()
        self.state.contract.enter()
        waited_s = self.progress.now_s
        members = set(self.strategy.plan().members)
        absent = tuple(group for group in range(self.work.groups) if group not in members)
        recovery = self.strategy.restart_recovery()
        started = yield Restart(self.work.groups, absent, recovery)
        self.state.hits.add_unreported((failure for _, failure in started.failures), waited_s)
        # Waiting for repairs is part of the training; starting up is not.
        self.begun_s, self.progress.now_s = started.now_s - waited_s, started.now_s
        for group, returns_s in at_start.dropped.items():
            self.machines.drop_at_start(group, started.now_s + returns_s)
        yield from super().loop(clocks)

    def _absence_s(self, failure: Failure) -> float:
        """Return how long a failure keeps a group away, in seconds."""
        if not self.state.rules.stops_machine(failure):
            return 0.0
        return min(self.machines.repair_s(failure), self.state.hardware.replacement_s)


def apply_past_failures(
    strategy: Strategy,
    past: Sequence[Failure],
    layout: JobLayout,
    absence_s: Callable[[Failure], float] | None = None,
) -> StateAtStart:
    """Bring a scheme into its state after past failures, and return the damage that is left.

    A scheme that restarts without new hardware is in the state after a restart. Other schemes
    receive the failures one by one; a restart with new hardware ends all earlier damage. A dropped
    group is away for `absence_s` seconds, or by default until the next restart. In a training it
    would return at the end of a step only.
    """
    if not strategy.restart_replaces:
        damage = [_damage(failure, layout) for failure in still_under_repair(past)]
        strategy.restart()
        for _, hit in damage:
            strategy.on_hit(hit)
        return StateAtStart(damage)
    state = StateAtStart()
    for failure in past[-_MOST_PAST_FAILURES:]:
        _apply_repairs(strategy, state, failure.time_s)
        _apply_failure(strategy, state, failure, layout, absence_s)
    _apply_repairs(strategy, state, 0.0)
    return state


def _apply_repairs(strategy: Strategy, state: StateAtStart, until_s: float) -> None:
    """Apply the repairs that end by a time, and return the dropped groups that are complete."""
    while state.damage and state.damage[0][0] <= until_s:
        strategy.on_repair(heappop(state.damage)[1])
    dropped = state.dropped.items()
    returning = sorted(group for group, returns_s in dropped if returns_s <= until_s)
    if returning:
        strategy.on_return(returning)
        for group in returning:
            del state.dropped[group]


def _apply_failure(
    strategy: Strategy,
    state: StateAtStart,
    failure: Failure,
    layout: JobLayout,
    absence_s: Callable[[Failure], float] | None,
) -> None:
    members = set(strategy.plan().members)
    for group in failure.groups:
        if group not in members:
            continue
        if strategy.tracks_components:
            heappush(state.damage, damage := _damage(failure, layout))
            strategy.on_hit(damage[1])
        verdict = strategy.on_failures((group,))
        if isinstance(verdict, WipeOut):
            state.damage.clear()
            state.dropped.clear()
            strategy.restart()
            return
        away_s = inf if absence_s is None else absence_s(failure)
        state.dropped.update(dict.fromkeys(verdict.dropped, failure.time_s + away_s))


def _damage(failure: Failure, layout: JobLayout) -> tuple[float, Hit]:
    """Return the part of its group that a failure breaks, and when the repair ends."""
    gpus, group = layout.gpus_of(failure.level, failure.number), failure.groups[0]
    first = group * layout.gpus_per_group
    hit = Hit(group, gpus[0] - first, gpus[-1] - first, layout.gpus_per_group)
    return failure.time_s + (failure.repair_s or 0.0), hit
