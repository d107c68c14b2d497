"""Machines: each has one place, their number never changes, and repairs last as failures state."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.hardware import breakage_of
from faultline.experiments.job.platform_files import platform_file
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.job.resolving import resolve
from faultline.experiments.job.step_times import simulated_traffic
from faultline.experiments.runs.record import Record
from faultline.experiments.runs.single_run import run
from faultline.simulator.failures.clocks import FailureClocks
from faultline.simulator.failures.failure import Failure
from faultline.simulator.job.phases import Outcome, Phase
from faultline.simulator.loop.run import simulate
from faultline.simulator.loop.training import Training
from faultline.simulator.processes import process
from faultline.simulator.processes.process import in_own_process, simulate_here
from faultline.simulator.replay.engine import ReplayEngine
from scipy.stats import poisson

from tests.simulator.helpers import traced

# Eight servers of eight GPUs, each of them a group; times are round numbers.
SERVERS = [
    *("job.groups=8", "job.gpus=64", "job.parameter_bytes=1e9", "job.compute_jitter=0"),
    *("~model.name", "times.compute_s=10", "times.all_reduce_s=1", "times.checkpoint_write_s=1"),
    *("checkpoint.interval_steps=5", "recovery.detect_s=0", "recovery.free_machines=0"),
    "~times.restart_s",
]


class CountedTraining(Training):
    """A training that counts its machines after every phase, and the repairs of failed ones."""

    def loop(self, clocks: FailureClocks) -> Generator[Phase, Outcome, None]:
        loop, state, lose = super().loop(clocks), self.state, self.machines.lose
        before, least_s = sum(self.machines.count(0.0)), list[float]()

        def lose_and_note(
            struck: Iterable[Failure], *, at_once: bool = False
        ) -> dict[Failure, list[int]]:
            lost = lose(struck, at_once=at_once)
            for failure, places in lost.items():
                # No repair begins before its failure.
                least_s.extend([failure.time_s + self.machines.repair_s(failure)] * len(places))
            return lost

        self.machines.lose = lose_and_note  # type: ignore[method-assign]
        phase = next(loop)
        while True:
            outcome = yield phase
            now = self.machines.count(state.progress.now_s)
            assert min(now) >= 0
            assert sum(now) == before, (state.progress.now_s, now)
            assert now.under_repair >= sum(end_s > state.progress.now_s for end_s in least_s)
            try:
                phase = loop.send(outcome)
            except StopIteration:
                return


def counted_on_simgrid(*parts: Any) -> Any:
    """Simulate a job on SimGrid in this process, with machines that are counted."""
    process.Training = CountedTraining  # type: ignore[misc, assignment]
    return simulate_here(*parts, False)


def counted(resolved: ResolvedJob, seed: int, engine: str) -> None:
    job, strategy = resolved.job(seed), resolved.strategy()
    if engine == "replay":
        training = CountedTraining(job, strategy)
        simulate(training, ReplayEngine(job))
        progress = training.progress
    else:
        path = platform_file(resolved.scenario)
        traffic = simulated_traffic(resolved.scenario, path)
        progress = in_own_process(counted_on_simgrid, job, strategy, path, traffic).progress
    assert progress.events > 2


@pytest.mark.parametrize("engine", ["replay", "simgrid"])
@pytest.mark.parametrize("standbys", [0, 2])
@pytest.mark.parametrize("scheme", ["checkpoint", "replica-drop", "warm-standby", "recycle"])
def test_machines_neither_appear_nor_disappear(
    scheme: str, standbys: int, engine: str, servers_of: Callable[..., Path]
) -> None:
    """A failure each 100 s, and repairs of 600 s: machines run out, and more fail in waits."""
    platform = servers_of(domains=8, domains_per_leaf=4)
    keys = [
        *SERVERS,
        f'platform.file="{platform}"',
        *(f"strategy.name={scheme}", "job.steps=60", "failures.mtbf_s=100"),
        *("recovery.hardware=standby", f"recovery.standbys={standbys}", "rejoin.repair_s=600"),
    ]
    resolved = resolve(load_scenario("llama3-70b-stress", keys))
    for seed in range(3 if engine == "replay" else 1):
        counted(resolved, seed, engine)


@pytest.mark.parametrize(("spares", "kept"), [(0, 1), (1, 2), (3, 4)])
def test_the_job_runs_while_enough_machines_work(spares: int, kept: int) -> None:
    """With repairs of two MTBF, the machines under repair are Poisson with mean 2 (Palm 1943).

    The job runs while they are fewer than `kept`, which its spare machines allow.
    """
    keys = [
        *SERVERS,
        *("strategy.name=checkpoint", "job.steps=60000", "failures.mtbf_s=10000"),
        *("rejoin.repair_s=20000", f"recovery.free_machines={spares}", "recovery.reschedule_s=0"),
        *("recovery.hardware=reschedule", "recovery.launch_s=0", "recovery.communicator_s=0"),
    ]
    resolved = resolve(load_scenario("llama3-70b-stress", keys))
    shares = []
    for seed in range(8):
        record = run(resolved, seed)
        shares.append(1.0 - record["restart_s"] / record["time_s"])
    spread = np.std(shares, ddof=1) / np.sqrt(len(shares))
    assert np.mean(shares) == pytest.approx(poisson.cdf(kept - 1, 2.0), abs=4 * spread)


@pytest.mark.parametrize(
    ("scheme", "changes"),
    [
        ("replica-drop", ["rejoin.when=at-checkpoint", "protection.name=just-in-time"]),
        ("checkpoint", []),
        ("recycle", []),
        ("checkpoint", ["recovery.hardware=standby", "recovery.standbys=1"]),
        ("replica-drop", ["recovery.hardware=standby", "recovery.standbys=1"]),
    ],
)
def test_a_repair_lasts_as_its_failure_states(
    scheme: str, changes: list[str], servers_of: Callable[..., Path], tmp_path: Path
) -> None:
    """Two servers fail, one after the other: the scenario's own repair time has no effect."""
    platform = f'platform.file="{servers_of(domains=4, domains_per_leaf=4)}"'
    model = ["model.name=llama3-8b", "model.pipeline=2", "model.tensor=4", "model.micro_batches=8"]
    rows = traced(tmp_path, "20,host-1,hardware,,,900", "100,host-2,hardware,,,700")
    keys = [*model, platform, *rows, "job.gpus=32", "job.groups=4", "job.compute_jitter=0"]
    keys += ["~failures.mtbf_s", "failures.trace_span_s=1e9", "recovery.free_machines=0"]
    keys += ["~times.restart_s"]
    keys += ["job.steps=2000", "checkpoint.interval_steps=10", f"strategy.name={scheme}", *changes]

    def time_s(*more: str) -> float:
        return float(run(load_scenario("llama3-70b-stress", [*keys, *more]), 0)["time_s"])

    stated = time_s()
    assert time_s("rejoin.repair_s=1") == stated
    assert time_s("rejoin.repair_s=1e6") == stated
    short = traced(tmp_path, "20,host-1,hardware,,,9", "100,host-2,hardware,,,7")
    assert time_s(*short) < stated


@pytest.mark.parametrize("scheme", ["checkpoint", "mecefo", "recycle", "dp-drop", "replica-drop"])
def test_a_crash_of_the_whole_jobs_software_costs_the_same_under_all_schemes(
    scheme: str, servers_of: Callable[..., Path], tmp_path: Path
) -> None:
    """It breaks no machine, so nothing waits for a repair."""
    platform = f'platform.file="{servers_of(domains=4, domains_per_leaf=4)}"'
    model = ["model.name=llama3-8b", "model.pipeline=2", "model.tensor=4", "model.micro_batches=8"]
    keys = [*model, platform, "job.gpus=32", "job.groups=4", "job.compute_jitter=0"]
    keys += ["~failures.mtbf_s", "failures.trace_span_s=1e9", "job.steps=300"]
    keys += ["checkpoint.interval_steps=10", "~times.restart_s"]
    keys += traced(tmp_path, "100,job,software")
    record = run(load_scenario("llama3-70b-stress", [*keys, f"strategy.name={scheme}"]), 0)
    as_checkpoints = resolve(
        load_scenario("llama3-70b-stress", [*keys, "strategy.name=checkpoint"])
    )
    assert record["restarts"] == 1
    assert record["restart_s"] == pytest.approx(as_checkpoints.durations.restart_s())


# Four groups of three servers of eight GPUs, in scale-up domains of two servers.
GROUPS_OF_THREE = [
    *("job.groups=4", "job.gpus=96", "job.parameter_bytes=1e9", "job.compute_jitter=0"),
    *("~model.name", "times.compute_s=10", "times.all_reduce_s=1", "times.checkpoint_write_s=1"),
    *("checkpoint.interval_steps=5", "job.steps=100", "~times.restart_s", "~failures.mtbf_s"),
    *("failures.trace_span_s=1e9", "failures.gpus_per_domain=16", "recovery.detect_s=0"),
    "recovery.hardware=reschedule",
]


def run_traced(folder: Path, rows: list[str], *keys: str) -> Record:
    """Run the job of groups of three servers with the failures of `rows`."""
    return run(
        load_scenario("llama3-70b-stress", [*GROUPS_OF_THREE, *traced(folder, *rows), *keys]), 0
    )


def test_a_dropped_group_waits_for_machines_that_fail_after_it_was_dropped(tmp_path: Path) -> None:
    """Host 2 of the dropped group 0 fails with host 3 of group 1: both return when it is repaired.

    Host 0 is repaired at about 220 s, host 2 at about 660 s.
    """
    keys = ["strategy.name=replica-drop", "rejoin.when=at-checkpoint", "recovery.free_machines=0"]
    rows = ["20,host-0,hardware,,,200", "60,domain-1,hardware,,,600"]
    both = run_traced(tmp_path, rows, *keys)
    first = run_traced(tmp_path, ["20,host-0,hardware,,,200"], *keys)
    # In a step with two of four groups, half of its time is degraded.
    assert both["rejoined"] == 2
    assert both["degraded_s"] - first["degraded_s"] > 0.4 * 600


def test_a_group_takes_no_free_machine_if_its_own_is_ready_sooner(tmp_path: Path) -> None:
    """A free machine starts after 500 s, and the repair lasts 200 s."""
    keys = ["strategy.name=replica-drop", "rejoin.when=at-checkpoint"]
    keys += ["recovery.reschedule_s=500"]
    rows = ["20,host-0,hardware,,,200"]
    none, one = (run_traced(tmp_path, rows, *keys, f"recovery.free_machines={n}") for n in (0, 1))
    assert one["rejoined"] == 1
    assert one["time_s"] == none["time_s"]


def test_a_machine_that_fails_during_a_restart_in_place_is_repaired(tmp_path: Path) -> None:
    """The job waits 5,000 s for it, as it does for one that fails between restarts."""
    keys = ["strategy.name=checkpoint", "recovery.free_machines=0", "recovery.transient=in-place"]
    software = "60,host-0,software,,,"
    alone = run_traced(tmp_path, [software], *keys)
    assert 20.0 < alone["restart_s"] < 60.0
    both = run_traced(tmp_path, [software, "90,host-3,hardware,,,5000"], *keys)
    assert both["restart_s"] == pytest.approx(5000.0 + 18.0 + alone["restart_s"], abs=20.0)


@pytest.mark.parametrize("scheme", ["checkpoint", "warm-standby", "replica-drop"])
def test_a_job_whose_machines_fail_faster_than_they_are_repaired_gives_up(scheme: str) -> None:
    """Each minute one of eight servers fails, and repairs last eleven days."""
    keys = [*SERVERS, f"strategy.name={scheme}", "job.steps=60", "failures.mtbf_s=60"]
    keys += ["rejoin.repair_s=1e6", "job.give_up_after_restarts=50"]
    record = run(load_scenario("llama3-70b-stress", keys), 0)
    assert record["completed_steps"] < 60
    assert record["time_s"] < 2e6


@pytest.mark.parametrize(("component", "machines"), [("group-1", 1), ("domain-1", 2), ("job", 12)])
def test_the_mean_under_repair_counts_the_machines_that_a_failure_stops(
    component: str, machines: int, tmp_path: Path
) -> None:
    rows = [f"20,{component},hardware,,,500"]
    keys = ["strategy.name=checkpoint", "recovery.free_machines=0"]
    resolved = resolve(
        load_scenario("llama3-70b-stress", [*GROUPS_OF_THREE, *traced(tmp_path, *rows), *keys])
    )
    mean = breakage_of(resolved.scenario, resolved.failures).under_repair
    assert mean == pytest.approx(machines * 500 / 1e9)
