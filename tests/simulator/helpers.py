"""Small worlds in which everything is known: failures written down, rules spelled out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.runs.record import Record
from faultline.experiments.runs.single_run import run
from faultline.platforms.xml_reader import read_platform
from faultline.simulator.accounting.progress import Progress
from faultline.simulator.accounting.timeline import Event, EventKind
from faultline.simulator.failures.distributions import Distribution
from faultline.simulator.failures.failure import JobLayout
from faultline.simulator.failures.models import IndependentGroups
from faultline.simulator.job.conditions import Disturbances
from faultline.simulator.job.durations import ConstantTime, Durations
from faultline.simulator.job.job import Job, Rules
from faultline.simulator.job.recovery_times import RecoveryPrices
from faultline.simulator.job.work import Hardware, Saving, Work
from faultline.simulator.loop.run import simulate
from faultline.simulator.loop.training import Training
from faultline.simulator.replay.engine import ReplayEngine
from faultline.simulator.simgrid.traffic import Traffic
from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.scheme import (
    Continue,
    StepPlan,
    Strategy,
    StrategyOptions,
    Verdict,
    WipeOut,
)
from faultline.strategies.protection.checkpoint_policies import EverySteps

OnEngine = Callable[[Job, Strategy], tuple[list[Event], Progress]]

NEVER_S = 1e15
EXACT, SHARED = 1e-6, 0.01
"""Largest difference of the engines, as a share of a time: without copies of state beside steps,
and with them."""
COLUMNS = "time,component,kind,lasts,factor,repair"

SOUND = Rules(
    clock="renewal",
    detection="all-reduce",
    failed_all_reduce_fraction=1.0,
    watchdog_s=600.0,
    failure_in_all_reduce="fails-it",
    fixed_step="retries",
    failure_in_restart="absorbed",
    failure_while_waiting="absorbed",
    resume="after",
    failed_writer="replaced",
)
STUDY = Rules(
    clock="from-detection",
    detection="all-reduce",
    failed_all_reduce_fraction=0.5,
    watchdog_s=600.0,
    failure_in_all_reduce="next-step",
    fixed_step="commits",
    failure_in_restart="begins-anew",
    failure_while_waiting="surfaces",
    resume="redo",
    failed_writer="skips",
)


class Scripted:
    """Times between failures as written down for each group, and after them: never.

    Parameters
    ----------
    intervals_s : mapping of int to sequence of float
        The intervals of each group that fails at all, at most 8 of them, in seconds. Groups ask in
        ascending order, each with a random generator of its own; that is how they are told apart.
    """

    mean_s = NEVER_S
    variance_s2 = 0.0

    def __init__(self, intervals_s: Mapping[int, Sequence[float]]) -> None:
        self._intervals_s = intervals_s
        self._known: list[np.random.Generator] = []

    def sample(self, rng: np.random.Generator, size: int) -> list[float]:
        """Return the intervals of the group that asks."""
        asked_before = any(rng is known for known in self._known)
        written = [] if asked_before else list(self._intervals_s.get(len(self._known), ()))
        self._known.append(rng)
        assert len(written) <= size
        return written + [NEVER_S] * (size - len(written))


class Obedient(Strategy):
    """A scheme that says what it was told to, one verdict a failure; it drops who is missing."""

    def __init__(
        self,
        groups: int,
        patches: Sequence[dict[int, int] | None],
        *,
        stack_size: int = 1,
        checkpoint_waits: bool = True,
    ) -> None:
        super().__init__(groups, 1, StrategyOptions(), JobShape())
        self._patches = list(patches)
        self._stack_size = stack_size
        self._checkpoint_waits = checkpoint_waits
        self.restart()

    def restart(self) -> None:
        self._plan = StepPlan(tuple(range(self.groups)), 1, self._stack_size)

    def plan(self) -> StepPlan:
        return self._plan

    @property
    def checkpoint_waits(self) -> bool:
        return self._checkpoint_waits

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        """Wipe-out where the script says None, else its patch."""
        patch = self._patches.pop(0)
        if patch is None:
            return WipeOut(tuple(missing))
        members = tuple(group for group in self._plan.members if group not in missing)
        self._plan = StepPlan(members, 1, self._stack_size)
        return Continue(tuple(missing), patch, len(patch))

    def masked_failures(self) -> float:
        return 1.0

    def work_per_step(self) -> float:
        return 1.0


def small_job(
    failures: Distribution, rules: Rules = SOUND, *, groups: int = 3, **changes: Any
) -> Job:
    """Return a job of round numbers.

    Computing a type takes 10 s, an all-reduce 2 s, a checkpoint 5 s every 2 steps, a restart 100 s,
    a load 3 s, the controller 1 s; nothing jitters. `changes` go to its work, durations or rules.
    """
    parts: dict[str, Any] = {
        "work": Work(groups, 4, 10.0),
        "hardware": Hardware(JobLayout(groups, 1, 1, 1, 1)),
        "saving": Saving(EverySteps(2)),
        "durations": Durations(
            ConstantTime(2.0), 5.0, 3.0, RecoveryPrices(stated_s={"shrink": 1.0, "restart": 100.0})
        ),
        "rules": rules,
        "disturbances": Disturbances(),
    }
    for name, value in changes.items():
        part = next(part for part in parts if hasattr(parts[part], name))
        parts[part] = replace(parts[part], **{name: value})
    return Job(**parts, failures=IndependentGroups(failures, groups), seed=0)


def replayed(job: Job, strategy: Strategy, tell: Callable[[Event], None] | None = None) -> Progress:
    """Return what becomes of a job on the replay engine."""
    training = Training(job, strategy, tell)
    simulate(training, ReplayEngine(job))
    return training.progress


def log_of(events: Sequence[Event]) -> list[str]:
    """Shorten events to what a reader can check by hand: time, kind, steps done, groups.

    The ends of recoveries are left out: what follows tells their time.
    """
    return [
        " ".join(map(str, (f"{event.time_s:.10g}", event.kind.value, event.step, *event.groups)))
        for event in events
        if event.kind is not EventKind.RECOVERED
    ]


def lines(log: str) -> list[str]:
    """Return the lines of a log that is written with a comma between them."""
    return log.split(", ")


def agreed(
    scenario: str,
    settings: Sequence[str],
    seed: int,
    *,
    rel: float = 1e-6,
    record_rel: float = 1e-6,
) -> tuple[Record, list[Event]]:
    """Run on both engines, assert that they tell the same story, and return what came of it."""
    asked = load_scenario(scenario, settings)
    ours: list[Event] = []
    theirs: list[Event] = []
    replayed = run(asked, seed, "replay", ours.append)
    simulated = run(asked, seed, "simgrid", theirs.append)
    same_story(ours, theirs, rel)
    assert replayed.keys() == simulated.keys()
    _compare(replayed, simulated, replayed.keys() - {"engine"}, record_rel, 1e-3)
    assert replayed["events"] > 0
    return replayed, ours


def alike(
    asked: Scenario, seed: int = 0, *columns: str, rel: float = 1e-6, abs_s: float = 0.0
) -> Record:
    """Run on both engines, assert that some columns are the same, and return the replay's."""
    replayed, simulated = run(asked, seed), run(asked, seed, "simgrid")
    _compare(replayed, simulated, columns or ("time_s",), rel, abs_s)
    return replayed


def bound_of(resolved: ResolvedJob) -> float:
    """Return by how much the engines may differ in a job: the rule of docs/architecture.md."""
    return SHARED if resolved.job(0).saving.writes else EXACT


def traced(folder: Path, *rows: str, columns: str = COLUMNS) -> list[str]:
    """Write a trace, in which the last cells of a row may be missing; return its settings."""
    path = folder / "trace.csv"
    filled = (row + "," * (columns.count(",") - row.count(",")) for row in rows)
    path.write_text("\n".join([columns, *filled]) + "\n", encoding="utf-8")
    return ["failures.model=trace", f'failures.trace="{path}"']


def small_model(platform: Path, *more: str) -> list[str]:
    """Return the settings of a group a server, whose small model sends as long as it computes."""
    return [
        *(f'platform.file="{platform}"', "model.name=custom", "model.layers=4"),
        *("model.hidden=2048", "model.ffn_hidden=5632", "model.heads=16"),
        *("model.sequence_tokens=2048", "model.vocabulary=32000", "model.kernels=flat"),
        *("model.pipeline=1", "model.tensor=8", "model.micro_batches=4"),
        *("model.compute_efficiency=0.1", "times.checkpoint_write_s=0.02"),
        *("checkpoint.interval_steps=1000", *more),
    ]


def same_story(ours: Sequence[Event], theirs: Sequence[Event], rel: float = 1e-6) -> None:
    """Assert that the same happens in the same order at the same times."""
    assert [event[1:] for event in ours] == [event[1:] for event in theirs]
    times_s = [event.time_s for event in ours]
    assert [event.time_s for event in theirs] == pytest.approx(times_s, rel=rel)


def traffic_on(
    platform_xml: Path,
    groups: int,
    bytes_per_rank: float,
    order: Sequence[int] = (),
) -> Traffic:
    """Place groups on the GPUs of a platform in order, or in another one."""
    platform = read_platform(platform_xml)
    names = platform.gpu_names
    size = len(names) // groups
    hosts = [names[group * size : (group + 1) * size] for group in order or range(groups)]
    return Traffic(hosts, platform.storage or "", bytes_per_rank, True, True, True)


def state_in(
    hosts: Sequence[Sequence[str]],
    bytes_per_gpu: float,
    gpus: int,
    *,
    storage: str = "",
    context: int = 1,
) -> Traffic:
    """Return a job of so many GPUs a group, with so much training state on each."""
    state: dict[str, Any] = {"state_bytes": bytes_per_gpu, "gpus_per_group": gpus}
    return Traffic(hosts, storage, 0.0, False, False, False, context=context, **state)


def edited(platform: Path, into: Path, pattern: str, other: str, places: int = 1) -> Path:
    """Write a platform in which what a pattern finds, so many times, is other; return it."""
    text, found = re.subn(pattern, other, platform.read_text(encoding="utf-8"))
    assert found == places
    into.write_text(text, encoding="utf-8")
    return into


def _compare(
    replayed: Record, simulated: Record, columns: Iterable[str], rel: float, abs_s: float
) -> None:
    for column in columns:
        value: Any = replayed[column]
        near = pytest.approx(value, rel=rel, abs=abs_s) if isinstance(value, float) else value
        assert simulated[column] == near, column
