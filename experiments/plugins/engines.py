"""A short job on both engines with a scheme that need not be registered."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from functools import partial
from importlib import import_module
from math import isclose
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.platform_files import platform_file, traffic_of
from faultline.experiments.job.resolved_job import resolve
from faultline.simulator.job import Job
from faultline.simulator.progress import Progress
from faultline.simulator.replay import ReplayEngine
from faultline.simulator.run import play
from faultline.simulator.simgrid_engine.process import SimgridResult, simulate
from faultline.simulator.simgrid_engine.traffic import Traffic
from faultline.simulator.timeline import Event, EventKind
from faultline.simulator.training import Training
from faultline.strategies.base import Strategy


class SchemeError(AssertionError):
    """A scheme does not hold what schemes promise; the message says what, where and when."""


_STEPS = 30
_SEEDS = (1, 2)
_TOLERANCE = 1e-6
_LIMIT_S = 4e4
"""A scheme that masks nothing gets nowhere at these rates; what it does until then must agree."""

_COUNTS = (
    "completed_steps",
    "played_steps",
    "restarts",
    "failures",
    "reorderings",
    "moved_types",
    "checkpoints",
)


def check_engines(build: Callable[[], Strategy], groups: int) -> None:
    """Play the same failures on both engines, and compare what they tell.

    Raises
    ------
    SchemeError
        If they differ, time is lost, or nothing failed.
    """
    component = ["failures.component=gpu"] if build().tracks_components else []
    settings = [
        *(f"job.groups={groups}", f"job.steps={_STEPS}", f"job.time_limit_s={_LIMIT_S}"),
        *("job.compute_jitter=0", "strategy.name=checkpoint", "checkpoint.interval_steps=5"),
        # Recoveries much longer than the time between failures would never end.
        "recovery.preset=hot-swap",
        *component,
    ]
    scenario = load_scenario("spare-sound", settings)
    question = resolve(scenario)
    path = platform_file(scenario)
    for seed in _SEEDS:
        job = question.job(seed)
        replayed, events = _replayed(job, build())
        traffic = traffic_of(scenario, path)
        simulated = _in_a_fork(partial(_simulated, job, build, path, traffic))
        where = f"scheme {build().name!r}, seed {seed}"
        _check_booked(where, replayed, events)
        _compare(where, replayed, events, simulated.progress, simulated.events)


def _replayed(job: Job, strategy: Strategy) -> tuple[Progress, list[Event]]:
    events: list[Event] = []
    training = Training(job.work, job.rules, strategy, events.append)
    play(training, ReplayEngine(job))
    return training.progress, events


def _simulated(
    job: Job, build: Callable[[], Strategy], path: Path, traffic: Traffic
) -> SimgridResult:
    return simulate(job, build(), path, traffic, True)


def _in_a_fork(function: Callable[[], Any]) -> Any:
    """Call a function in a forked process: what it plays need not be found by its name."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(function, sending))
    process.start()
    sending.close()
    try:
        result = receiving.recv()
    except EOFError:
        result = SchemeError("SimGrid aborted the simulation")
    process.join()
    if isinstance(result, BaseException):
        raise result
    return result


def _answer(function: Callable[[], Any], sending: Connection) -> None:
    try:
        # SimGrid speaks where it is imported first.
        import_module("faultline.simulator.simgrid_engine.warm_process")
        sending.send(function())
    except Exception as error:
        sending.send(SchemeError(f"{type(error).__name__}: {error}"))


def _require(holds: bool, where: str, what: str) -> None:
    if not holds:
        raise SchemeError(f"{where}: {what}")


def _check_booked(where: str, progress: Progress, events: list[Event]) -> None:
    booked_s, now_s = sum(progress.seconds.values()), progress.now_s
    whole = isclose(booked_s, now_s, rel_tol=1e-9)
    _require(whole, where, f"{now_s} s have passed, {booked_s} s are booked")
    missing = any(event.kind is EventKind.MISSING for event in events)
    _require(progress.failures > 0 and missing, where, "nothing failed in its job")
    batches = progress.completed_batches
    # The last step may train more than was left.
    _require(0 <= batches < _STEPS + 1, where, f"{batches} of {_STEPS} batches are trained")


def _compare(
    where: str, ours: Progress, events: list[Event], theirs: Progress, others: list[Event]
) -> None:
    for one, other in zip(events, others, strict=False):
        same = one[1:] == other[1:] and isclose(one.time_s, other.time_s, rel_tol=_TOLERANCE)
        _require(same, where, f"the engines disagree: replay says {one}, SimGrid {other}")
    counted = {"events": (len(events), len(others))}
    counted |= {name: (getattr(ours, name), getattr(theirs, name)) for name in _COUNTS}
    for name, (replayed, simulated) in counted.items():
        what = f"{name}: {replayed} by replay, {simulated} by SimGrid"
        _require(replayed == simulated, where, what)
