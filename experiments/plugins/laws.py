"""The laws of a scheme's decisions: each a name, a sentence, and a check that needs no engine."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite

import numpy as np
from faultline.experiments.plugins.subject import Subject, all_lives, hits, lives, require
from faultline.simulator.loop.contract import Contract
from faultline.strategies.interface.errors import StrategyError
from faultline.strategies.interface.recovery import Recovery
from faultline.strategies.interface.scheme import Continue, StepPlan, Strategy, WipeOut
from faultline.strategies.plugins.registry import all_protections

_ROUNDING = 1e-9
_CHANGED_BY_PICKLE = "changes when it is pickled for another process"


@dataclass(frozen=True, slots=True)
class Law:
    """A law of schemes."""

    name: str
    sentence: str  # What it requires, for a reader who sees the name for the first time.
    check: Callable[[Subject], None]
    """Raise a `SchemeError` that tells the fault, or an error of the scheme itself."""


def _declared(subject: Subject) -> None:
    scheme = subject.scheme
    require("name" in vars(scheme), "has no name of its own")
    require(bool(scheme.summary), "has no summary")
    require(bool((scheme.__doc__ or "").strip()), "has no docstring")
    for name, option in scheme.Options.model_fields.items():
        require(bool(option.description), f"option {name} has no description")
    unknown = set(scheme.protections) - set(all_protections())
    require(not unknown, f"protections names unknown ones: {', '.join(sorted(unknown))}")


def _redundancies(subject: Subject) -> None:
    known = list(subject.scheme.redundancies(subject.groups, subject.options))
    require(bool(known), f"redundancies() offers none with {subject.groups} groups")
    fitting = all(1 <= one <= subject.groups for one in known)
    require(fitting, f"redundancies() offers {known}: use integers from 1 to groups")
    for redundancy in known:
        accepted = subject.scheme.accepts(subject.groups, redundancy, subject.options)
        require(accepted, f"offers redundancy {redundancy} and does not accept it")
    try:
        subject.built(subject.groups + 1)
    except StrategyError:
        return
    require(False, f"is built with redundancy {subject.groups + 1}, more than groups")


def _closed_forms(subject: Subject) -> None:
    for redundancy in subject.redundancies():
        strategy = subject.built(redundancy)
        masked, work = strategy.masked_failures(), strategy.work_per_step()
        require(isfinite(masked) and masked >= 1, f"masked_failures() is {masked}, below 1")
        require(isfinite(work) and work > 0, f"work_per_step() is {work}")
        chances = strategy.forces_restart()
        valid = bool(chances) and all(0 <= chance <= 1 for chance in chances)
        require(valid, f"forces_restart() is {chances}: use probabilities")


def _stable_plan(subject: Subject) -> None:
    for redundancy in subject.redundancies():
        whole = subject.built(redundancy).plan().members == tuple(range(subject.groups))
        require(whole, "does not start with all groups as members")
    for strategy, _ in all_lives(subject):
        same = strategy.plan() is strategy.plan()
        require(same, "plan() returns another object although nothing changed")


def _legal_verdicts(subject: Subject) -> None:
    for _ in all_lives(subject):  # The contract of the loop refuses an illegal verdict or plan.
        pass


def _compute_conserved(subject: Subject) -> None:
    for redundancy in subject.redundancies():
        _check_conserved(subject, subject.built(redundancy).plan())
    for strategy, _ in all_lives(subject):
        if strategy.plan().members:
            _check_conserved(subject, strategy.plan())


def _check_conserved(subject: Subject, plan: StepPlan) -> None:
    """Check that active members compute the trained shards; a full batch has one per group."""
    active = len(plan.members) - len(plan.idle)
    computed = active * plan.stacks * plan.stack_size * max(1.0, plan.pace)
    trained = plan.batch_share * subject.groups
    require(
        computed >= trained * (1 - _ROUNDING),
        f"plans a step that trains {trained:g} of {subject.groups} shard types, while "
        f"{active} active members compute {computed:g}: lower batch_share, or let members compute "
        "more (stacks, stack_size, pace)",
    )


def _announced_recoveries(subject: Subject) -> None:
    for _, verdict in all_lives(subject):
        if isinstance(verdict, Continue):
            _check_recovery(subject, verdict.recovery)


def _check_recovery(subject: Subject, recovery: object) -> None:
    """Refuse a recovery that the scheme does not list, as it would have no price."""
    valid = recovery is None or isinstance(recovery, Recovery)
    require(valid, f"needs {recovery!r} to recover: use a Recovery, or None")
    kinds = subject.scheme.recoveries
    if isinstance(recovery, Recovery):
        known = recovery.kind in kinds
        require(known, f"needs {recovery.kind}, and recoveries lists {', '.join(kinds)}")


def _complete_restart(subject: Subject) -> None:
    for redundancy in subject.redundancies():
        first = subject.built(redundancy).plan()
        for strategy, verdict in lives(subject, redundancy, seed=1):
            goes_on = isinstance(verdict, Continue) and strategy.plan().members
            if strategy.restart_replaces and not goes_on:
                again = copy.deepcopy(strategy)
                again.restart()
                require(again.plan() == first, "restart() does not reset all failures")


def _failures_decide(subject: Subject) -> None:
    redundancy = subject.redundancies()[-1]
    plans = []
    for seed in (1, 2):
        with _global_generators_at(seed):
            met = lives(subject, redundancy, 2)
            plans.append([repr((one.plan(), verdict)) for one, verdict in met])
        bystander = subject.built(redundancy)
        if not bystander.tracks_components:
            bystander.on_failures((0,))
    require(plans[0] == plans[1], "returns different verdicts for the same failures")


@contextmanager
def _global_generators_at(seed: int) -> Iterator[None]:
    """Seed the global random numbers, which a scheme must not use; then restore their state."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


def _travels(subject: Subject) -> None:
    for strategy, _ in lives(subject, subject.redundancies()[-1], seed=3):
        sent = pickle.loads(pickle.dumps(strategy))
        require(sent.plan() == strategy.plan(), _CHANGED_BY_PICKLE)
        missing = strategy.plan().members[:1]
        if missing and not strategy.tracks_components:
            given = list(missing)
            one, other = copy.deepcopy(strategy).on_failures(given), sent.on_failures(missing)
            require(given == list(missing), "on_failures() changes its argument")
            require(repr(one) == repr(other), _CHANGED_BY_PICKLE)


def _returns_leave_nothing(subject: Subject) -> None:
    """Let dropped groups return in two batches, or repair all components."""
    for redundancy in subject.redundancies():
        first, strategy = subject.built(redundancy).plan(), subject.built(redundancy)
        if strategy.tracks_components:
            if _repaired(subject, strategy):
                require(
                    strategy.plan() == first,
                    f"differs from its first plan after all repairs: {strategy.plan()}",
                )
        else:
            _returned(subject, strategy)
            same = strategy.plan() == first
            require(same, "differs from its first plan after all groups returned")


def _returned(subject: Subject, strategy: Strategy) -> None:
    """Drop every third group that the scheme can do without, and let all return."""
    contract, down = Contract(strategy, subject.groups), []
    for group in range(0, subject.groups, 3):
        verdict = copy.deepcopy(strategy).on_failures((group,))
        if isinstance(verdict, Continue) and group in verdict.dropped:
            contract.verdict((group,))
            down.append(group)
    for some in (down[::2], down[1::2]):
        if some:
            strategy.on_return(tuple(some))
            contract.returned(some)


def _repaired(subject: Subject, strategy: Strategy) -> bool:
    """Break and repair two components; return False if a restart replaces them all."""
    contract, broken = Contract(strategy, subject.groups), hits((0, 2), np.random.default_rng(4))
    for place, hit in enumerate(broken):
        strategy.on_hit(hit)
        if isinstance(contract.verdict((hit.group,)), WipeOut):
            strategy.restart()
            if strategy.restart_replaces:
                return False
            # A restart does not repair broken components.
            for known in broken[: place + 1]:
                strategy.on_hit(known)
            contract.restarted()
    for hit in broken:
        _check_recovery(subject, strategy.on_repair(hit))
    if strategy.repairs_wait_for_restart:
        strategy.restart()
    missing = sorted(set(range(subject.groups)) - set(strategy.plan().members))
    if missing:
        strategy.on_return(tuple(missing))
    return True


LAWS = (
    Law(
        "complete declaration", "name, summary, docstring and options tell what they are", _declared
    ),
    Law(
        "offered redundancies",
        "each is accepted, and more than all groups is refused",
        _redundancies,
    ),
    Law(
        "valid closed forms",
        "failures masked, work and chances are possible numbers",
        _closed_forms,
    ),
    Law(
        "stable plan",
        "all groups begin; the plan changes only when something happens",
        _stable_plan,
    ),
    Law(
        "legal verdicts",
        "a verdict and its plan drop and carry on only who failed",
        _legal_verdicts,
    ),
    Law("compute conserved", "no step trains more than its members compute", _compute_conserved),
    Law(
        "announced recoveries",
        "`recoveries` lists every recovery that is needed",
        _announced_recoveries,
    ),
    Law("complete restart", "a restart forgets all failures", _complete_restart),
    Law("failures alone decide", "equal failures have equal verdicts", _failures_decide),
    Law("travels to workers", "pickling changes nothing", _travels),
    Law(
        "complete repair",
        "returned groups and repaired parts leave no trace",
        _returns_leave_nothing,
    ),
)
"""The laws that are checked by calling a scheme for thousands of failures."""
