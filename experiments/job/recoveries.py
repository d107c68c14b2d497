"""What a typical failure costs under each scheme, phase by phase."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.keys import schema_keys
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.tables.recovery import PRESETS
from faultline.experiments.config.tables.table import documentation_of
from faultline.experiments.config.tables.times import key_of_recovery
from faultline.experiments.job.durations import hardware_of
from faultline.experiments.job.resolved_job import ResolvedJob, resolve
from faultline.simulator.failures.failure import UNSTATED_CAUSE, Failure
from faultline.simulator.recovery_times import RecoveryPhase, sent_moves
from faultline.strategies.base import Continue, Hit
from faultline.strategies.errors import StrategyError
from faultline.strategies.job_shape import loses_a_share
from faultline.strategies.recovery import Recovery, rejoining

_KEYS_OF_PHASES = {
    "detect": ("detect_s",),
    "diagnose": ("diagnose_s",),
    "abort": ("abort_s", "abort_per_doubling_s"),
    "launch": ("launch_s",),
    "communicators": ("communicator_s", "communicator_growth_s"),
    "warm-up": ("warm_up_s",),
}
_KEYS_OF_HARDWARE = {
    "requeue": ("requeue_s", "requeue_exponent"),
    "reschedule": ("reschedule_s",),
    "standby": ("standby_s",),
}

_FAILS = "a GPU fails"
_A_GPU = Failure(0.0, "gpu", 0, UNSTATED_CAUSE, "hardware", None, range(1))


@dataclass(frozen=True, slots=True)
class ExplainedRecovery:
    """A recovery of a scheme, phase by phase."""

    scheme: str  # The scheme.
    event: str  # What it follows.
    recovery: str  # Its kind.
    phases: tuple[RecoveryPhase, ...]  # In order, with the source of each time.

    @property
    def duration_s(self) -> float:
        """Seconds of all phases."""
        return sum(phase.duration_s for phase in self.phases)


def explained_recoveries(
    scenario: Scenario, schemes: Iterable[str]
) -> Iterator[ExplainedRecovery | str]:
    """Yield the recoveries from the failure of one GPU under each scheme, and from its repair.

    Parameters
    ----------
    scenario : Scenario
        The job.
    schemes : iterable of str
        Registered names.

    Yields
    ------
    ExplainedRecovery or str
        A recovery; or of a scheme that the job cannot have, one line that says why.
    """
    for name in schemes:
        changes: dict[str, object] = {"strategy.name": name}
        if name != scenario.strategy.name:
            changes |= {"strategy.redundancy": None}
        try:
            question = resolve(scenario.with_(changes))
            strategy = question.strategy()
        except (StrategyError, UserError) as error:
            yield f"{name}: {error}"
            continue
        groups = question.scenario.job.groups
        broken = groups // 2
        hit = Hit(broken, 0, 0, question.scenario.job.gpus_of_group)
        if strategy.tracks_components:
            strategy.on_hit(hit)
        verdict = strategy.on_failures([broken])
        explain = _Explainer(name, question)
        lost = loses_a_share(range(groups), [broken], strategy.shape.optimizer_backup)
        if lost or not isinstance(verdict, Continue):
            yield explain.restart(_FAILS)
            continue
        members = strategy.plan().members
        if verdict.recovery is not None:
            yield explain.recovery(_FAILS, verdict.recovery, members)
        if strategy.tracks_components:
            repaired = strategy.on_repair(hit)
            if repaired is not None:
                yield explain.recovery("it is repaired", repaired, members)
        elif question.scenario.rejoin.when == "at-checkpoint" and verdict.dropped:
            back = rejoining(verdict.dropped)
            yield explain.recovery("its group returns", back, members)
        masked = strategy.masked_failures()
        yield explain.restart(_FAILS if masked <= 1.0 else f"about {masked:.3g} failures later")


class _Explainer:
    """Explains the recoveries of a scheme."""

    def __init__(self, scheme: str, question: ResolvedJob) -> None:
        self._scheme, self._question = scheme, question

    def recovery(self, event: str, recovery: Recovery, members: Sequence[int]) -> ExplainedRecovery:
        durations, groups = self._question.durations, self._question.scenario.job.groups
        prices, moves = durations.recovery, durations.moves
        if recovery.replaces_hardware and not self._question.standbys:
            recovery = recovery.without_standbys()
        priced = prices.phases(recovery, len(members), [_A_GPU])
        phases = self._with_sources(priced, recovery.kind)
        if moves is not None and recovery.moves and not prices.states(recovery):
            took_s = moves.duration_s(sent_moves(recovery.moves, groups, members))
            size_bytes = moves.size_bytes(recovery.moves)
            source = "measured: flows between GPUs of the platform"
            phases.append(RecoveryPhase("state", took_s, 0, size_bytes, source))
        return ExplainedRecovery(self._scheme, event, recovery.kind, tuple(phases))

    def restart(self, event: str) -> ExplainedRecovery:
        """Explain a restart of the whole job, with loading from storage."""
        question = self._question
        scenario, strategy = question.scenario, question.strategy()
        durations = question.durations
        needed, groups = strategy.restart_recovery(), scenario.job.groups
        priced = durations.recovery.phases(needed, groups, [_A_GPU])
        phases = self._with_sources(priced, "restart")
        if durations.load_s:
            traffic_bytes = question.state_bytes
            stated = not scenario.measured.load
            source = "stated: times.checkpoint_load_s" if stated else "measured: from storage"
            phases.append(RecoveryPhase("state", durations.load_s, 0, traffic_bytes, source))
        return ExplainedRecovery(self._scheme, event, "restart", tuple(phases))

    def _with_sources(self, phases: Sequence[RecoveryPhase], kind: str) -> list[RecoveryPhase]:
        return [phase._replace(source=self._source(phase, kind)) for phase in phases]

    def _source(self, phase: RecoveryPhase, kind: str) -> str:
        table = self._question.scenario.recovery
        if phase.name == "all phases":
            return f"stated: times.{key_of_recovery(kind)}"
        names = _KEYS_OF_PHASES.get(phase.name)
        if phase.name == "detect" and table.detected == "by-kind":
            names = ("detected",)
        if names is None:
            names = _KEYS_OF_HARDWARE[hardware_of(self._question.scenario)]
        if any(name in table.model_fields_set for name in names):
            return f"stated: recovery.{names[0]}"
        known = schema_keys(Scenario)
        said = documentation_of(known["recovery", names[0]].field).source or ""
        preset = f"{table.preset}: " if names[0] in PRESETS[table.preset] else ""
        return preset + said.removeprefix("by recovery.preset; ").removeprefix("derived: ")
