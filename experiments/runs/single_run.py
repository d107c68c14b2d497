"""One run: a scenario and a seed in, one flat record out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.grid import EngineName
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.job.failure_model import failure_files
from faultline.experiments.job.filled import filled_in
from faultline.experiments.job.platform_files import explaining_aborts, platform_file, traffic_of
from faultline.experiments.job.resolved_job import ResolvedJob, resolve
from faultline.platforms.preset_library import preset_names
from faultline.simulator.progress import Progress
from faultline.simulator.replay import ReplayEngine
from faultline.simulator.run import play
from faultline.simulator.simgrid_engine.process import run_on_simgrid
from faultline.simulator.timeline import Event
from faultline.simulator.training import Training

Record = dict[str, Any]


def run(
    scenario: Scenario,
    seed: int,
    engine: EngineName = "replay",
    record_event: Callable[[Event], None] | None = None,
    on_checkpoint: Callable[[int, float], None] | None = None,
) -> Record:
    """Play a scenario with one seed.

    Parameters
    ----------
    scenario : Scenario
        What is asked.
    seed : int
        Names the random numbers; one seed, one record.
    engine : {"replay", "simgrid"}
        Which engine plays.
    record_event : callable, optional
        Called with every event of the run's timeline.
    on_checkpoint : callable, optional
        Called with completed steps and simulated seconds now and then (replay engine only).

    Returns
    -------
    dict
        The record: names, settings and metrics, all of them scalars.
    """
    return run_question(resolve(scenario), seed, engine, record_event, on_checkpoint)


def run_question(
    question: ResolvedJob,
    seed: int,
    engine: EngineName = "replay",
    record_event: Callable[[Event], None] | None = None,
    on_checkpoint: Callable[[int, float], None] | None = None,
) -> Record:
    """Play a question with every value filled in; otherwise as `run`."""
    scenario = question.scenario
    if engine == "replay":
        _check_even(question)
        job = question.job(seed)
        training = Training(job.work, job.rules, question.strategy(), record_event, on_checkpoint)
        play(training, ReplayEngine(job))
        return make_record(question, training.progress, seed, engine)
    path = platform_file(scenario)
    traffic = traffic_of(scenario, path)
    with explaining_aborts(path):
        result = run_on_simgrid(
            question.job(seed),
            question.strategy(),
            path,
            traffic,
            events=record_event is not None,
        )
    if record_event is not None:
        for event in result.events:
            record_event(event)
    return make_record(question, result.progress, seed, engine)


def _check_even(question: ResolvedJob) -> None:
    """Refuse to replay what depends on which groups are left: only SimGrid knows their links."""
    unevenness = question.durations.unevenness
    if unevenness > 0.01:
        raise UserError(
            f"{question.scenario.platform.file}: groups are placed unequally, so measured times "
            f"depend by up to {unevenness:.0%} on which of them are left; use "
            '--engine simgrid, or set all_reduce.time and checkpoint.write to "stated" and '
            'restart.load to "included"'
        )


def make_record(question: ResolvedJob, progress: Progress, seed: int, engine: EngineName) -> Record:
    """Boil a run down to its record.

    ``time_to_train_ratio`` is the simulated time over that of as many steps without redundancy,
    failures, jitter and checkpoints (T_0 of Lee et al. 2026 (SPARe)); where the job gave up before
    its last step, only the steps it has done count, and the ratio is infinite where there is none.
    Steps are counted in full batches: one that trains half a batch is half a step.

    ``goodput`` is `goodput`; ``checkpoint_interval_s`` is how long the steps between two
    checkpoints take on average, those with failures and redundancy included.
    """
    scenario = question.scenario
    job = scenario.job
    full_batch_s = job.compute_s + question.durations.all_reduce_s(job.groups)
    ideal_s = progress.completed_batches * full_batch_s
    now_s = progress.now_s
    stepping_s = now_s - sum(progress.seconds[cause] for cause in ("checkpoint", "restart", "load"))
    step_s = stepping_s / progress.played_steps if progress.played_steps else full_batch_s
    return {
        "scenario": scenario.name,
        "scenario_hash": scenario_hash(question),
        "version": version("faultline"),
        "strategy": scenario.strategy.name,
        "engine": engine,
        "seed": seed,
        "groups": job.groups,
        "gpus": job.gpus_of_group * job.groups,
        "redundancy": question.redundancy,
        "checkpoint_interval_steps": question.interval_steps,
        "checkpoint_interval_s": question.interval_steps * step_s,
        "protection": scenario.protection.name,
        "snapshot_interval_steps": question.protected.snapshot_interval_steps,
        "distribution": scenario.failures.process,
        "steps": job.steps,
        "completed_steps": _whole(progress.completed_batches),
        "time_s": now_s,
        "goodput": goodput(progress.completed_batches, full_batch_s, now_s),
        "time_to_train_ratio": now_s / ideal_s if ideal_s else float("inf"),
        "availability": 1.0 - progress.downtime_s / now_s if now_s else 1.0,
        "downtime_s": progress.downtime_s,
        "restarts": progress.restarts,
        "restarts_from_memory": progress.restarts_from_memory,
        "restarts_from_peers": progress.restarts_from_peers,
        "rejoined": progress.rejoined,
        "failures": progress.failures,
        "failures_while_down": progress.failures_while_down,
        **{f"failures_by_cause.{cause}": n for cause, n in progress.failures_by_cause.items()},
        "reorderings": progress.reorderings,
        "moved_types": progress.moved_types,
        "checkpoints": progress.checkpoints,
        "snapshots": progress.snapshots,
        "played_steps": progress.played_steps,
        "mean_stacks": progress.stack_computations / max(1, progress.played_steps),
        **{f"{kind}_s": seconds for kind, seconds in progress.seconds.items()},
    }


def goodput(batches: float, full_batch_s: float, time_s: float) -> float:
    """Return the share of the time that trained for good.

    Goodput is the useful compute and all-reduce of the full batches that were trained and not taken
    back, over the simulated time: what a job without failures, redundancy, jitter and checkpoints
    needs for them. It is between 0 and 1, and tells nothing of how fast the machine is; for that
    there is the time.

    Parameters
    ----------
    batches : float
        Full batches that were trained and kept.
    full_batch_s : float
        Compute of one shard type and the all-reduce of all groups, in seconds.
    time_s : float
        Simulated time, in seconds; without any there is no loss.
    """
    return batches * full_batch_s / time_s if time_s else 1.0


def _whole(batches: float) -> float:
    """Return full batches as a whole number, unless steps of smaller batches leave a rest."""
    nearest = round(batches)
    return nearest if abs(batches - nearest) < 1e-6 else batches


def scenario_hash(question: ResolvedJob) -> str:
    """Return a short digest of what a scenario comes to, but for its name and description.

    What was left open counts by what was found for it: written down by ``scenario show``, the
    scenario is the same.
    """
    scenario = filled_in(question)
    paths: dict[str, set[str]] = {}
    if scenario.platform.file not in preset_names():
        paths["platform"] = {"file"}
    if failure_files(scenario):
        paths["failures"] = {"mix", "trace"}
    # Files count by what is in them, wherever they are.
    return _digest(scenario, paths)


def asked_hash(scenario: Scenario) -> str:
    """Return a short digest of everything a scenario says but its name and description.

    A platform file counts by its path and its content, and so does a file of failures: edited, it
    is another scenario. Nothing is measured for it.
    """
    return _digest(scenario, {})


def _digest(scenario: Scenario, without: dict[str, set[str]]) -> str:
    said = scenario.model_dump_json(exclude={"name": True, "description": True, **without})
    digest = hashlib.sha256(said.encode())
    if scenario.platform.file not in preset_names():
        digest.update(Path(scenario.platform.file).read_bytes())
    for path in failure_files(scenario):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
