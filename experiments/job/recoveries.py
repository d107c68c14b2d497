"""The recovery from a typical failure under each scheme, phase by phase."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.keys import schema_keys
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.tables.phases import key_of_recovery
from faultline.experiments.config.tables.recovery import PRESETS
from faultline.experiments.job.hardware import (
    awaits_repairs,
    breakage_of,
    source_of_machines,
    standbys_of,
)
from faultline.experiments.job.job_shape import check_layout
from faultline.experiments.job.placement import state_bytes
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.job.resolving import resolve
from faultline.simulator.failures.failure import UNSTATED_CAUSE, Failure
from faultline.simulator.job.recovery_times import MoveTimes, RecoveryPhase, sent_moves
from faultline.strategies.interface.errors import StrategyError
from faultline.strategies.interface.job_shape import loses_a_share
from faultline.strategies.interface.recovery import Mirror, Recovery, SentMove, rejoining
from faultline.strategies.interface.scheme import Continue, Hit

_KEY_OF_PHASE = {
    "detect": "detect_s",
    "diagnose": "diagnose_s",
    "launch": "launch_s",
    "communicators": "communicator_s",
    "warm-up": "warm_up_s",
}

_REPAIRED = "rejoin.repair_s: no machine is free"
_REPAIRED_BY_CAUSE = "mean over the causes of failures.mix: no machine is free"
_FAILS = "a GPU fails"
_A_GPU = Failure(0.0, "gpu", 0, UNSTATED_CAUSE, "hardware", None, range(1))


@dataclass(frozen=True, slots=True)
class ExplainedRecovery:
    """A recovery of a scheme, phase by phase."""

    scheme: str  # The scheme.
    event: str  # The event that causes the recovery.
    recovery: str  # Kind of recovery.
    phases: tuple[RecoveryPhase, ...]  # Phases in order, with the source of each time.

    @property
    def duration_s(self) -> float:
        """Seconds of all phases."""
        return sum(phase.duration_s for phase in self.phases)


@dataclass(frozen=True, slots=True)
class RefusedScheme:
    """A scheme that a job cannot use."""

    scheme: str  # The scheme.
    error: str  # Why, in one line.

    def __str__(self) -> str:
        return f"{self.scheme}: {self.error}"

    @property
    def reason(self) -> str:
        """The error without the key that names the scheme."""
        return self.error.removeprefix(f"strategy.name = {self.scheme!r}: ")


def explained_recoveries(
    scenario: Scenario, schemes: Iterable[str]
) -> Iterator[ExplainedRecovery | RefusedScheme]:
    """Yield the recoveries from the failure of one GPU under each scheme, and after its repair.

    The state that members send to each other without a failure comes first.
    """
    for name in schemes:
        changes: dict[str, object] = {"strategy.name": name}
        if name != scenario.strategy.name:
            changes |= {"strategy.redundancy": None}
        try:
            stated = scenario.change(changes)
            check_layout(stated)
            resolved = resolve(stated)
            strategy = resolved.strategy()
        except (StrategyError, UserError) as error:
            yield RefusedScheme(name, str(error))
            continue
        for mirror in strategy.plan().mirrors:
            yield _mirror(resolved, mirror)
        groups = resolved.scenario.job.groups
        broken = groups // 2
        hit = Hit(broken, 0, 0, resolved.scenario.job.gpus_of_group)
        if strategy.tracks_components:
            strategy.on_hit(hit)
        verdict = strategy.on_failures([broken])
        shape = strategy.shape
        loses_state = loses_a_share(
            range(groups), [broken], shape.optimizer_backup, shape.domain_groups
        )
        if loses_state or not isinstance(verdict, Continue):
            yield _restart(resolved, _FAILS)
            continue
        members = strategy.plan().members
        if verdict.recovery is not None:
            yield _recovery(resolved, _FAILS, verdict.recovery, members)
        if strategy.tracks_components:
            repaired = strategy.on_repair(hit)
            if repaired is not None:
                yield _recovery(resolved, "it is repaired", repaired, members)
        elif resolved.scenario.rejoin.when == "at-checkpoint" and verdict.dropped:
            back = rejoining(verdict.dropped)
            yield _recovery(resolved, "its group returns", back, members)
        masked = strategy.masked_failures()
        yield _restart(
            resolved,
            _FAILS if masked <= 1.0 else f"about {float(f'{masked:.3g}'):,g} failures later",
        )


def _recovery(
    resolved: ResolvedJob, event: str, recovery: Recovery, members: Sequence[int]
) -> ExplainedRecovery:
    prices, moves = resolved.durations.recovery, resolved.durations.moves
    if recovery.replaces_hardware and not standbys_of(resolved.scenario):
        recovery = recovery.without_standbys()
    phases = _phases(resolved, recovery)
    if moves is not None and recovery.moves and prices.whole_s(recovery) is None:
        phases.append(_state_phase(moves, sent_moves(recovery.moves, members)))
    name = resolved.scenario.strategy.name
    return ExplainedRecovery(name, event, recovery.kind, tuple(phases))


def _mirror(resolved: ResolvedJob, mirror: Mirror) -> ExplainedRecovery:
    """Explain the periodic transfers between members."""
    times, every = resolved.durations.moves, mirror.every_steps
    assert times is not None
    phase = _state_phase(times, mirror.moves)
    event = "each step" if every == 1 else f"every {every:,} steps"
    return ExplainedRecovery(resolved.scenario.strategy.name, event, "mirror", (phase,))


def _state_phase(times: MoveTimes, sent: Sequence[SentMove]) -> RecoveryPhase:
    size_bytes = times.size_bytes([move for move, _ in sent])
    source = "measured: flows between GPUs of the platform"
    return RecoveryPhase("state", times.duration_s(sent), 0, size_bytes, source)


def _restart(resolved: ResolvedJob, event: str) -> ExplainedRecovery:
    """Explain a restart of the whole job, with loading from storage."""
    scenario, durations = resolved.scenario, resolved.durations
    phases = _phases(resolved, resolved.strategy().restart_recovery())
    if durations.load_s:
        stated = not scenario.measured.load
        source = "stated: times.checkpoint_load_s" if stated else "measured: from storage"
        phases.append(RecoveryPhase("state", durations.load_s, 0, state_bytes(scenario), source))
    return ExplainedRecovery(scenario.strategy.name, event, "restart", tuple(phases))


def _phases(resolved: ResolvedJob, recovery: Recovery) -> list[RecoveryPhase]:
    """Return phases with their sources; the repair comes first if the job waits for it."""
    scenario = resolved.scenario
    waits = recovery.replaces_hardware and awaits_repairs(scenario)
    needed = replace(recovery, replaces_hardware=False) if waits else recovery
    phases = resolved.durations.recovery.phases(needed, [_A_GPU])
    sourced = [phase._replace(source=_source(scenario, phase, recovery.kind)) for phase in phases]
    if not waits:
        return sourced
    repair_s = breakage_of(scenario, resolved.failures).mean_repair_s
    source = _REPAIRED if repair_s == scenario.rejoin.repair_s else _REPAIRED_BY_CAUSE
    return [RecoveryPhase("repair", repair_s, source=source), *sourced]


def _source(scenario: Scenario, phase: RecoveryPhase, kind: str) -> str:
    table = scenario.recovery
    if phase.name == "all phases":
        return f"stated: times.{key_of_recovery(kind)}"
    name = _KEY_OF_PHASE.get(phase.name)
    if phase.name == "detect" and table.detected == "by-kind":
        name = "detected"
    if name is None:
        name = f"{source_of_machines(scenario)}_s"
    if name in table.model_fields_set:
        return f"stated: recovery.{name}"
    source = schema_keys(Scenario)["recovery", name].source
    preset = f"{table.preset}: " if name in PRESETS[table.preset] else ""
    return preset + source.removeprefix("by recovery.preset; ").removeprefix("derived: ")
