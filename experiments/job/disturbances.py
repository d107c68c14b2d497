"""Disturbances: a scenario's failures that stop nothing, and their effects on its steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import merge
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from faultline.experiments.config.cluster import platform_at
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.job.failure_model import job_layout, network_outages
from faultline.experiments.job.job_shape import job_shape
from faultline.experiments.job.platform_files import (
    cables_with_detours,
    platform_file,
    switches_with_detours,
)
from faultline.experiments.job.step_times import (
    measured_exchanges,
    placed_step,
)
from faultline.experiments.job.workload import Workload
from faultline.simulator.failures.failure import (
    NETWORK,
    OF_ONE_GPU,
    TO_THE_NETWORK,
    Failure,
    JobLayout,
    Level,
)
from faultline.simulator.failures.models import FailureModel, FailureSequence
from faultline.simulator.failures.reactions import SlowResponse
from faultline.simulator.job.conditions import Disturbances, Effect, Effects, StatedEffects
from faultline.simulator.job.durations import AllReduceTime, Durations
from faultline.simulator.pattern.plan_shares import SlowStep, StepShares
from faultline.strategies.plugins.registry import strategy_class
from faultline.strategies.theory.stragglers import Remedy, RemedyName, StragglerPolicy

if TYPE_CHECKING:
    from faultline.simulator.job.durations import StepTime
    from faultline.simulator.pattern.activity_graph import Rank
    from faultline.simulator.pattern.placed_step import PlacedStep
    from faultline.simulator.timing.step_times import MeasuredExchanges


_REDEAL_S = 0.1
"""Stall of all groups while micro-batches are redistributed. The solver of Greyhound (ATC 2025)
takes 0.01 s for 64 replicas, 0.1 s for 128, 6.8 s for 256."""
_SWAP_S = 60.0
"""Stall of all groups while nodes are swapped: less than 60 s. It depends on the memory of a GPU,
not on the number of nodes (Greyhound)."""
_REMEDIES: Mapping[str, tuple[RemedyName, ...]] = {
    "redeal": ("redeal",),
    "swap": ("redeal", "swap"),
    "restart": ("restart",),
    "ski-rental": ("redeal", "swap", "restart"),
}
"""The mitigation of a straggler, by `failures.kinds.slow`."""


def disturbances(
    scenario: Scenario,
    failures: FailureModel,
    all_reduce_s: AllReduceTime,
    workload: Workload,
    on_network: bool,
    seed: int,
) -> Disturbances | None:
    """Return the failures of a job that stop nothing; None if there are none.

    Messages of steps may be simulated `on_network` even if the steps of the `workload` are not.
    """
    step = workload.step
    sources: list[Callable[[], Iterator[Failure]]] = []
    causes: tuple[str, ...] = ()
    if isinstance(failures, FailureSequence) and failures.disturbance_causes:
        causes = failures.disturbance_causes
        sources.append(partial(failures.disturbances, seed))
        if step is None and not on_network:
            sources[0] = partial(_carried_by_others, sources[0], job_layout(scenario).gpus_per_host)
    outages = network_outages(scenario, failures, seed) if on_network else None
    if outages is not None:
        sources.append(outages)
    if not sources:
        return None
    effects: Effects
    path = platform_file(scenario)
    if step is None:
        levels: tuple[Level, ...] = ("switch", "cable") if on_network else ()
        around = {level: _around(path, level) for level in levels}
        stages = scenario.model.pipeline
        effects = StatedEffects(all_reduce_s, scenario.job.groups, around, stages)
        if on_network:
            effects = MeasuredEffects(effects, measured_exchanges(scenario, workload.compute_s))
    else:
        effects = SimulatedEffects(path, placed_step(scenario, path), job_layout(scenario), step)
    return Disturbances(partial(_in_order, tuple(sources)), effects, causes)


def slow_response(
    scenario: Scenario, durations: Durations, step: StepTime | None
) -> SlowResponse | None:
    """Return the mitigation of stragglers; None if they are ignored or evicted.

    A restart costs the time of saving, restarting and loading. Only a simulated step has extra time
    for filling its pipelines.
    """
    kinds, table = scenario.failures.kinds, scenario.model
    if kinds.slow not in _REMEDIES:
        return None
    restart = strategy_class(scenario.strategy.name).restart_recovery()
    restart_s = durations.save_s + durations.restart_s(restart) + durations.load_s
    costs_s = {"redeal": _REDEAL_S, "swap": _SWAP_S, "restart": restart_s}
    remedies = tuple(Remedy(name, costs_s[name]) for name in _REMEDIES[kinds.slow])
    policy = StragglerPolicy(remedies, kinds.slow_found_s, kinds.slow == "ski-rental")
    fill = 0.0 if step is None else job_shape(scenario).idle_slots
    all_reduce_s = durations.all_reduce_s(scenario.job.groups)
    return SlowResponse(policy, table.micro_batches, fill, all_reduce_s)


def _carried_by_others(
    begin: Callable[[], Iterator[Failure]], gpus_per_host: int
) -> Iterator[Failure]:
    """Yield failures; a server's other adapters take over the traffic of a failed one.

    This is for stated times only: SimGrid reroutes simulated messages itself.
    """
    for failure in begin():
        lost = _is_down(failure) and failure.level in TO_THE_NETWORK and gpus_per_host > 1
        left = gpus_per_host / (gpus_per_host - 1) if lost else failure.factor
        yield failure._replace(factor=left)


def _is_down(failure: Failure) -> bool:
    """Return whether a part of the network is down, rather than slow."""
    return failure.kind == "partial" and failure.factor == 1.0


def _in_order(sources: tuple[Callable[[], Iterator[Failure]], ...]) -> Iterator[Failure]:
    return merge(*(begin() for begin in sources), key=attrgetter("time_s"))


def _around(platform: Path, level: Level) -> Sequence[tuple[str, ...]]:
    """Return the names that are down with each switch or cable that has a detour; () if none."""
    if level == "switch":
        return [(switch,) for switch in switches_with_detours(platform)[0]]
    return [(cable,) if has_way else () for cable, has_way in cables_with_detours(platform).items()]


def _links_of(platform: Path, level: Level, number: int) -> tuple[str, ...]:
    """Return the links of a component of a platform."""
    from faultline.platforms.outages import links_of_component

    return links_of_component(platform_at(platform), level, number)


@dataclass(frozen=True)
class MeasuredEffects:
    """Effects on a job with a stated compute time and a measured all-reduce."""

    stated: StatedEffects  # Effects on compute.
    times: MeasuredExchanges  # Times of the all-reduce.

    def __call__(self, failure: Failure, factor: float = 1.0, types: int = 1) -> Effect:
        """Return the effect of a failed component; on the network, by its links' bandwidth left."""
        effect = self.stated(failure, factor, types)
        if failure.level not in NETWORK or effect.parts_down:
            return effect
        links = _links_of(self.times.platform, failure.level, failure.number)
        if _is_down(failure):
            return Effect(parts_down=links)
        left = tuple(dict.fromkeys(links, 1.0 / failure.factor).items())
        everyone = StepShares(tuple(range(self.stated.groups)))
        slow_s = self.times.exchange_s(everyone, SlowStep(left))
        return Effect(collective=slow_s / self.times.exchange_s(everyone), links=left)

    def together(
        self, failures: Sequence[Failure], group: int, factor: float = 1.0, types: int = 1
    ) -> float:
        """Return the time that a group computes, over that of a sound one."""
        return self.stated.together(failures, group, factor, types)

    def places(self, failure: Failure, group: int) -> Sequence[Failure]:
        """Return the places in a group that the component may take."""
        return self.stated.places(failure, group)


@dataclass(frozen=True)
class SimulatedEffects:
    """Effects on a job with simulated steps: each component alone, on the job's platform."""

    platform: Path  # Platform XML.
    step: PlacedStep  # The step of all groups.
    layout: JobLayout  # Components that GPUs share.
    undisturbed: StepTime

    def __call__(self, failure: Failure, factor: float = 1.0, types: int = 1) -> Effect:
        """Return the effect of a component on a step with a batch of `types` shard types.

        Each computation takes `factor` times as long. Other adapters or switches carry the traffic
        of one that is down. One that is slow is a bottleneck.
        """
        if failure.level not in NETWORK:
            group = self.layout.gpus_of(failure.level, failure.number)[0]
            group //= self.layout.gpus_per_group
            compute = self.together((failure,), group, factor, types)
            return Effect(compute, ranks=self._slow_ranks(failure))
        if _is_down(failure):
            return Effect(parts_down=self._parts(failure))
        number = failure.number
        if failure.level in OF_ONE_GPU and self.undisturbed.is_even:
            # Replicas and their corresponding links are alike, so that the first represents all.
            number %= self.layout.gpus_per_group
        own, simulated = (
            dict.fromkeys(_links_of(self.platform, failure.level, place), 1.0 / failure.factor)
            for place in (failure.number, number)
        )
        slow = self._step_time(self.step, simulated)
        members = tuple(range(self.step.pattern.data))
        all_members = None if types == 1 else StepShares(members, (), types)
        slow_s = self._passes_s(self.step, simulated, all_members, factor)
        compute = slow_s / self._passes_s(self.step, {}, all_members, factor)
        collective = slow.sync_s / self.undisturbed.sync_s
        return Effect(compute, collective, links=tuple(own.items()))

    def together(
        self, failures: Sequence[Failure], group: int, factor: float = 1.0, types: int = 1
    ) -> float:
        """Return the time of a group's passes with stragglers, over that without."""
        from faultline.simulator.pattern.placed_step import PlacedStep

        pattern, layout = self.step.pattern, self.layout
        levels = {failure.level for failure in failures}
        # If all replicas and their links are alike, the first represents all.
        are_alike = self.undisturbed.is_even and levels.isdisjoint(NETWORK - OF_ONE_GPU)
        simulated = 0 if are_alike else group
        stages: dict[int, float] = {}
        links: dict[str, float] = {}
        for failure in failures:
            number, times = failure.number, failure.factor
            if failure.level not in NETWORK:
                for stage in self._stages_of(failure, group):
                    stages[stage] = max(times, stages.get(stage, 1.0))
                continue
            if failure.level in OF_ONE_GPU:
                number -= (group - simulated) * layout.gpus_per_group
            for link in _links_of(self.platform, failure.level, number):
                links[link] = min(1.0 / times, links.get(link, 1.0))
        parts = tuple(
            part.slower(stages.get(place % pattern.pipeline, 1.0))
            for place, part in enumerate(pattern.parts)
        )
        slow = PlacedStep(replace(pattern, parts=parts), self.step.names)
        alone = StepShares((simulated,), (), types)
        slow_s = self._passes_s(slow, links, alone, factor)
        return slow_s / self._passes_s(self.step, {}, alone, factor)

    def _passes_s(
        self, step: PlacedStep, left: Mapping[str, float], shares: StepShares | None, factor: float
    ) -> float:
        """Return the time of passes if links have only the shares `left`, in seconds."""
        slower = step if factor == 1.0 else step.slower(factor)
        return self._step_time(slower, left, shares).passes_s

    def _step_time(
        self, step: PlacedStep, left: Mapping[str, float], shares: StepShares | None = None
    ) -> StepTime:
        from faultline.simulator.timing.step_times import step_time

        slow = SlowStep(tuple(sorted(left.items())))
        return step_time(self.platform, step, shares, slow)

    def places(self, failure: Failure, group: int) -> Sequence[Failure]:
        """Return the component at each stage of a group."""
        layout, pattern = self.layout, self.step.pattern
        first, size = group * layout.gpus_per_group, layout.gpus_per_component(failure.level)
        gpus = (first + stage * pattern.tensor for stage in range(pattern.pipeline))
        numbers, groups = dict.fromkeys(gpu // size for gpu in gpus), range(group, group + 1)
        return [failure._replace(number=number, groups=groups) for number in numbers]

    def _parts(self, failure: Failure) -> tuple[str, ...]:
        if failure.level in TO_THE_NETWORK:
            return _links_of(self.platform, failure.level, failure.number)
        around = _around(self.platform, failure.level)
        return around[failure.number % len(around)] if around else ()

    def _slow_ranks(self, failure: Failure) -> tuple[tuple[Rank, float], ...]:
        """Return the ranks that a component slows; none if ranks are folded."""
        from faultline.simulator.pattern.placed_step import MOST_RANKS_APART

        if len(self.step.names) > MOST_RANKS_APART:
            return ()
        gpus = self.layout.gpus_of(failure.level, failure.number)
        return tuple((self.step.rank_on(gpu), failure.factor) for gpu in gpus)

    def _stages_of(self, failure: Failure, group: int) -> set[int]:
        """Return the stages of a group that have GPUs on a component."""
        pattern, layout = self.step.pattern, self.layout
        broken = layout.gpus_of(failure.level, failure.number)
        of_group = layout.gpus_of("group", group)
        common = range(max(broken[0], of_group[0]), min(broken[-1], of_group[-1]) + 1)
        return {(gpu - of_group[0]) // pattern.tensor % pattern.pipeline for gpu in common}
