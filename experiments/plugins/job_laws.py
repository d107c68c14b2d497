"""The laws of jobs under a scheme, checked by running short jobs on both engines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isclose
from pathlib import Path
from tempfile import TemporaryDirectory

from faultline.experiments.config.errors import SchemeError
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.job_shape import job_shape
from faultline.experiments.job.platform_files import platform_file
from faultline.experiments.job.resolving import resolve
from faultline.experiments.job.step_times import simulated_traffic
from faultline.experiments.plugins.laws import Law
from faultline.experiments.plugins.subject import Subject, require
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_writer import write_xml
from faultline.simulator.accounting.progress import Progress
from faultline.simulator.accounting.timeline import Event, EventKind
from faultline.simulator.job.job import Job
from faultline.simulator.loop.run import simulate
from faultline.simulator.loop.training import Training
from faultline.simulator.processes.process import OwnProcess, simulate_here
from faultline.simulator.replay.engine import ReplayEngine
from faultline.simulator.simgrid.errors import SimulationError
from faultline.strategies.interface.scheme import Strategy

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


@dataclass(frozen=True, slots=True)
class Played:
    """One job on both engines: progress and events by replay and by SimGrid."""

    where: str
    steps: int
    ideal_step_s: float
    tolerance: float  # Relative, of times by the two engines.
    progress: tuple[Progress, Progress]
    events: tuple[list[Event], list[Event]]


def played_jobs(subject: Subject) -> list[Played]:
    """Run short jobs: two of groups alone, one with a model, by ranks and messages."""
    redundancy = subject.redundancies()[0]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "platform.xml"
        write_xml(load_preset("hgx-h100", domains=_PLAYED_GROUPS, domains_per_leaf=4), path)
        with_model = load_scenario("llama3-70b-stress", [*_WITH_RANKS, f"platform.file={path}"])
        ranked = replace(subject, groups=_PLAYED_GROUPS, shape=job_shape(with_model))
        own = ranked.redundancies()[0]
        return [
            *played_groups(lambda: subject.built(redundancy), subject.groups),
            _play(with_model, lambda: ranked.built(own), _SEEDS[0], _PLAYED_TOLERANCE),
        ]


def played_groups(build: Callable[[], Strategy], groups: int) -> list[Played]:
    """Run jobs of groups alone, without a model, with the same failures on both engines."""
    component = ["failures.component=gpu"] if build().tracks_components else []
    settings = [
        *(f"job.groups={groups}", f"job.steps={_STEPS}", f"job.time_limit_s={_LIMIT_S}"),
        *("job.compute_jitter=0", "strategy.name=checkpoint", "checkpoint.interval_steps=5"),
        # Recoveries must be shorter than the time between failures, or they never end.
        *("recovery.preset=hot-swap", "recovery.shortage=reschedule"),
        *component,
    ]
    scenario = load_scenario("spare-sound", settings)
    return [_play(scenario, build, seed, _TOLERANCE) for seed in _SEEDS]


def _play(scenario: Scenario, build: Callable[[], Strategy], seed: int, tolerance: float) -> Played:
    resolved, path = resolve(scenario), platform_file(scenario)
    job = resolved.job(seed)
    where = f"seed {seed}" if resolved.step is None else f"seed {seed}, job with a model"
    replayed, events = _replayed(job, build())
    traffic = simulated_traffic(scenario, path)
    try:
        # Only a fork of this process is sure to find the scheme's class.
        with OwnProcess(forked=True) as process:
            simulated = process.call(simulate_here, job, build(), path, traffic, True)
    except SimulationError as error:
        raise SchemeError(f"{where}: {error}") from error
    return Played(
        where,
        scenario.job.steps,
        resolved.ideal_step_s,
        tolerance,
        (replayed, simulated.progress),
        (events, simulated.events),
    )


def _replayed(job: Job, strategy: Strategy) -> tuple[Progress, list[Event]]:
    events: list[Event] = []
    training = Training(job, strategy, events.append)
    simulate(training, ReplayEngine(job))
    return training.progress, events


def time_booked(played: Played) -> None:
    """Check that each second has one cause, and that something failed."""
    for progress in played.progress:
        booked_s, now_s = sum(progress.seconds.values()), progress.now_s
        whole = isclose(booked_s, now_s, rel_tol=1e-9)
        require(whole, f"{played.where}: {now_s} s have passed, {booked_s} s are booked")
    missing = any(event.kind is EventKind.MISSING for event in played.events[0])
    failed = played.progress[0].events > 0 and missing
    require(failed, f"{played.where}: nothing failed in its job")


def goodput_at_most_one(played: Played) -> None:
    """Check that a job trains no longer than it lasts, and no more than its batches."""
    for progress in played.progress:
        trained_s = progress.completed_batches * played.ideal_step_s
        require(
            trained_s <= progress.now_s * (1 + _TOLERANCE),
            f"{played.where}: trains for {trained_s:.1f} s of {progress.now_s:.1f} s: goodput is "
            "above 100 %",
        )
        # The last step may train more than the remaining work.
        possible = 0 <= progress.completed_batches < played.steps + 1
        batches = f"{progress.completed_batches} of {played.steps} batches are trained"
        require(possible, f"{played.where}: {batches}")


def engines_agree(played: Played) -> None:
    """Check that both engines have the same events at the same times, and equal counts."""
    replay, simgrid = played.progress
    for one, other in zip(*played.events, strict=False):
        near = isclose(one.time_s, other.time_s, rel_tol=played.tolerance)
        require(
            near and one[1:] == other[1:],
            f"{played.where}: the engines disagree: replay has {one}, SimGrid has {other}",
        )
    counts = {"events": tuple(map(len, played.events))}
    counts |= {name: (getattr(replay, name), getattr(simgrid, name)) for name in _COUNTS}
    for name, (by_replay, by_simgrid) in counts.items():
        message = f"{name}: {by_replay} by replay, {by_simgrid} by SimGrid"
        require(by_replay == by_simgrid, f"{played.where}: {message}")


def job_laws() -> tuple[Law, ...]:
    """Return the laws of jobs, which run the jobs once and keep them."""
    kept: list[Played] = []

    def of_jobs(check: Callable[[Played], None]) -> Callable[[Subject], None]:
        def check_all(subject: Subject) -> None:
            if not kept:
                kept.extend(played_jobs(subject))
            for played in kept:
                check(played)

        return check_all

    return (
        Law("time booked", "each second of a job has one cause", of_jobs(time_booked)),
        Law(
            "goodput at most 1",
            "a job trains no longer than it lasts",
            of_jobs(goodput_at_most_one),
        ),
        Law("engines agree", "replay and SimGrid have the same events", of_jobs(engines_agree)),
    )
