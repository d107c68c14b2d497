"""The failures that all candidates meet, what they have broken before, and the spares for it.

A run is a piece of a long training, short beside the time of repairs. Were it to start with
everything sound, a scheme that goes on with what is left would look better than it is in the long
run, and so would one that never meets its first restart. So each scheme is first told the failures
of the past, without a clock, and the piece is simulated from the state this leaves it in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import ceil, sqrt

from faultline.simulator.failures.distributions import Constant, Uniform
from faultline.simulator.failures.failure import Failure, JobLayout
from faultline.simulator.failures.mix import Cause, CauseMix
from faultline.simulator.job import Job
from faultline.simulator.phases import Restart
from faultline.simulator.training import Training, TrainingLoop
from faultline.strategies.base import Hit, Strategy, WipeOut

DAY_S = 86_400.0
# 78 % of the interruptions of Llama 3 were of hardware (Grattafiori et al. 2024); repair times as
# in Arfeen et al. 2025 (NTP, arXiv 2504.06095): 3 to 5 days for hardware, 3 h for software.
HARDWARE_SHARE = 0.78
HARDWARE_REPAIR = Uniform(3 * DAY_S, 5 * DAY_S)
SOFTWARE_REPAIR = Constant(3 * 3600.0)
_LONGEST_REPAIR_S = 5 * DAY_S

_PAST_FAILURES = 100
# The last few hundred: a scheme that restarts with new hardware forgets the others.
_MOST_PAST_FAILURES = 400
# Seeds of the past are none of those that are simulated.
_PAST = 1_000_003
# One-sided 95 % quantile of the normal distribution.
_QUANTILE_95 = 1.645


@dataclass(frozen=True, slots=True)
class Process:
    """Failures of single GPUs and of whole scale-up domains, memoryless."""

    layout: JobLayout  # Which GPUs share a host and a domain.
    mtbf_s: float  # Mean time between failures of the whole job, in seconds.
    # Share of failures that break a whole scale-up domain; of the others 78 % break one GPU's
    # hardware, and the rest is software on one GPU.
    domain_share: float = 0.0

    @property
    def model(self) -> CauseMix:
        """The process as the engines know it."""
        rate = 1.0 / (self.mtbf_s * self.layout.gpus)
        single = rate * (1.0 - self.domain_share)
        causes = [
            Cause("hardware", "gpu", "hardware", single * HARDWARE_SHARE, HARDWARE_REPAIR),
            Cause("software", "gpu", "software", single * (1 - HARDWARE_SHARE), SOFTWARE_REPAIR),
            Cause("domain", "domain", "hardware", rate * self.domain_share, HARDWARE_REPAIR),
        ]
        mixed = tuple(cause for cause in causes if cause.rate_per_gpu_s > 0.0)
        return CauseMix(mixed, self.layout)

    def past(self, seed: int) -> list[Failure]:
        """Return failures before the start, at negative times, in their order.

        They reach back as far as the longest repair, and over a hundred failures at least.
        """
        span_s = max(_LONGEST_REPAIR_S, _PAST_FAILURES * self.mtbf_s)
        failures = self.model.failures_until(span_s, _PAST + seed)
        return [one._replace(time_s=one.time_s - span_s) for one in failures]

    def spare_gpus(self) -> int:
        """Return GPUs that have to stand by so that a restart finds new hardware, 95 times of 100.

        Where hardware is replaced at once, that under repair is a Poisson number with mean rate
        times mean repair time (Little's law; Palm 1943): servers for single GPUs, and domains. Of
        each kind its mean and 1.645 standard deviations stand by.
        """
        host, domain = self.layout.gpus_per_host, self.layout.gpus_per_domain
        repair_s, rate = HARDWARE_REPAIR.mean_s, 1.0 / self.mtbf_s
        hosts = rate * (1.0 - self.domain_share) * HARDWARE_SHARE * repair_s
        domains = rate * self.domain_share * repair_s
        return _upper(hosts) * host + _upper(domains) * domain


def still_broken(failures: Sequence[Failure]) -> list[Failure]:
    """Return those whose repair is not over at time 0."""
    return [one for one in failures if one.time_s + (one.repair_s or 0.0) > 0.0]


def _upper(mean: float) -> int:
    return ceil(mean + _QUANTILE_95 * sqrt(mean))


Damage = list[tuple[float, Hit]]
"""What is broken, with the time at which it is repaired, in seconds from the start."""


@dataclass(frozen=True, slots=True)
class Inheritance:
    """What the past leaves behind."""

    # What is broken now, as far as the scheme keeps track of it.
    damage: Damage = field(default_factory=list)
    # Groups that are not members, and when they were dropped, in seconds from the start.
    dropped: dict[int, float] = field(default_factory=dict)


class EnteredTraining(Training):
    """A training that finds its scheme as the past has left it.

    The past are failures before the start, at negative times. `begun_s` are the seconds of
    `Progress.now_s` that were over when it began.
    """

    def __init__(self, job: Job, strategy: Strategy, past: Sequence[Failure]) -> None:
        super().__init__(job.work, job.rules, strategy)
        self._past = past
        self._replaces_s = job.work.repair_s if job.rules.rejoin == "at-checkpoint" else None
        self.begun_s = 0.0

    def loop(self) -> TrainingLoop:
        """Tell the scheme its past, start what is left, and go on as any training."""
        layout = self.work.layout
        assert layout is not None
        inherited = lived_through(self.strategy, self._past, layout, self._replaces_s)
        self.state.hits.inherit(inherited.damage)
        yield from self.restarter.wait_for_hardware()
        self.state.contract.enter()
        waited_s = self.progress.now_s
        members = set(self.strategy.plan().members)
        absent = tuple(group for group in range(self.work.groups) if group not in members)
        started = yield Restart(
            self.work.groups,
            absent,
            self.state.collects_failures,
            recovery=self.strategy.restart_recovery(),
        )
        self.state.hits.note_unreported(started.struck)
        # To wait for repairs is part of the training, to start up is not.
        self.begun_s, self.progress.now_s = started.now_s - waited_s, started.now_s
        for dropped_s in inherited.dropped.values():
            self.machines.groups.add_failed(1, started.now_s + dropped_s)
        yield from super().loop()


def lived_through(
    strategy: Strategy, past: Sequence[Failure], layout: JobLayout, replaces_s: float | None = None
) -> Inheritance:
    """Bring a scheme into the state that failures of the past leave it in.

    A scheme that restarts with what is left is in the state after a restart. Others go through
    their failures one by one; a restart that finds new hardware ends what was broken before.

    The past is that of `EnteredTraining`. A group that was dropped is back on a spare after
    `replaces_s`; by default it waits for a restart. That it comes at the end of a step only is left
    out.
    """
    if not strategy.restart_replaces:
        broken = [_damage(one, layout) for one in still_broken(past)]
        strategy.restart()
        for _, hit in broken:
            strategy.on_hit(hit)
        return Inheritance(broken)
    state = Inheritance()
    for failure in past[-_MOST_PAST_FAILURES:]:
        _bring_back(strategy, state, failure.time_s, replaces_s)
        _strike(strategy, state, failure, layout)
    _bring_back(strategy, state, 0.0, replaces_s)
    return state


def _bring_back(
    strategy: Strategy, state: Inheritance, until_s: float, replaces_s: float | None
) -> None:
    """Bring back what is repaired by then, and dropped groups whose spares have started."""
    while state.damage and state.damage[0][0] <= until_s:
        strategy.on_repair(heappop(state.damage)[1])
    if replaces_s is None:
        return
    since = state.dropped.items()
    back = sorted(group for group, since_s in since if since_s + replaces_s <= until_s)
    if back:
        strategy.on_return(back)
        for group in back:
            del state.dropped[group]


def _strike(strategy: Strategy, state: Inheritance, failure: Failure, layout: JobLayout) -> None:
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
        state.dropped.update(dict.fromkeys(verdict.dropped, failure.time_s))


def _damage(failure: Failure, layout: JobLayout) -> tuple[float, Hit]:
    """Return what a failure breaks of the group that it strikes, and when it is repaired."""
    gpus, group = layout.gpus_of(failure.level, failure.number), failure.groups[0]
    first = group * layout.gpus_per_group
    hit = Hit(group, gpus[0] - first, gpus[-1] - first, layout.gpus_per_group)
    return failure.time_s + (failure.repair_s or 0.0), hit
