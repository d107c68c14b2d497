"""Mitigation of stragglers during a run: work is redistributed, parts are moved or evicted.

Each step loses the same time: its nominal time with stragglers minus that of a sound step. So the
number of steps until a remedy is due can be computed ahead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf

from faultline.simulator.failures.failure import NETWORK, Failure, JobLayout
from faultline.simulator.job.conditions import (
    UNDISTURBED,
    Conditions,
    Disturbances,
    Slowdown,
    SlowParts,
    slowdown_of,
)
from faultline.simulator.job.effects import Effect, Effects
from faultline.strategies.interface.scheme import StepPlan
from faultline.strategies.theory.stragglers import (
    Remedy,
    RemedyName,
    balanced_shares,
    gather_stragglers,
    next_remedy,
)


@dataclass(frozen=True)
class MitigationState:
    """The mitigations in force, by straggler."""

    # Stragglers by whose pace micro-batches are dealt.
    dealt: frozenset[Failure] = frozenset()
    # The new place of each moved straggler; None if it has no effect there.
    moved: dict[Failure, Failure | None] = field(default_factory=dict)
    evicted: frozenset[Failure] = frozenset()  # Stragglers that have left the job.


class Response:
    """Mitigates the stragglers of a run.

    Without a `slow_response`, the job goes on at the pace of its stragglers.

    Attributes
    ----------
    taken : dict of str to int
        How often each remedy was taken.
    """

    def __init__(
        self, disturbances: Disturbances, layout: JobLayout, conditions: Conditions
    ) -> None:
        self._layout, self._conditions = layout, conditions
        self._settings = disturbances.slow_response
        self.is_active = self._settings is not None
        remedies = self._settings.policy.remedies if self._settings else ()
        self.taken: dict[str, int] = {one.name: 0 for one in remedies}
        self._lost_s: dict[RemedyName, float] = {one.name: 0.0 for one in remedies}
        self._mitigations = MitigationState()
        self._plan: StepPlan | None = None
        self._steps, self._lost_per_step_s, self._sound_s = 0, 0.0, 0.0
        self._useless: set[Remedy] = set()
        self._found_before: list[Failure] = []

    def slowdown(self, plan: StepPlan) -> Slowdown:
        """Return the slowdown of a step with the mitigations in force."""
        if not self._conditions.slow:
            return UNDISTURBED
        return self._slowdown_with(self._mitigations, plan)

    def follow(self, plan: StepPlan, sound_s: float, slow: Slowdown) -> None:
        """Note the next steps' plan, their compute time without stragglers, and their slowdown."""
        if self._settings is None:
            return
        self._book_lost_time()
        self._plan, self._sound_s = plan, sound_s
        self._lost_per_step_s = self._lost_by(slow)
        self._useless.clear()
        if not self._present():
            # An evicted part returns once it is no longer slow.
            slow_parts = {part for part, _ in self._conditions.slow}
            self._mitigations = MitigationState(evicted=self._mitigations.evicted & slow_parts)
            self._lost_s = dict.fromkeys(self._lost_s, 0.0)

    def count_steps(self, steps: int) -> None:
        """Count executed steps, whether they committed or not."""
        self._steps += steps

    def quiet_until_s(self, now_s: float) -> float:
        """Return when the next straggler is found, in seconds of simulated time."""
        if self._settings is None:
            return inf
        after_s = self._settings.policy.located_after_s
        times = (part.time_s + after_s for part in self._present())
        return min((time_s for time_s in times if time_s > now_s), default=inf)

    def quiet_steps(self) -> float:
        """Return the number of steps after which a remedy may be due."""
        if self._settings is None or self._lost_per_step_s <= 0.0:
            return inf
        policy, steps = self._settings.policy, inf
        for remedy in policy.remedies:
            lacking_s = policy.lost_until_s(remedy) - self._lost_so_far_s()[remedy.name]
            if remedy not in self._useless and lacking_s > 0.0:
                steps = min(steps, ceil(lacking_s / self._lost_per_step_s))
        return max(steps, 1)

    def due(self, now_s: float) -> Remedy | None:
        """Return the remedy to take now, if any."""
        if self._settings is None or self._lost_per_step_s <= 0.0:
            return None
        found = self._found(now_s)
        if found != self._found_before:
            self._useless.clear()
            self._found_before = found
        if not found:
            return None

        def helps(remedy: Remedy) -> bool:
            assert self._plan is not None
            if remedy not in self._useless:
                after = self._slowdown_with(self._with(remedy, found), self._plan)
                if self._lost_by(after) < self._lost_per_step_s * (1.0 - 1e-9):
                    return True
                self._useless.add(remedy)
            return False

        return next_remedy(self._settings.policy, self._lost_so_far_s(), helps)

    def take(self, remedy: Remedy, now_s: float) -> frozenset[Failure]:
        """Apply a remedy; return the parts that it evicts."""
        self._book_lost_time()
        self._lost_s[remedy.name] = 0.0
        self.taken[remedy.name] += 1
        before, found = self._mitigations, self._found(now_s)
        self._mitigations = self._with(remedy, found)
        return self._mitigations.evicted - before.evicted

    def _book_lost_time(self) -> None:
        self._lost_s, self._steps = self._lost_so_far_s(), 0

    def _lost_so_far_s(self) -> dict[RemedyName, float]:
        more_s = self._steps * self._lost_per_step_s
        return {name: lost_s + more_s for name, lost_s in self._lost_s.items()}

    def _lost_by(self, slow: Slowdown | Effect) -> float:
        """Return how many seconds a slowdown adds to a step."""
        assert self._settings is not None
        compute = slow.slowest if isinstance(slow, Slowdown) else slow.compute
        all_reduce_s = self._settings.all_reduce_s * (slow.collective - 1.0)
        return self._sound_s * (compute - 1.0) + all_reduce_s

    def _present(self) -> list[Failure]:
        """Return the stragglers of members that have not been evicted."""
        members = set(self._plan.members) if self._plan else set()
        parts = (part for part, _ in self._conditions.slow if part not in self._mitigations.evicted)
        return [part for part in parts if not members.isdisjoint(part.groups)]

    def _found(self, now_s: float) -> list[Failure]:
        """Return the stragglers that are detected by now."""
        assert self._settings is not None
        after_s = self._settings.policy.located_after_s
        return [part for part in self._present() if part.time_s + after_s <= now_s]

    def _with(self, remedy: Remedy, found: Sequence[Failure]) -> MitigationState:
        """Return the mitigations once a remedy is applied to the stragglers that are found."""
        mitigations = self._mitigations
        if remedy.name == "redeal":
            return replace(mitigations, dealt=frozenset(found))
        if remedy.name == "restart":
            return replace(mitigations, evicted=mitigations.evicted.union(found))
        return replace(mitigations, moved=self._swapped(found))

    def _slowdown_with(self, mitigations: MitigationState, plan: StepPlan) -> Slowdown:
        """Return the slowdown of a step under some mitigations."""
        parts, dealt = [], []
        for part, effect in self._conditions.slow:
            placed = mitigations.moved.get(part, part)
            if part in mitigations.evicted or placed is None:
                continue
            parts.append((placed, effect if placed is part else self._effects(placed)))
            if part in mitigations.dealt:
                dealt.append(parts[-1])
        slow = self._slowdown_of(parts, plan)
        # Shares that the scheme itself has changed stay as they are.
        known = self._slowdown_of(dealt, plan).compute
        return self._dealt(slow, known, plan.members) if known and not plan.pipelines else slow

    @property
    def _effects(self) -> Effects:
        assert self._conditions.effects is not None
        return self._conditions.effects

    def _slowdown_of(self, parts: SlowParts, plan: StepPlan) -> Slowdown:
        return slowdown_of(parts, plan.members, self._effects)

    def _dealt(
        self, slow: Slowdown, known: Mapping[int, float], members: tuple[int, ...]
    ) -> Slowdown:
        """Return the slowdown of a step whose micro-batches are dealt by the known paces."""
        settings = self._settings
        assert settings is not None
        each, fill = settings.micro_batches, settings.fill

        def pace(factor: float) -> float:
            # Apart from the fill, compute is per micro-batch; the slow stage delays each of them.
            return (factor * (each + fill) - fill) / each

        shares = balanced_shares(
            [pace(known.get(group, 1.0)) for group in members], each * len(members)
        )
        deal = {group: n for group, n in zip(members, shares, strict=True) if n != each}
        compute = {}
        for group in (*deal, *(group for group in slow.compute if group not in deal)):
            share, factor = deal.get(group, each), slow.compute.get(group, 1.0)
            passes = (pace(factor) * share + fill) / (each + fill) if share else 0.0
            compute[group] = passes
        step = slow.step._replace(deal=tuple(sorted(deal.items())))
        return replace(slow, compute=compute, step=step)

    def _swapped(self, found: Iterable[Failure]) -> dict[Failure, Failure | None]:
        """Move stragglers to where they cost least; gather slow nodes in few groups."""
        effects, layout = self._effects, self._layout
        single = [part for part in found if len(part.groups) == 1]
        nodes = [part for part in single if part.level not in NETWORK]
        nodes.sort(key=lambda part: -effects(part).compute)
        room = layout.gpus_per_group // layout.gpus_per_host
        homes = gather_stragglers([part.groups[0] for part in nodes], max(room, 1))
        targets = [*zip(nodes, homes, strict=True)]
        targets += [(part, part.groups[0]) for part in single if part.level in NETWORK]
        moved: dict[Failure, Failure | None] = {}
        for part, group in targets:
            places = effects.places(part, group)
            used = {placed.component for placed in moved.values() if placed}
            moved[part] = min(
                places,
                key=lambda place: (place.component in used, self._lost_by(effects(place))),
                default=None,
            )
        return moved
