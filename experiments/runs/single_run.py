"""One run: a scenario and a seed in, one flat record out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any

from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.tables.failures import FailureKindsTable
from faultline.experiments.job.failure_model import failure_files
from faultline.experiments.job.platform_files import explaining_aborts, platform_file
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.job.resolving import resolve
from faultline.experiments.job.stated_job import filled_in
from faultline.experiments.job.step_times import simulated_traffic
from faultline.experiments.runs.record import Record, SimulatedRun, record_of
from faultline.platforms.files import read_file
from faultline.platforms.preset_library import preset_names
from faultline.simulator.loop.run import simulate
from faultline.simulator.loop.training import Training
from faultline.simulator.replay.engine import ReplayEngine

if TYPE_CHECKING:
    from faultline.experiments.config.grid import EngineName
    from faultline.simulator.accounting.progress import Progress
    from faultline.simulator.accounting.timeline import Event
    from faultline.simulator.processes.process import SimgridResult


def run(
    job: Scenario | ResolvedJob,
    seed: int,
    engine: EngineName = "replay",
    record_event: Callable[[Event], None] | None = None,
    on_checkpoint: Callable[[int, float], None] | None = None,
    *,
    records_steps: bool = True,
) -> Record:
    """Simulate a scenario with one seed, and return its record.

    Parameters
    ----------
    job : Scenario or ResolvedJob
        The job, as stated or resolved.
    seed : int
        Seed of the random numbers; it determines the record.
    engine : {"replay", "simgrid"}
        The engine.
    record_event : callable, optional
        Called with each event of the run's timeline.
    on_checkpoint : callable, optional
        Called with completed steps and simulated seconds at checkpoints (replay engine only).
    records_steps : bool
        Whether steps are events, too: without them, runs are several times as fast (replay
        engine only).
    """
    resolved = resolve(job) if isinstance(job, Scenario) else job
    if engine == "replay":
        progress = replay(resolved, seed, record_event, on_checkpoint, records_steps=records_steps)
    else:
        result = simulate_on_simgrid(resolved, seed, events=record_event is not None)
        progress = result.progress
        if record_event is not None:
            for event in result.events:
                record_event(event)
    return record_of(SimulatedRun(resolved, progress, seed, engine, scenario_hash(resolved)))


def replay(
    resolved: ResolvedJob,
    seed: int,
    record_event: Callable[[Event], None] | None = None,
    on_checkpoint: Callable[[int, float], None] | None = None,
    *,
    records_steps: bool = True,
    noted_batches: float = inf,
) -> Progress:
    """Simulate a resolved job on the replay engine, and return its progress.

    The other parameters are those of `run`, and the full batches after which the time is noted.
    """
    job, strategy = resolved.job(seed), resolved.strategy()
    training = Training(job, strategy, record_event, on_checkpoint, records_steps=records_steps)
    training.progress.noted_batches = noted_batches
    simulate(training, ReplayEngine(job))
    return training.progress


def simulate_on_simgrid(resolved: ResolvedJob, seed: int, *, events: bool = False) -> SimgridResult:
    """Simulate a resolved job on SimGrid."""
    from faultline.simulator.processes.process import run_on_simgrid

    beside = resolved.protected.overlapped
    path = beside.platform if beside else platform_file(resolved.scenario)
    traffic = simulated_traffic(resolved.scenario, path, beside.flows if beside else ())
    job, strategy = resolved.job(seed), resolved.strategy()
    with explaining_aborts(path):
        return run_on_simgrid(job, strategy, path, traffic, events=events)


def scenario_hash(resolved: ResolvedJob) -> str:
    """Return a short digest of a resolved scenario without its name and description.

    Open keys count by their resolved values: the output of ``scenario show`` has the same digest.
    """
    scenario = filled_in(resolved)
    paths: dict[str, set[str]] = {}
    if scenario.platform.file not in preset_names():
        paths["platform"] = {"file"}
    if failure_files(scenario):
        paths["failures"] = {"mix", "trace"}
    # Files count by content, not by path.
    return _digest(scenario, paths)


def stated_hash(scenario: Scenario) -> str:
    """Return a short digest of a scenario as stated, without its name and description.

    Files of the platform and of failures count by path and content. Nothing is measured.
    """
    return _digest(scenario, {})


def _digest(scenario: Scenario, excluded: dict[str, set[str]]) -> str:
    left_out: dict[str, Any] = {"name": True, "description": True, "uncertain": True, **excluded}
    if scenario.platform.gpu_hosts is None:
        left_out["platform"] = {*excluded.get("platform", ()), "gpu_hosts"}
    if scenario.model.gpu is None:
        left_out["model"] = {"gpu"}
    left_out["failures"] = {*excluded.get("failures", ()), "kinds"}
    left_out["recovery"] = {"time_factor"}
    content, kinds = scenario.model_dump_json(exclude=left_out), scenario.failures.kinds
    digest = hashlib.sha256(content.encode())
    if kinds != FailureKindsTable():
        # A key that a later version adds does not change the digest of scenarios without it.
        digest.update(kinds.model_dump_json(exclude_defaults=True).encode())
    if scenario.recovery.time_factor != 1.0:
        digest.update(repr(scenario.recovery.time_factor).encode())
    if scenario.platform.file not in preset_names():
        from faultline.platforms.xml_reader import LARGEST_BYTES as LARGEST_XML

        digest.update(read_file(scenario.platform.file, LARGEST_XML))
    if files := failure_files(scenario):
        from faultline.experiments.config.trace_file import LARGEST_BYTES as LARGEST_TRACE

        for path in files:
            digest.update(read_file(path, LARGEST_TRACE))
    return digest.hexdigest()[:12]
