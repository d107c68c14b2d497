"""The effects of stragglers, and of lost parts of the network, on the steps of a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from faultline.simulator.failures.failure import (
    NETWORK,
    OF_ONE_GPU,
    TO_THE_NETWORK,
    Failure,
    JobLayout,
)
from faultline.simulator.job.durations import AllReduceTime, StepTimes
from faultline.simulator.pattern.plan_shares import SlowStep, StepShares

if TYPE_CHECKING:
    from faultline.simulator.pattern.activity_graph import Rank
    from faultline.simulator.pattern.placed_step import PlacedStep


class Effect(NamedTuple):
    """The effect of a slow component, or of a lost part of the network, on a step."""

    compute: float = 1.0  # How many times as long its groups compute.
    collective: float = 1.0  # How many times as long an all-reduce takes that they are part of.
    # Parts of the network that are down and can be routed around.
    parts_down: tuple[str, ...] = ()
    # Remaining share of the bandwidth of links, if messages are simulated.
    links: tuple[tuple[str, float], ...] = ()
    # How many times as long its ranks compute, if each rank is simulated.
    ranks: tuple[tuple[Rank, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Effects:
    """The effects of components on a step, by their place.

    If steps are not simulated, groups wait for their slowest component. If no message is simulated
    either, all messages of the collective pass a slow network component; none passes NVLink.
    """

    all_reduce_s: AllReduceTime  # Time of an all-reduce, if no message is simulated.
    layout: JobLayout  # Components that GPUs share.
    stages: int = 1  # Stages of a group.
    times: StepTimes | None = None  # Times of steps whose messages are simulated; None without.
    # Returns the links of a network component; if it is down, the parts that are lost with it and
    # can be routed around. Needed for simulated messages.
    parts_of: Callable[[Failure], tuple[str, ...]] | None = None

    def __call__(self, failure: Failure, factor: float = 1.0, types: int = 1) -> Effect:
        """Return the effect of a component on a step that computes `types` shard types in one go.

        Each computation takes `factor` times as long as usual.
        """
        times, groups = self.times, self.layout.groups
        if failure.level not in NETWORK:
            compute = self.together((failure,), failure.groups[0], factor, types)
            return Effect(compute, ranks=self._slow_ranks(failure))
        if times is None:
            whole_s = self.all_reduce_s(groups) if failure.level != "nvlink" else 0.0
            slow_s = self.all_reduce_s.slowed(failure.factor)(groups)
            return Effect(collective=slow_s / whole_s if whole_s else 1.0)
        assert self.parts_of is not None
        parts = self.parts_of(failure)
        if is_down(failure):
            return Effect(parts_down=parts)
        stand_in = failure
        if failure.level in OF_ONE_GPU and self._groups_are_alike:
            # The links of the first group represent those of all.
            number = failure.number % self.layout.gpus_per_group
            stand_in = failure._replace(number=number)
        slow = SlowStep(_shares_left(self.parts_of(stand_in), failure.factor))
        everyone = StepShares(tuple(range(groups)))
        whole_s, slow_s = times.exchange_s(everyone), times.exchange_s(everyone, slow)
        everyone = everyone._replace(stack_size=types)
        slow_passes_s = times.passes_s(everyone, slow, factor=factor)
        return Effect(
            slow_passes_s / times.passes_s(everyone, factor=factor),
            slow_s / whole_s if whole_s else 1.0,
            links=_shares_left(parts, failure.factor),
        )

    def together(
        self, failures: Sequence[Failure], group: int, factor: float = 1.0, types: int = 1
    ) -> float:
        """Return how many times as long a group with several slow components computes."""
        if self.times is None or self.times.step is None:
            return max(failure.factor for failure in failures)
        assert self.parts_of is not None
        levels = {failure.level for failure in failures}
        are_alike = self._groups_are_alike and levels.isdisjoint(NETWORK - OF_ONE_GPU)
        simulated = 0 if are_alike else group
        stages: dict[int, float] = {}
        links: dict[str, float] = {}
        for failure in failures:
            number = failure.number
            if failure.level not in NETWORK:
                for stage in self._stages_on(failure, group):
                    stages[stage] = max(failure.factor, stages.get(stage, 1.0))
                continue
            if failure.level in OF_ONE_GPU:
                number -= (group - simulated) * self.layout.gpus_per_group
            for link in self.parts_of(failure._replace(number=number)):
                links[link] = min(1.0 / failure.factor, links.get(link, 1.0))
        slow = SlowStep(tuple(sorted(links.items())), stages=tuple(sorted(stages.items())))
        alone = StepShares((simulated,), (), types)
        slow_s = self.times.passes_s(alone, slow, factor=factor)
        return slow_s / self.times.passes_s(alone, factor=factor)

    def places(self, failure: Failure, group: int) -> Sequence[Failure]:
        """Return the component at each different place in a group; none if it has no effect there.

        A network component is placed only where it carries no messages of the collective.
        """
        layout, groups = self.layout, range(group, group + 1)
        step = self._step
        if step is None:
            # Transfers between stages are hidden.
            hides = failure.level in TO_THE_NETWORK and self.stages > 1
            return () if hides else (failure._replace(groups=groups),)
        first, size = group * layout.gpus_per_group, layout.gpus_per_component(failure.level)
        gpus = (first + stage * step.pattern.tensor for stage in range(self.stages))
        numbers = dict.fromkeys(gpu // size for gpu in gpus)
        return [failure._replace(number=number, groups=groups) for number in numbers]

    @property
    def _step(self) -> PlacedStep | None:
        return None if self.times is None else self.times.step

    @property
    def _groups_are_alike(self) -> bool:
        """Whether one group of simulated steps represents the others."""
        times = self.times
        return times is not None and times.step is not None and not times.depends_on_members

    def _slow_ranks(self, failure: Failure) -> tuple[tuple[Rank, float], ...]:
        """Return the ranks that a component slows; none if ranks are folded or not simulated."""
        step = self._step
        if step is None or not step.keeps_ranks_apart:
            return ()
        gpus = self.layout.gpus_of(failure.level, failure.number)
        return tuple((step.rank_on(gpu), failure.factor) for gpu in gpus)

    def _stages_on(self, failure: Failure, group: int) -> set[int]:
        """Return the stages of a group that have GPUs on a component."""
        assert self._step is not None
        broken = self.layout.gpus_of(failure.level, failure.number)
        of_group = self.layout.gpus_of("group", group)
        common = range(max(broken[0], of_group[0]), min(broken[-1], of_group[-1]) + 1)
        return {self._step.rank_on(gpu).stage for gpu in common}


def is_down(failure: Failure) -> bool:
    """Return whether a part of the network is down, rather than slow."""
    return failure.kind == "partial" and failure.factor == 1.0


def _shares_left(links: Sequence[str], factor: float) -> tuple[tuple[str, float], ...]:
    return tuple(sorted(dict.fromkeys(links, 1.0 / factor).items()))
