"""The check of the scheme contract, behind `faultline.testing`."""

from __future__ import annotations

import copy
import pickle
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import isclose, isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from faultline.experiments.config.errors import SchemeError
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.job_shape import job_shape
from faultline.experiments.job.platform_files import platform_file
from faultline.experiments.job.resolving import resolve
from faultline.experiments.job.step_times import simulated_traffic
from faultline.experiments.streams import print_text
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_writer import write_xml
from faultline.simulator.accounting.progress import Progress
from faultline.simulator.accounting.timeline import Event, EventKind
from faultline.simulator.job.job import Job
from faultline.simulator.loop.contract import Contract, ContractError
from faultline.simulator.loop.run import simulate
from faultline.simulator.loop.training import Training
from faultline.simulator.processes.process import OwnProcess, simulate_here
from faultline.simulator.replay.engine import ReplayEngine
from faultline.simulator.simgrid.errors import SimulationError
from faultline.strategies.interface.errors import StrategyError
from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.recovery import Recovery
from faultline.strategies.interface.scheme import (
    Continue,
    Hit,
    StepPlan,
    Strategy,
    StrategyOptions,
    WipeOut,
)

_LIVES = 20
"""Lives (from one restart to the next) in the check of each redundancy."""

_MOST_AT_ONCE = 3
_MOST_REDUNDANCIES = 4
_GPUS_PER_GROUP = 8
_ROUNDING = 1e-9
_ANOTHER_PLAN = "plan() returns another object although nothing changed"
_CHANGED_BY_PICKLE = "changes when it is pickled for another process"

_STEPS = 30
_SEEDS = (1, 2)
_TOLERANCE = 1e-6
_LIMIT_S = 4e4
"""Limit of simulated time: a scheme without masking never finishes at these failure rates."""

_PLAYED_GROUPS = 4
_PLAYED_TOLERANCE = 0.01
"""Hidden gradients share links with passes, for which replay is an approximation."""
_WITH_RANKS = [
    f"job.groups={_PLAYED_GROUPS}",
    "job.steps=12",
    "job.time_limit_s=300",
    "model.name=custom",
    "model.layers=8",
    "model.hidden=4096",
    "model.ffn_hidden=14336",
    "model.heads=32",
    "model.sequence_tokens=4096",
    "model.vocabulary=32000",
    "model.pipeline=4",
    "model.tensor=2",
    "model.micro_batches=4",
    "failures.mtbf_s=1.2",
    "failures.component=gpu",
    "times.restart_s=0.5",
    "times.checkpoint_write_s=0.02",
    "recovery.launch_s=0.05",
    "recovery.communicator_s=0.01",
    "rejoin.repair_s=2",
    "checkpoint.interval_steps=4",
    "strategy.name=checkpoint",
]
"""A job with steps of a fraction of a second, and a failure every few steps."""

_COUNTS = (
    "completed_steps",
    "simulated_steps",
    "restarts",
    "events",
    "hits",
    "reorderings",
    "moved_types",
    "checkpoints",
)


@dataclass(frozen=True)
class Subject:
    """The checked scheme."""

    scheme: type[Strategy]
    groups: int  # Data-parallel groups of the job.
    options: StrategyOptions  # Options of the scheme.
    shape: JobShape = field(default_factory=JobShape)
    counts: Counter[str] = field(default_factory=Counter)  # What the checks have tried.

    def built(self, redundancy: int) -> Strategy:
        """Return the scheme in its first state."""
        return self.scheme(self.groups, redundancy, self.options, self.shape)

    def redundancies(self) -> list[int]:
        """Return at most `_MOST_REDUNDANCIES` of the offered redundancies, evenly spaced."""
        known = list(self.scheme.redundancies(self.groups, self.options))
        step = max(1, -(-len(known) // _MOST_REDUNDANCIES))
        return known[::step]


def check_scheme(
    scheme: type[Strategy], *, groups: int, options: StrategyOptions | None, engines: bool
) -> None:
    """Check the contract of a scheme; see `faultline.testing.check_scheme`."""
    subject = Subject(scheme, groups, scheme.Options() if options is None else options)
    for check in (
        _check_declaration,
        _check_redundancies,
        _check_start,
        _check_lives,
        _check_purity,
        _check_returns,
        _check_components,
    ):
        _explained(check, subject)
    if engines:
        _explained(_check_with_groups, subject)
        _explained(_check_with_ranks, subject)
    for line in _passed(subject, engines=engines):
        print_text(line)


def _passed(subject: Subject, *, engines: bool) -> Iterator[str]:
    """Yield lines with the checks that a scheme has passed, and with their extent."""
    counts, redundancies = subject.counts, ", ".join(map(str, subject.redundancies()))
    yield f"{subject.scheme.name}: keeps the contract of schemes. Checked:"
    yield f"- declaration and first plan: {subject.groups} groups, redundancy {redundancies}"
    yield (
        f"- verdicts and plans after {counts['failures']:,} failures and {counts['restarts']:,} "
        "restarts: members, conservation of work, reset by a restart"
    )
    yield "- equal verdicts for equal failures, pickling, returned groups"
    if subject.scheme.tracks_components:
        yield "- repaired components"
    if engines:
        yield (
            f"- {counts['jobs']} jobs on replay and SimGrid, one with a [model]: equal events, "
            f"{counts['failures of jobs']:,} failures"
        )
    else:
        yield "- not checked: jobs on both engines (engines=False)"


def _explained(check: Callable[[Subject], None], subject: Subject) -> None:
    try:
        check(subject)
    except SchemeError:
        raise
    except (ContractError, StrategyError) as error:
        raise SchemeError(str(error)) from error
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        raise SchemeError(f"scheme {subject.scheme.name!r} raised {text}") from error


def _require(holds: bool, subject: Subject | str, message: str) -> None:
    if not holds:
        where = subject if isinstance(subject, str) else f"scheme {subject.scheme.name!r}"
        raise SchemeError(f"{where}: {message}")


def _check_declaration(subject: Subject) -> None:
    scheme = subject.scheme
    _require("name" in vars(scheme), subject, "has no name of its own")
    _require(bool(scheme.summary), subject, "has no summary")
    _require(bool((scheme.__doc__ or "").strip()), subject, "has no docstring")
    for name, option in scheme.Options.model_fields.items():
        _require(bool(option.description), subject, f"option {name} has no description")
    from faultline.strategies.plugins.registry import all_protections

    unknown = set(scheme.protections) - set(all_protections())
    _require(not unknown, subject, f"protections names unknown ones: {', '.join(sorted(unknown))}")


def _check_redundancies(subject: Subject) -> None:
    known = list(subject.scheme.redundancies(subject.groups, subject.options))
    _require(bool(known), subject, f"redundancies() offers none with {subject.groups} groups")
    fitting = all(1 <= one <= subject.groups for one in known)
    _require(fitting, subject, f"redundancies() offers {known}: use integers from 1 to groups")
    for redundancy in known:
        accepted = subject.scheme.accepts(subject.groups, redundancy, subject.options)
        _require(accepted, subject, f"offers redundancy {redundancy} and does not accept it")
    try:
        subject.built(subject.groups + 1)
    except StrategyError:
        return
    _require(False, subject, f"is built with redundancy {subject.groups + 1}, more than groups")


def _check_start(subject: Subject) -> None:
    for redundancy in subject.redundancies():
        strategy = subject.built(redundancy)
        plan = strategy.plan()
        whole = plan.members == tuple(range(subject.groups))
        _require(whole, subject, "does not start with all groups as members")
        _require(strategy.plan() is plan, subject, _ANOTHER_PLAN)
        masked, work = strategy.masked_failures(), strategy.work_per_step()
        _require(
            isfinite(masked) and masked >= 1, subject, f"masked_failures() is {masked}, below 1"
        )
        _require(isfinite(work) and work > 0, subject, f"work_per_step() is {work}")
        chances = strategy.forces_restart()
        valid = bool(chances) and all(0 <= chance <= 1 for chance in chances)
        _require(valid, subject, f"forces_restart() is {chances}: use probabilities")


def _hits(missing: Sequence[int], draws: np.random.Generator) -> list[Hit]:
    gpus = [int(draws.integers(_GPUS_PER_GROUP)) for _ in missing]
    return [Hit(group, gpu, gpu, _GPUS_PER_GROUP) for group, gpu in zip(missing, gpus, strict=True)]


def _lives(subject: Subject, redundancy: int, seed: int) -> Iterator[tuple[Strategy, Any]]:
    """Yield a scheme and its verdict for many failures, some of several groups at once."""
    draws, strategy = np.random.default_rng(seed), subject.built(redundancy)
    contract = Contract(strategy, subject.groups)
    restarts = steps = 0
    while restarts < _LIVES and steps < _LIVES * subject.groups:
        steps += 1
        members = strategy.plan().members
        if not members:
            verdict: Any = WipeOut(())
        else:
            count = min(len(members), int(draws.integers(1, _MOST_AT_ONCE + 1)))
            chosen = draws.choice(members, size=count, replace=False)
            missing = tuple(sorted(int(group) for group in chosen))
            if strategy.tracks_components:
                for hit in _hits(missing, draws):
                    strategy.on_hit(hit)
            verdict = contract.verdict(missing)
        yield strategy, verdict
        if isinstance(verdict, WipeOut) or not strategy.plan().members:
            restarts += 1
            strategy.restart()
            if strategy.restart_replaces:
                contract.restarted()
            else:
                # The old instance would continue with the broken components.
                strategy = subject.built(redundancy)
                contract = Contract(strategy, subject.groups)
        else:
            contract.replanned()


def _check_lives(subject: Subject) -> None:
    """Check the contract and conservation after each failure, and that a restart resets all."""
    for redundancy in subject.redundancies():
        first = subject.built(redundancy).plan()
        _check_conserved(subject, first)
        for strategy, verdict in _lives(subject, redundancy, seed=1):
            plan = strategy.plan()
            if isinstance(verdict, Continue) and plan.members:
                _check_conserved(subject, plan)
                _check_recovery(subject, verdict.recovery)
                _require(strategy.plan() is plan, subject, _ANOTHER_PLAN)
            elif strategy.restart_replaces:
                again = copy.deepcopy(strategy)
                again.restart()
                _require(again.plan() == first, subject, "restart() does not reset all failures")
            subject.counts["failures"] += 1
            subject.counts["restarts"] += isinstance(verdict, WipeOut) or not plan.members


def _check_conserved(subject: Subject, plan: StepPlan) -> None:
    """Check that active members compute the trained shards; a full batch has one per group."""
    active = len(plan.members) - len(plan.idle)
    computed = active * plan.stacks * plan.stack_size * max(1.0, plan.pace)
    trained = plan.batch_share * subject.groups
    _require(
        computed >= trained * (1 - _ROUNDING),
        subject,
        f"plans a step that trains {trained:g} of {subject.groups} shard types, while "
        f"{active} active members compute {computed:g}: lower batch_share, or let members compute "
        "more (stacks, stack_size, pace)",
    )


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


def _check_purity(subject: Subject) -> None:
    """Check that equal failures lead to equal plans, independent of global state."""
    redundancy = subject.redundancies()[-1]
    plans = []
    for seed in (1, 2):
        with _global_generators_at(seed):
            lives = _lives(subject, redundancy, 2)
            plans.append([repr((one.plan(), verdict)) for one, verdict in lives])
        bystander = subject.built(redundancy)
        bystander.on_failures((0,)) if not bystander.tracks_components else None
    _require(plans[0] == plans[1], subject, "returns different verdicts for the same failures")
    for strategy, _ in _lives(subject, redundancy, seed=3):
        sent = pickle.loads(pickle.dumps(strategy))
        _require(sent.plan() == strategy.plan(), subject, _CHANGED_BY_PICKLE)
        missing = strategy.plan().members[:1]
        if missing and not strategy.tracks_components:
            given = list(missing)
            one, other = copy.deepcopy(strategy).on_failures(given), sent.on_failures(missing)
            _require(given == list(missing), subject, "on_failures() changes its argument")
            _require(repr(one) == repr(other), subject, _CHANGED_BY_PICKLE)


def _check_returns(subject: Subject) -> None:
    """Check that dropped groups return, in two batches, without any effect afterwards."""
    for redundancy in subject.redundancies():
        first, strategy = subject.built(redundancy).plan(), subject.built(redundancy)
        if strategy.tracks_components:
            return
        contract = Contract(strategy, subject.groups)
        down: list[int] = []
        for group in range(0, subject.groups, 3):
            verdict = copy.deepcopy(strategy).on_failures((group,))
            if isinstance(verdict, Continue) and group in verdict.dropped:
                contract.verdict((group,))
                down.append(group)
        for some in (down[::2], down[1::2]):
            if some:
                strategy.on_return(tuple(some))
                contract.returned(some)
        after = strategy.plan()
        _require(after == first, subject, "differs from its first plan after all groups returned")


def _check_recovery(subject: Subject, recovery: object) -> None:
    """Refuse a recovery that the scheme does not list, as it would have no price."""
    valid = recovery is None or isinstance(recovery, Recovery)
    _require(valid, subject, f"needs {recovery!r} to recover: use a Recovery, or None")
    kinds = subject.scheme.recoveries
    if isinstance(recovery, Recovery):
        known = recovery.kind in kinds
        _require(known, subject, f"needs {recovery.kind}, and recoveries lists {', '.join(kinds)}")


def _check_components(subject: Subject) -> None:
    """Check that repaired components have no effect afterwards."""
    if not subject.scheme.tracks_components:
        return
    for redundancy in subject.redundancies():
        first, strategy = subject.built(redundancy).plan(), subject.built(redundancy)
        contract, hits = Contract(strategy, subject.groups), _hits((0, 2), np.random.default_rng(4))
        for place, hit in enumerate(hits):
            strategy.on_hit(hit)
            if isinstance(contract.verdict((hit.group,)), WipeOut):
                strategy.restart()
                if strategy.restart_replaces:
                    return
                # A restart does not repair broken components.
                for known in hits[: place + 1]:
                    strategy.on_hit(known)
                contract.restarted()
        for hit in hits:
            _check_recovery(subject, strategy.on_repair(hit))
        if strategy.repairs_wait_for_restart:
            strategy.restart()
        missing = sorted(set(range(subject.groups)) - set(strategy.plan().members))
        if missing:
            strategy.on_return(tuple(missing))
        _require(
            strategy.plan() == first,
            subject,
            f"differs from its first plan after all repairs: {strategy.plan()}",
        )


def _check_with_groups(subject: Subject) -> None:
    redundancy = subject.redundancies()[0]
    check_engines(lambda: subject.built(redundancy), subject.groups, subject.counts)


def check_engines(build: Callable[[], Strategy], groups: int, counts: Counter[str]) -> None:
    """Run the same failures on both engines, and compare their events.

    `counts` receives the numbers of jobs and of their failures.

    Raises
    ------
    SchemeError
        If events differ, the times by cause do not sum to the whole, or nothing failed.
    """
    component = ["failures.component=gpu"] if build().tracks_components else []
    settings = [
        *(f"job.groups={groups}", f"job.steps={_STEPS}", f"job.time_limit_s={_LIMIT_S}"),
        *("job.compute_jitter=0", "strategy.name=checkpoint", "checkpoint.interval_steps=5"),
        # Recoveries must be shorter than the time between failures, or they never end.
        *("recovery.preset=hot-swap", "recovery.shortage=reschedule"),
        *component,
    ]
    scenario = load_scenario("spare-sound", settings)
    for seed in _SEEDS:
        _check_events(scenario, build, seed, _TOLERANCE, counts)


def _check_with_ranks(subject: Subject) -> None:
    """Run a small job with a model on both engines: pipelines by ranks and messages."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "platform.xml"
        write_xml(load_preset("hgx-h100", domains=_PLAYED_GROUPS, domains_per_leaf=4), path)
        scenario = load_scenario("llama3-70b-hgx", [*_WITH_RANKS, f"platform.file={path}"])
        played = replace(subject, groups=_PLAYED_GROUPS, shape=job_shape(scenario))
        redundancy = played.redundancies()[0]

        def build() -> Strategy:
            return played.built(redundancy)

        _check_events(scenario, build, _SEEDS[0], _PLAYED_TOLERANCE, subject.counts)


def _check_events(
    scenario: Scenario,
    build: Callable[[], Strategy],
    seed: int,
    tolerance: float,
    counts: Counter[str],
) -> None:
    """Run a job on both engines, and require equal events, with times within a tolerance."""
    resolved, path = resolve(scenario), platform_file(scenario)
    job, with_ranks = resolved.job(seed), resolved.step is not None
    replayed, events = _replayed(job, build())
    traffic = simulated_traffic(scenario, path)
    where = f"scheme {build().name!r}, seed {seed}{', job with a model' if with_ranks else ''}"
    try:
        # Only a fork of this process is sure to find the scheme's class.
        with OwnProcess(forked=True) as process:
            simulated = process.call(simulate_here, job, build(), path, traffic, True)
    except SimulationError as error:
        raise SchemeError(f"{where}: {error}") from error
    _check_booked(where, replayed, events, scenario.job.steps)
    trained_s = replayed.completed_batches * resolved.ideal_step_s
    message = f"trains for {trained_s:.1f} s of {replayed.now_s:.1f} s: goodput is above 100 %"
    _require(trained_s <= replayed.now_s * (1 + _TOLERANCE), where, message)
    _compare(where, replayed, events, simulated.progress, simulated.events, tolerance)
    counts["jobs"] += 1
    counts["failures of jobs"] += replayed.events


def _replayed(job: Job, strategy: Strategy) -> tuple[Progress, list[Event]]:
    events: list[Event] = []
    training = Training(job, strategy, events.append)
    simulate(training, ReplayEngine(job))
    return training.progress, events


def _check_booked(where: str, progress: Progress, events: list[Event], steps: int) -> None:
    booked_s, now_s = sum(progress.seconds.values()), progress.now_s
    whole = isclose(booked_s, now_s, rel_tol=1e-9)
    _require(whole, where, f"{now_s} s have passed, {booked_s} s are booked")
    missing = any(event.kind is EventKind.MISSING for event in events)
    _require(progress.events > 0 and missing, where, "nothing failed in its job")
    batches = progress.completed_batches
    # The last step may train more than the remaining work.
    _require(0 <= batches < steps + 1, where, f"{batches} of {steps} batches are trained")


def _compare(
    where: str,
    replay: Progress,
    replay_events: list[Event],
    simgrid: Progress,
    simgrid_events: list[Event],
    tolerance: float,
) -> None:
    for one, other in zip(replay_events, simgrid_events, strict=False):
        same = one[1:] == other[1:] and isclose(one.time_s, other.time_s, rel_tol=tolerance)
        _require(same, where, f"the engines disagree: replay has {one}, SimGrid has {other}")
    counts = {"events": (len(replay_events), len(simgrid_events))}
    counts |= {name: (getattr(replay, name), getattr(simgrid, name)) for name in _COUNTS}
    for name, (replayed, simulated) in counts.items():
        message = f"{name}: {replayed} by replay, {simulated} by SimGrid"
        _require(replayed == simulated, where, message)
