"""The contract between a scheme and the training loop, checked at each decision and new plan.

Without the check, a scheme that breaks its contract would return a plausible number.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from math import lcm
from typing import NamedTuple, NoReturn

from faultline.strategies.interface.errors import StrategyError
from faultline.strategies.interface.recovery import Move
from faultline.strategies.interface.scheme import (
    Continue,
    StepPlan,
    Strategy,
    Verdict,
    WipeOut,
    remaining_members,
)
from faultline.strategies.interface.step_shares import Pipeline, StageShare
from faultline.strategies.schemes.ntp.replica_plan import power_for

_ROUNDING = 1e-9
_FEW = 64
_MOST = 1_000_000
_SHIPPED = "faultline.strategies.schemes."
_MOST_KINDS = 1_000

_Works = tuple[tuple[int | None, float, float], ...]
"""For each stage: its layers, and the work of its forward and backward passes."""


class ContractError(StrategyError):
    """A scheme broke its contract."""

    def __init__(self, scheme: str, what: str, remedy: str) -> None:
        super().__init__(f"scheme {scheme!r} broke its contract", what, remedy)


class _Stages(NamedTuple):
    """The checked stages of a pipeline."""

    given: tuple[StageShare, ...]
    groups: tuple[int, ...]  # The groups of their nodes.
    kind: int  # Number of their work among all that has been seen.


class Contract:
    """Checks that a scheme keeps its contract.

    Raises
    ------
    ContractError
        Here and in every method.
    """

    def __init__(self, strategy: Strategy, groups: int) -> None:
        self._strategy = strategy
        self._groups, self._least_groups = groups, strategy.shape.least_groups
        self._everyone = tuple(range(groups))
        self._members: tuple[int, ...] = ()
        # Tests check all verdicts of Faultline's own schemes; a run checks some of them.
        self._checks_all = not type(strategy).__module__.startswith(_SHIPPED)
        self._verdicts = 0
        self._checked: StepPlan | None = None
        # The last valid plan without its members, if it is valid for any members.
        self._valid_numbers: tuple[object, ...] | None = None
        self._known: dict[int, _Stages] = {}
        self._kinds: dict[_Works, int] = {}
        self.enter()

    def enter(self) -> None:
        """Check the plan of a scheme that may be in any state."""
        plan = self._strategy.plan()
        if not isinstance(plan, StepPlan):
            self._breach(f"plan() returned {type(plan).__name__}, and no StepPlan")
        members = plan.members
        if members == self._everyone:
            self._check_numbers(plan)
            self._members = members
            return
        if list(members) != sorted(set(members)):
            self._breach("plan() has members that are not in ascending order, each once")
        if members and not (members[0] >= 0 and members[-1] < self._groups):
            self._breach(f"plan() has members beyond the job's groups, 0 to {self._groups - 1}")
        self._check_numbers(plan)
        self._members = members

    def restarted(self) -> None:
        """Check the plan after a restart."""
        self.enter()
        lacking = self._groups - len(self._members)
        if lacking and self._strategy.restart_replaces:
            self._breach(
                f"after restart() plan() lacks {lacking} of {self._groups} groups, though the "
                "restart has replaced what was broken",
                "bring all groups back in restart(), or set restart_replaces = False",
            )

    def returned(self, groups: Sequence[int]) -> None:
        """Check the plan after dropped groups have rejoined."""
        if self._strategy.plan().members != tuple(sorted({*self._members, *groups})):
            self._breach(
                f"after on_return({list(groups)}) plan() has other members than before with those",
                "take back only the groups that return",
            )
        self.enter()

    def replanned(self) -> StepPlan:
        """Return the scheme's plan, which may have changed, but not in its members."""
        plan = self._strategy.plan()
        if plan.members is not self._members and plan.members != self._members:
            self._breach(
                "plan() has other members than at the last failure, return or restart",
                "members leave in on_failures(), and come back in on_return() or restart()",
            )
        self._check_numbers(plan)
        self._members = plan.members
        return plan

    def verdict(self, missing: Sequence[int]) -> Verdict:
        """Return the scheme's verdict on a step with missing members.

        If the state no longer fits into the memory of the remaining members, the job restarts.
        """
        verdict: object = self._strategy.on_failures(missing)
        if isinstance(verdict, WipeOut):
            return verdict
        if not isinstance(verdict, Continue):
            self._breach(f"on_failures() returned {verdict!r}", "return Continue or WipeOut")
        self._verdicts += 1
        plan = self._strategy.plan()
        if self._checks_all or self._verdicts % _FEW == 1:
            self._check_verdict(verdict, missing, plan)
        self._members = plan.members
        if len(plan.members) < self._least_groups:
            self._strategy.states_refused += 1
            return WipeOut(tuple(missing))
        return verdict

    def _check_verdict(self, verdict: Continue, missing: Sequence[int], plan: StepPlan) -> None:
        if verdict.carried_on or verdict.dropped != missing:
            self._check_decisions(verdict, missing)
        self._check_dropped(verdict.dropped, plan.members)
        self._check_numbers(plan)
        if verdict.patch:
            self._check_patch(verdict, plan.members)
        if verdict.recovery is not None and verdict.recovery.moves:
            self._check_moves(verdict.recovery.moves)

    def _check_decisions(self, verdict: Continue, missing: Sequence[int]) -> None:
        decided = (*verdict.dropped, *verdict.carried_on)
        if not decided:
            self._breach(
                "on_failures() neither dropped nor carried on any missing group, so these would "
                "be missing for ever"
            )
        if len(set(decided)) < len(decided) or not set(missing).issuperset(decided):
            self._breach(
                f"on_failures({list(missing)}) dropped {list(verdict.dropped)} and carried on "
                f"{list(verdict.carried_on)}",
                "name members that are missing, each once",
            )

    def _check_dropped(self, dropped: Sequence[int], members: tuple[int, ...]) -> None:
        """Check that the members are the previous ones without those dropped."""
        if members != remaining_members(self._members, dropped):
            what = "has other members than before without those dropped"
            if staying := [group for group in dropped if _has(members, group)]:
                what = f"still has dropped groups as members: {staying}"
            self._breach(
                f"after on_failures() plan() {what}",
                "drop from the plan the groups that the verdict drops",
            )

    def _check_patch(self, verdict: Continue, members: tuple[int, ...]) -> None:
        for group, stacks in verdict.patch.items():
            if not _has(members, group):
                self._breach(
                    f"on_failures() has group {group} compute a patch, which is no member",
                    "let members compute it",
                )
            if not _is_count(stacks, 0):
                self._breach(
                    f"on_failures() has group {group} compute {stacks} stacks",
                    f"use a whole number from 0 to {_MOST:,}",
                )

    def _check_moves(self, moves: Sequence[Move]) -> None:
        for move in moves:
            if not (0 <= move.group < self._groups and 0 <= move.of < move.stages):
                self._breach(
                    f"on_failures() moves the state of stage {move.of} of {move.stages} to group "
                    f"{move.group}",
                    f"the job has groups 0 to {self._groups - 1}; stages begin at 0",
                )

    def _check_numbers(self, plan: StepPlan) -> None:
        if plan is self._checked:
            return
        if plan.members and plan.all_but_members == self._valid_numbers:
            return
        if not (_is_count(plan.stacks, 1) and _is_count(plan.stack_size, 1)):
            self._breach(
                f"plan() has {plan.stacks} stacks of {plan.stack_size} types",
                f"use whole numbers from 1 to {_MOST:,}",
            )
        if not 0.0 < plan.pace <= _MOST:
            self._breach(
                f"plan() has a pace of {plan.pace}",
                f"use a number above 0, up to {_MOST:,}",
            )
        if plan.members and not 0.0 < plan.batch_share <= 1.0 + _ROUNDING:
            self._breach(
                f"plan() has members and a batch share of {plan.batch_share}",
                "members train a share above 0, and at most a whole batch",
            )
        if plan.approximate and not 0.0 < plan.approximate_share <= 1.0:
            self._breach(
                f"plan() has {len(plan.approximate)} approximate gradients of stages",
                "members that are not idle have one a stage",
            )
        if plan.pipelines:
            self._check_pipelines(plan)
        if plan.mirrors:
            self._check_mirrors(plan)
        self._checked = plan
        depends_on_members = plan.approximate or plan.pipelines or plan.mirrors or not plan.members
        self._valid_numbers = None if depends_on_members else plan.all_but_members

    def _check_pipelines(self, plan: StepPlan) -> None:
        """Check that pipelines are of members, on nodes of members, by one cut of the model."""
        groups = [one.group for one in plan.pipelines]
        others = [group for group in groups if not _has(plan.members, group)]
        if others or groups != sorted(set(groups)):
            self._breach(
                f"plan() has pipelines of groups {groups}",
                "name members, each once, in ascending order",
            )
        # A failure changes a few of thousands of pipelines; the others were checked before.
        known: dict[int, _Stages] = {}
        if len(self._kinds) > _MOST_KINDS:
            self._kinds, self._known = {}, {}
        for one in plan.pipelines:
            stages = self._known.get(id(one.stages))
            if stages is None or stages.given is not one.stages:
                stages = self._check_stages(one)
            known[id(one.stages)] = stages
            if one.micro_batches < bool(one.stages):
                self._breach(
                    f"plan() has {one.micro_batches} micro-batches in the pipeline of group "
                    f"{one.group}",
                    "a pipeline with stages computes at least 1",
                )
            away = [group for group in stages.groups if not _has(plan.members, group)]
            if away:
                self._breach(
                    f"plan() has group {one.group}'s pipeline on a node of group {away[0]}, which "
                    "is no member",
                    "list nodes of members: others are down",
                )
        self._known = known
        self._check_work(plan)

    def _check_stages(self, one: Pipeline) -> _Stages:
        """Check the stages of one pipeline."""
        cuts = {stage.layers is None for stage in one.stages}
        stages = self._strategy.shape.stages
        nodes = all(
            0 <= stage.group < self._groups and 0 <= stage.node < stages for stage in one.stages
        )
        if not nodes or len(cuts) > 1:
            self._breach(
                f"plan() has stages {one.stages} in the pipeline of group {one.group}",
                f"use nodes 0 to {stages - 1} of groups 0 to {self._groups - 1}, and state the "
                "layers of all stages or of none",
            )
        factors = [each for stage in one.stages for each in (stage.forward, stage.backward)]
        if not all(0.0 <= factor <= _MOST for factor in factors):
            self._breach(
                f"plan() has work {factors} in the pipeline of group {one.group}",
                f"use factors from 0 to {_MOST:,}",
            )
        groups = tuple(dict.fromkeys(stage.group for stage in one.stages))
        works = tuple((stage.layers, stage.forward, stage.backward) for stage in one.stages)
        return _Stages(one.stages, groups, self._kinds.setdefault(works, len(self._kinds)))

    def _check_mirrors(self, plan: StepPlan) -> None:
        """Check the mirrors that members send to each other between steps."""
        for one in plan.mirrors:
            if not _is_count(one.every_steps, 1):
                self._breach(
                    f"plan() has a mirror every {one.every_steps} steps",
                    f"use a whole number from 1 to {_MOST:,}",
                )
            if not one.moves:
                self._breach("plan() has a mirror without moves", "use a tuple of SentMove")
            for move, sender in one.moves:
                stages = range(move.stages)
                if not (move.receiver in stages and move.of in stages and 0.0 < move.share <= 1.0):
                    self._breach(
                        f"plan() has a mirror that cannot be sent: {move}",
                        "use numbers below Move.stages for its stages, and a share above 0, up to "
                        "1",
                    )
                ends = [group for group in (sender, move.group) if group is not None]
                if len(set(ends)) < 2 or not all(_has(plan.members, group) for group in ends):
                    self._breach(
                        f"plan() has a mirror from group {sender} to group {move.group}",
                        "let a member send to another member",
                    )

    def _check_work(self, plan: StepPlan) -> None:
        """Refuse a step that computes a stage for fewer samples than it trains.

        The micro-batches of each pass are counted for each stage, over all nodes that compute it. A
        backward pass with less work counts as whole if its gradient is declared approximate. All
        passes of a pipeline count as whole if the declared power of its GPUs makes up for the work
        that they leave out.
        """
        shape = self._strategy.shape
        unit = lcm(shape.stages, shape.layers)
        approximate: dict[int, frozenset[int]] = {}
        for task in plan.approximate:
            approximate[task.group] = approximate.get(task.group, frozenset()) | {task.stage}
        boosted = self._boosted(plan)
        # For each pass, the changes of the number of micro-batches along the model, in units.
        more = (
            defaultdict[int, float](float, {unit: 0.0}),
            defaultdict[int, float](float, {unit: 0.0}),
        )
        alike = Counter(
            (
                self._known[id(one.stages)].kind,
                one.orders or one.micro_batches,
                one.group in boosted,
                approximate.get(one.group, frozenset()),
            )
            for one in plan.pipelines
        )
        kinds = list(self._kinds)
        for (kind, loads, is_boosted, inexact), pipelines in alike.items():
            begin = 0
            for place, (layers, forward, backward) in enumerate(kinds[kind]):
                part = unit // shape.stages if layers is None else layers * (unit // shape.layers)
                batches = loads[place].count("F") if isinstance(loads, tuple) else loads
                works = (forward, 1.0 if place in inexact else backward)
                for change, work in zip(more, works, strict=True):
                    passes = pipelines * batches * (1.0 if is_boosted and work > 0 else work)
                    change[begin] += passes
                    change[begin + part] -= passes
                begin += part
        types = plan.stacks * plan.stack_size
        whole = float(len(plan.members) - len(plan.pipelines))
        trained = plan.batch_share * self._groups
        for name, change in zip(("forward", "backward"), more, strict=True):
            done, place = 0.0, 0
            for end in sorted(change):
                computed = types * (whole + done / shape.micro_batches)
                if place < end <= unit and computed < trained * (1 - _ROUNDING):
                    self._breach(
                        f"plan() trains {trained:g} shard types, and all nodes compute "
                        f"{computed:g} {name} passes of stage {place * shape.stages // unit}",
                        "let pipelines list all nodes that compute, or lower batch_share",
                    )
                place, done = end, done + change[end]

    def _boosted(self, plan: StepPlan) -> set[int]:
        """Return the groups whose GPUs do all work because they draw more power.

        A smaller share of work means faster GPUs. The plan's mean power has to cover their draw.
        """
        if plan.power <= 1.0:
            return set()
        drawn = {}
        for one in plan.pipelines:
            least = min((min(stage.forward, stage.backward) for stage in one.stages), default=1.0)
            power = power_for(1.0 / least) if 0.0 < least < 1.0 else None
            if power is not None:
                drawn[one.group] = power - 1.0
        covered = sum(drawn.values()) <= (plan.power - 1.0) * self._groups + _FEW * _ROUNDING
        return set(drawn) if covered else set()

    def _breach(self, what: str, remedy: str = "see docs/adding-a-scheme.md") -> NoReturn:
        raise ContractError(self._strategy.name, what, remedy)


def _is_count(number: object, least: int) -> bool:
    return type(number) is int and least <= number <= _MOST


def _has(members: tuple[int, ...], group: int) -> bool:
    place = bisect_left(members, group)
    return place < len(members) and members[place] == group
