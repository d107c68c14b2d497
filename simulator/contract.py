"""What a scheme owes the training loop, looked at whenever it decides or plans anew.

A scheme that breaks its contract would else give a number that looks like any other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NoReturn

from faultline.strategies.base import Continue, StepPlan, Strategy, Verdict, WipeOut, without
from faultline.strategies.errors import StrategyError
from faultline.strategies.recovery import Mirror, Move, SentMove

_ROUNDING = 1e-9
_FEW = 64
_MOST = 1_000_000


class ContractError(StrategyError):
    """A scheme broke its contract.

    Parameters
    ----------
    scheme : str
        Its name.
    what : str
        What it did.
    remedy : str
        What would be right.
    """

    def __init__(self, scheme: str, what: str, remedy: str) -> None:
        super().__init__(f"scheme {scheme!r} broke its contract", what, remedy)


class Contract:
    """Holds a scheme to its contract.

    Parameters
    ----------
    strategy : Strategy
        The scheme.
    groups : int
        Data-parallel groups of the job.

    Raises
    ------
    ContractError
        Here and in every method.
    """

    def __init__(self, strategy: Strategy, groups: int) -> None:
        self._strategy = strategy
        self._groups = groups
        self._everyone = tuple(range(groups))
        self._members: tuple[int, ...] = ()
        self._verdicts = 0
        self._checked: StepPlan | None = None
        self.enter()

    def enter(self) -> None:
        """Look at the plan of a scheme that may be in any state."""
        plan = self._strategy.plan()
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
        """Look at the plan after a restart."""
        self.enter()
        lacking = self._groups - len(self._members)
        if lacking and self._strategy.restart_replaces:
            self._breach(
                f"after restart() plan() lacks {lacking} of {self._groups} groups, though the "
                "restart has replaced what was broken",
                "bring all groups back in restart(), or set restart_replaces = False",
            )

    def returned(self, groups: Sequence[int]) -> None:
        """Look at the plan after dropped groups came back."""
        if self._strategy.plan().members != tuple(sorted({*self._members, *groups})):
            self._breach(
                f"after on_return({list(groups)}) plan() has other members than before with those",
                "take back the groups that return, and nobody else",
            )
        self.enter()

    def replanned(self) -> StepPlan:
        """Return a plan that changed though no group left or came back."""
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
        """Ask the scheme what becomes of a step that lacks members.

        Where so few would be left that their share of the state does not fit, the job restarts.
        """
        verdict: object = self._strategy.on_failures(missing)
        if isinstance(verdict, WipeOut):
            return verdict
        if not isinstance(verdict, Continue):
            self._breach(f"on_failures() returned {verdict!r}", "return Continue or WipeOut")
        if verdict.carried_on or verdict.dropped != missing:
            self._check_answered(verdict, missing)
        plan = self._strategy.plan()
        self._check_dropped(verdict.dropped, plan.members)
        self._check_numbers(plan)
        if verdict.patch:
            self._check_patch(verdict, plan.members)
        if verdict.recovery is not None and verdict.recovery.moves:
            self._check_moves(verdict.recovery.moves)
        self._members = plan.members
        if len(plan.members) < self._strategy.shape.least_groups:
            self._strategy.states_refused += 1
            return WipeOut(tuple(missing))
        return verdict

    def _check_answered(self, verdict: Continue, missing: Sequence[int]) -> None:
        answered = (*verdict.dropped, *verdict.carried_on)
        if not answered:
            self._breach(
                "on_failures() neither dropped nor carried on any of the missing, who would be "
                "missing for ever"
            )
        if len(set(answered)) < len(answered) or not set(missing).issuperset(answered):
            self._breach(
                f"on_failures({list(missing)}) dropped {list(verdict.dropped)} and carried on "
                f"{list(verdict.carried_on)}",
                "name members that are missing, each once",
            )

    def _check_dropped(self, dropped: Sequence[int], members: tuple[int, ...]) -> None:
        """Look at who is left: all of few members, and of many their number and the dropped.

        Every so often, all of many too: to compare thousands at each failure would take longer
        than to play it.
        """
        before, self._verdicts = self._members, self._verdicts + 1
        staying = [group for group in dropped if _has(members, group)]
        wrong = len(members) != len(before) - len(dropped)
        if len(before) <= _FEW or self._verdicts % _FEW == 0:
            wrong = members != without(before, dropped)
        if staying or wrong:
            what = "has other members than before without those dropped"
            if staying:
                what = f"still has dropped groups as members: {staying}"
            self._breach(
                f"after on_failures() plan() {what}", "drop from the plan whom the verdict drops"
            )

    def _check_patch(self, verdict: Continue, members: tuple[int, ...]) -> None:
        patch = verdict.patch
        # A set of all members takes longer than to look for a few among them.
        few = len(patch) * _FEW < len(members)
        strangers = (
            any(not _has(members, group) for group in patch) if few else patch.keys() - set(members)
        )
        if strangers:
            group = next(group for group in patch if not _has(members, group))
            self._breach(
                f"on_failures() has group {group} compute a patch, which is no member",
                "let members compute it",
            )
        whole = set(map(type, patch.values())) == {int}
        if not whole or not 0 <= min(patch.values()) <= max(patch.values()) <= _MOST:
            group, stacks = next(one for one in patch.items() if not _is_count(one[1], 0))
            self._breach(
                f"on_failures() has group {group} compute {_short(stacks)} stacks",
                f"use a whole number from 0 to {_MOST:,}",
            )

    def _check_moves(self, moves: Sequence[Move]) -> None:
        for move in moves:
            if not (0 <= move.group < self._groups and 0 <= move.of < move.stages):
                self._breach(f"on_failures() moves state that is none of the job's: {move}")

    def _check_numbers(self, plan: StepPlan) -> None:
        if plan is self._checked:
            return
        if not (_is_count(plan.stacks, 1) and _is_count(plan.stack_size, 1)):
            self._breach(
                f"plan() has {_short(plan.stacks)} stacks of {_short(plan.stack_size)} types",
                f"use whole numbers from 1 to {_MOST:,}",
            )
        if not 0.0 < plan.pace <= _MOST:
            self._breach(
                f"plan() has a pace of {_short(plan.pace)}",
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

    def _check_pipelines(self, plan: StepPlan) -> None:
        """Look at who does what: members, with nodes of the job, by one cut of the model."""
        groups = [one.group for one in plan.pipelines]
        strangers = [group for group in groups if not _has(plan.members, group)]
        if strangers or groups != sorted(set(groups)):
            self._breach(
                f"plan() has pipelines of groups {groups}",
                "name members, each once, in ascending order",
            )
        for one in plan.pipelines:
            cuts = {stage.layers is None for stage in one.stages}
            stages = self._strategy.shape.stages
            nodes = all(
                0 <= stage.group < self._groups and 0 <= stage.node < stages for stage in one.stages
            )
            if not nodes or len(cuts) > 1 or one.micro_batches < bool(one.stages):
                self._breach(f"plan() has a pipeline that cannot be: {one}")
            factors = [each for stage in one.stages for each in (stage.forward, stage.backward)]
            if not all(0.0 <= factor <= _MOST for factor in factors):
                self._breach(f"plan() has a pipeline with work that cannot be: {one}")
        self._check_work(plan)

    def _check_mirrors(self, plan: StepPlan) -> None:
        """Look at what members send to each other between steps."""
        mirrors: object = plan.mirrors
        if not isinstance(mirrors, tuple) or not all(isinstance(one, Mirror) for one in mirrors):
            self._breach("plan() has mirrors that are none", "use a tuple of Mirror")
        for one in plan.mirrors:
            if not _is_count(one.every_steps, 1):
                self._breach(
                    f"plan() has a mirror every {_short(one.every_steps)} steps",
                    f"use a whole number from 1 to {_MOST:,}",
                )
            moves: object = one.moves
            if not (isinstance(moves, tuple) and moves):
                self._breach("plan() has a mirror without moves", "use a tuple of SentMove")
            for sent in one.moves:
                if not _can_be_sent(sent):
                    self._breach(
                        f"plan() has a mirror that cannot be sent: {sent}",
                        "use a SentMove, with whole numbers below Move.stages for its stages, and "
                        "a share above 0, up to 1",
                    )
                near, far = sent.sender or 0, sent.move.group
                if near == far or not (_has(plan.members, near) and _has(plan.members, far)):
                    self._breach(
                        f"plan() has a mirror from group {near} to group {far}",
                        "let a member send to another member",
                    )

    def _check_work(self, plan: StepPlan) -> None:
        """Refuse a step whose nodes together compute less than what it trains.

        Work counts in micro-batches of whole models. The backward pass counts unless gradients are
        approximate; GPUs at raised power do in less time what they are listed with.
        """
        shape, lacking = self._strategy.shape, plan.batch_share * self._groups * (1 - _ROUNDING)
        done = float(len(plan.members) - len(plan.pipelines))
        for one in plan.pipelines:
            cut = bool(one.stages) and one.stages[0].layers is not None
            for place, stage in enumerate(one.stages):
                share = (stage.layers or 0) / shape.layers if cut else 1.0 / shape.stages
                passes = one.orders[place].count("F") if one.orders else one.micro_batches
                work = stage.forward if plan.approximate else min(stage.forward, stage.backward)
                work = 1.0 if plan.power > 1.0 else work
                done += passes / shape.micro_batches * share * work
        done *= plan.stacks * plan.stack_size
        if done < lacking:
            self._breach(
                f"plan() trains {plan.batch_share * self._groups:g} shard types, and the nodes of "
                f"its pipelines compute {done:g}",
                "let pipelines list all nodes that compute, or lower batch_share",
            )

    def _breach(self, what: str, remedy: str = "see docs/adding-a-scheme.md") -> NoReturn:
        raise ContractError(self._strategy.name, what, remedy)


def _is_count(number: object, least: int) -> bool:
    return type(number) is int and least <= number <= _MOST


def _can_be_sent(sent: object) -> bool:
    """Return whether it is a stage's state, or a part of it, on its way between two groups."""
    if not (isinstance(sent, SentMove) and isinstance(sent.move, Move)):
        return False
    move = sent.move
    if not all(type(number) is int for number in (sent.sender, *move[:-1])):
        return False
    stages = 0 <= min(move.receiver, move.of) <= max(move.receiver, move.of) < move.stages <= _MOST
    return stages and type(move.share) in (int, float) and 0.0 < move.share <= 1.0


def _short(number: object) -> str:
    """Return a number as text; Python refuses to write integers of thousands of digits."""
    if type(number) is int and abs(number) > _MOST:
        return f"more than {_MOST:,}" if number > 0 else f"less than {-_MOST:,}"
    return str(number)


def _has(members: tuple[int, ...], group: int) -> bool:
    place = bisect_left(members, group)
    return place < len(members) and members[place] == group
