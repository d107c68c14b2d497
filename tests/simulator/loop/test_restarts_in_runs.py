"""What restarts wait for, how often they come, what they find, and where a job goes back to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from faultline.experiments.config.grid import EngineName
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.durations import recovery_prices
from faultline.experiments.job.recoveries import ExplainedRecovery, explained_recoveries
from faultline.experiments.runs.record import Record
from faultline.experiments.runs.single_run import run
from faultline.simulator.accounting.timeline import Event, EventKind
from faultline.strategies.interface.recovery import RESTART, RESTART_AS_IS

from tests.simulator.helpers import alike, traced

# Four servers; a replica has one of them, two stages of four GPUs.
JOB = [
    *("model.name=llama3-8b", "model.pipeline=2", "model.tensor=4", "model.micro_batches=8"),
    *("job.gpus=32", "job.groups=4", "job.compute_jitter=0"),
    *("~failures.mtbf_s", "failures.trace_span_s=1e9"),
]
ONE_STANDBY = [
    *("recovery.hardware=standby", "recovery.standbys=1", "recovery.replenish_s=1e6"),
    "recovery.shortage=reschedule",
]


Load = Callable[..., Scenario]
Simulate = Callable[..., Record]


@pytest.fixture
def load(servers_of: Callable[..., Path], tmp_path: Path) -> Load:
    """Return what makes a scenario of the rows of a trace and of changes."""
    platform = f'platform.file="{servers_of(domains=4, domains_per_leaf=4)}"'

    def of(rows: list[str], *changes: str) -> Scenario:
        settings = [*JOB, platform, *traced(tmp_path, *rows), *changes]
        return load_scenario("llama3-70b-stress", settings)

    return of


@pytest.fixture
def simulated(load: Load) -> Simulate:
    return lambda rows, *changes: run(load(rows, *changes), 0)


@pytest.mark.parametrize("scheme", ["checkpoint", "replica-drop", "spare", "replication"])
def test_a_group_that_left_for_being_slow_does_not_come_back_slow(
    scheme: str, simulated: Simulate
) -> None:
    keys = ["failures.kinds.slow=restart", "job.steps=100", "checkpoint.interval_steps=4"]
    record = simulated(["20,gpu-1,slow,600,3"], *keys, f"strategy.name={scheme}")
    assert record["restarts"] == 1


@pytest.mark.parametrize(
    ("failures_s", "lacking"),
    [([10, 1300, 1500], 1), ([10, 200, 1300, 1500], 2), ([10, 200, 400], 2)],
)
def test_a_standby_comes_back_for_each_that_was_sent(
    failures_s: list[int], lacking: int, simulated: Simulate
) -> None:
    """And for no other: a failure more never makes a later one cheaper."""
    rows = [f"{time_s},group-1,hardware" for time_s in failures_s]
    keys = [*ONE_STANDBY, "recovery.replenish_s=1000", "~times.restart_s", "job.steps=1300"]
    record = simulated(rows, *keys, "checkpoint.interval_steps=10")
    alone = simulated(rows[:1], *keys, "checkpoint.interval_steps=10")
    assert record["restarts"] == len(rows)
    waited_s = record["restart_s"] - len(rows) * alone["restart_s"]
    assert waited_s == pytest.approx(90.0 * lacking)


@pytest.mark.parametrize("scheme", ["checkpoint", "varuna", "dp-drop", "mecefo"])
def test_a_job_that_replaces_nothing_waits_for_no_standby(scheme: str, simulated: Simulate) -> None:
    """Of a stated time, too, only those that need another machine do."""
    rows = [f"{time_s},job,hardware" for time_s in (10, 200, 400)]
    keys = [*ONE_STANDBY, "times.restart_s=60", "job.steps=300", "checkpoint.interval_steps=10"]
    repair_s = 1e5 if scheme == "checkpoint" else 0
    record = simulated(rows, *keys, f"rejoin.repair_s={repair_s}", f"strategy.name={scheme}")
    per_restart_s = [60.0 + (90.0 if scheme == "checkpoint" else 0.0)] * record["restarts"]
    assert record["restart_s"] == pytest.approx(sum(per_restart_s))


def test_no_wait_for_other_hardware_is_less_than_none(simulated: Simulate) -> None:
    keys = ["times.restart_s=60", "recovery.standby_s=100", "recovery.reschedule_s=10"]
    rows = ["10,group-0,hardware", "100,group-1,hardware"]
    record = simulated(rows, *ONE_STANDBY, *keys, "job.steps=60")
    assert record["restart_s"] == pytest.approx(60.0 * record["restarts"])


@pytest.mark.parametrize("engine", ["replay", pytest.param("simgrid", marks=pytest.mark.slow)])
def test_machines_run_out_and_the_job_waits_for_a_repair(engine: EngineName, load: Load) -> None:
    """The job fills its platform; each restart launches, and the first finds what stands by."""
    rows = ["10,host-1,hardware,,,200", "900,host-2,hardware,,,300"]
    # Few, long steps: SimGrid simulates each.
    slow = ["model.kernels=flat", "model.compute_efficiency=0.1", "job.steps=400"]
    keys = ["~times.restart_s", "checkpoint.interval_steps=10", *slow]
    launch_s = recovery_prices(load(rows, *keys)).duration_s(RESTART_AS_IS)
    queue_s = recovery_prices(load(rows, *keys)).duration_s(RESTART) - launch_s

    def waited_s(*more: str) -> float:
        record = run(load(rows, *keys, *more), 0, engine)
        assert record["restarts"] == 2
        return float(record["restart_s"] - 2 * launch_s)

    assert waited_s() == pytest.approx(200.0 + 300.0)
    # The one that was free is used; the first to fail is repaired before the second fails ...
    assert waited_s("recovery.free_machines=1") == pytest.approx(queue_s + queue_s)
    # ... or is the one that is waited for, until about 10 + 1000 s.
    rows[0] = "10,host-1,hardware,,,1000"
    assert waited_s("recovery.free_machines=1") - queue_s == pytest.approx(110.0, abs=10.0)
    standby = ["recovery.hardware=standby", "recovery.standbys=1", "recovery.replenish_s=1e6"]
    assert waited_s(*standby) == pytest.approx(300.0)
    assert waited_s("recovery.shortage=requeue") == pytest.approx(2 * queue_s)
    assert waited_s("times.restart_s=60") == pytest.approx(2 * 60.0 - 2 * launch_s)


@pytest.mark.parametrize("scheme", ["checkpoint", "warm-standby"])
@pytest.mark.parametrize("engine", ["replay", pytest.param("simgrid", marks=pytest.mark.slow)])
def test_what_fails_while_the_job_waits_needs_a_machine_too(
    engine: EngineName, scheme: str, load: Load
) -> None:
    """The job fills its platform. Each repair begins with its failure: it waits for the last one.

    A scheme that does not restart starts processes on either machine, less than 60 s each.
    """
    rows = ["10,host-1,hardware,,,1000", "500,host-2,hardware,,,1000"]
    keys = ["~times.restart_s", "job.steps=100", "checkpoint.interval_steps=10"]
    record = run(load(rows, *keys, f"strategy.name={scheme}"), 0, engine)
    assert record["events"] == 2
    recovered_s = record["restart_s"] + record["reconfigure_s"]
    assert recovered_s == pytest.approx(1550.0, abs=70.0)


def test_a_machine_that_fails_in_a_restart_is_waited_for(load: Load) -> None:
    """A restart of 400 s begins anew, and once more when the second machine is repaired."""
    keys = ["~times.restart_s", "job.steps=100", "checkpoint.interval_steps=10"]
    rows = ["10,host-1,hardware,,,100", "200,host-2,hardware,,,5000"]
    record = run(load(rows, *keys, "recovery.launch_s=400"), 0)
    assert record["restarts"] == 1
    assert record["restart_s"] == pytest.approx(5200.0 - 10.0 + 400.0, abs=30.0)


@pytest.mark.parametrize(
    ("rows", "alone", "keys"),
    [
        pytest.param(
            ["10,host-1,hardware", "400,host-2,hardware"],
            0,
            ["recovery.standbys=2", "job.groups=8", "model.tensor=2"],
            id="a server of two groups takes one",
        ),
        pytest.param(
            ["10,job,software", "400,host-1,hardware"], 1, [], id="software everywhere takes none"
        ),
    ],
)
def test_both_failures_find_a_standby(
    rows: list[str], alone: int, keys: list[str], simulated: Simulate
) -> None:
    """No job waits 90 s for a rescheduled machine."""
    usual = [*ONE_STANDBY, "~times.restart_s", "job.steps=600", "checkpoint.interval_steps=10"]
    one, both = (simulated(failing, *usual, *keys) for failing in (rows[alone:][:1], rows))
    assert both["restarts"] == 2 * one["restarts"] == 2
    assert both["restart_s"] == pytest.approx(2 * one["restart_s"])


def test_what_was_dropped_is_repaired_from_its_detection_on(simulated: Simulate) -> None:
    """A repair of 60 s ends with the detection that takes as long, and later by what it takes."""
    rows = ["10,group-1,hardware"]
    keys = ["rejoin.when=at-checkpoint", "rejoin.repair_s=60", "checkpoint.interval_steps=1"]
    keys += ["strategy.name=replica-drop", "model.sharding=none", "job.steps=200"]
    fast, slow = (simulated(rows, *keys, f"recovery.detect_s={s}") for s in (5, 65))
    assert fast["rejoined"] == slow["rejoined"] == 1
    # Degraded for as many steps: detection is not among them.
    assert slow["degraded_s"] == pytest.approx(fast["degraded_s"], rel=0.05)


@pytest.mark.parametrize("happening", ["job,hang,3", "host-1,planned,0"])
def test_survivors_have_the_step_at_which_nothing_was_missing(
    happening: str, simulated: Simulate
) -> None:
    """Just in time; also after a restart that had gone back to the beginning."""
    keys = ["protection.name=just-in-time", "strategy.name=replica-drop", "job.steps=40"]
    lost = ["14,group-2,hardware", "14,group-3,hardware"]
    known = ["times.restart_s=60", "checkpoint.interval_steps=1000"]
    for before in ([], lost):
        sound = simulated(before or ["1e8,gpu-0,software"], *keys, *known)
        record = simulated([*before, f"110,{happening}"], *keys, *known)
        if not before:
            record = simulated([f"20,{happening}"], *keys, *known)
        assert record["restarts"] == sound["restarts"] + 1
        # The step that hung is done again, and no other; nor is any left out.
        step_s = sound["step_s"]
        assert record["repeated_s"] - sound["repeated_s"] <= 1.01 * step_s
        again = record["simulated_steps"] - sound["simulated_steps"]
        assert again == 0


def test_maintenance_that_was_announced_is_not_detected(simulated: Simulate) -> None:
    keys = ["~times.restart_s", "recovery.diagnose_s=120", "job.steps=40"]
    keys += ["recovery.shortage=requeue"]
    planned = simulated(["10,host-1,planned,20"], *keys)
    broken = simulated(["10,host-1,hardware"], *keys)
    assert broken["restart_s"] - planned["restart_s"] == pytest.approx(130.0)


@pytest.mark.parametrize(
    ("scheme", "first", "second"),
    [
        ("bamboo", "group-2", "gpu-21"),  # Neighbours do what group 2 did, which goes on.
        ("oobleck", "gpu-16", "gpu-5"),
        ("recycle", "group-2", "gpu-5"),
        ("mecefo", "gpu-16", "gpu-29"),
    ],
)
def test_a_group_fails_while_the_broken_step_is_done_again(
    scheme: str, first: str, second: str, simulated: Simulate, load: Load
) -> None:
    keys = [f"strategy.name={scheme}", "model.sharding=none", "times.restart_s=20"]
    once = simulated([f"3,{first},hardware,,,1e5"], *keys, "job.steps=6")
    moment_s = 3.4 + once["reconfigure_s"]
    for later_s in (0.05, 0.6, 1.6):
        rows = [f"3,{first},hardware,,,1e5", f"{moment_s + later_s},{second},hardware,,,1e5"]
        alike(load(rows, *keys, "job.steps=6"), rel=1e-5)


@pytest.mark.parametrize("group", [1, 2, 5])
def test_state_moves_between_servers_where_its_groups_are(group: int, load: Load) -> None:
    """Two groups on each server: which fetches from the other, and which from the next server."""
    keys = ["strategy.name=mecefo", "job.groups=8", "model.tensor=2", "times.restart_s=60"]
    rows = [f"3,gpu-{4 * group},hardware,,,1e5"]
    alike(load(rows, *keys, "job.steps=4"), 0, "reconfigure_s")


@pytest.mark.parametrize("step", [0.3, 0.7])
def test_a_broken_step_is_booked_alike(step: float, load: Load) -> None:
    """Gradients hide behind the passes; a group fails, and the watchdog ends what waits for it.

    The step's nominal passes are repeated, and the rest of the time is detection.
    """
    keys = ["model.gradient_overlap=0.9", "detection.mode=watchdog", "detection.watchdog_s=5"]
    keys += ["checkpoint.interval_steps=100", "job.steps=4", "times.restart_s=9"]
    sound = run(load(["1e8,gpu-0,software"], *keys), 0)
    step_s, passes_s = sound["step_s"], sound["step_s"] - sound["step_data_parallel_s"]
    passes_s -= sound["step_optimizer_s"]
    failed_s = (1 + step) * step_s
    scenario = load([f"{failed_s},group-1,hardware"], *keys)
    record = alike(scenario, 0, "time_s", "repeated_s", "detection_s", rel=1e-9)
    assert record["repeated_s"] == pytest.approx(step_s + passes_s)
    assert record["detection_s"] == pytest.approx(failed_s + 5.0 - step_s - passes_s)


@pytest.mark.parametrize(
    "failed",
    [
        pytest.param("group-0", id="has its part"),
        pytest.param("group-6", id="still receives", marks=pytest.mark.slow),
    ],
)
def test_a_failed_part_breaks_a_move_only_while_it_takes_part(
    failed: str, servers_of: Callable[..., Path], tmp_path: Path
) -> None:
    """Eight servers, four a leaf with an eighth of their adapters' bandwidth on the way up.

    Bamboo deals the layers of server 3 to all: those below its leaf have them first.
    """
    path = servers_of(domains=8, domains_per_leaf=4, oversubscription=[8])
    keys = ["strategy.name=bamboo", "model.pipeline=1", "model.tensor=8", "job.groups=8"]
    keys += ["job.gpus=64", "times.restart_s=9", "job.steps=8", f'platform.file="{path}"']

    def of(*rows: str) -> Scenario:
        return load_scenario("llama3-70b-stress", [*JOB, *keys, *traced(tmp_path, *rows)])

    first, events = "3,host-3,hardware,,,1e6", list[Event]()
    alone = run(of(first), 0, "replay", events.append)
    ends_s = next(event.time_s for event in events if event.kind is EventKind.RECOVERED)
    both = alike(
        of(first, f"{ends_s - 0.01},{failed},hardware,,,1e6"), 0, "time_s", "reconfigure_s"
    )
    assert both["events"] == 2
    assert both["reconfigure_s"] > alone["reconfigure_s"]


TWELVE = [
    "job.steps=12",
    "checkpoint.interval_steps=4",
    "times.restart_s=50",
    "job.compute_jitter=0",
]


@pytest.fixture(scope="module")
def step_s() -> float:
    return float(
        run(load_scenario("llama3-70b-stress", [*TWELVE, "failures.mtbf_s=1e12"]), 0)["step_s"]
    )


@pytest.fixture(params=["replay", pytest.param("simgrid", marks=pytest.mark.slow)])
def losing(request: pytest.FixtureRequest, step_s: float, tmp_path: Path) -> Simulate:
    """Return what runs a run that loses something after so many steps, on either engine."""

    def of(lost: list[tuple[float, str]], *changes: str) -> Record:
        rows = [f"{steps * step_s},{what}" for steps, what in lost]
        failures = [*traced(tmp_path, *rows, "1e7,job,software"), "~failures.mtbf_s"]
        scenario = load_scenario("llama3-70b-stress", [*TWELVE, *failures, *changes])
        return run(scenario, 0, request.param)

    return of


@pytest.mark.parametrize(("scheme", "what"), [("replica-drop", "group"), ("mecefo", "gpu")])
@pytest.mark.parametrize(
    ("lost", "keys", "restarts"),
    [
        pytest.param([2], [], 0, id="one, and its neighbour has its share"),
        pytest.param([2, 3], [], 1, id="both that keep each other's"),
        pytest.param([1, 2], [], 0, id="two that do not"),
        pytest.param([2], ["model.optimizer_backup=none"], 1, id="one, and no group has its share"),
        pytest.param([2, 3], ["model.sharding=none"], 0, id="two of which all have all"),
    ],
)
def test_a_lost_group_takes_its_share_along(
    scheme: str, what: str, lost: list[int], keys: list[str], restarts: int, losing: Simulate
) -> None:
    """Of a group of 32 GPUs the first stands for what it has."""
    numbers = [32 * group if what == "gpu" else group for group in lost]
    rows = [(2.5, f"{what}-{number},hardware") for number in numbers]
    record = losing(rows, f"strategy.name={scheme}", *keys)
    assert record["restarts"] == restarts
    assert record["events"] == len(lost)


def test_survivors_save_only_what_they_have(losing: Simulate) -> None:
    """Just in time: nothing but the step, or all since the last checkpoint on storage."""
    rows = [(2.5, "group-2,hardware")]
    kept = ["strategy.name=checkpoint", "protection.name=just-in-time"]
    with_it = losing(rows, *kept)
    parts_down = losing(rows, *kept, "model.optimizer_backup=none")
    assert (with_it["restarts_from_peers"], parts_down["restarts_from_peers"]) == (1, 0)
    assert parts_down["repeated_s"] > with_it["repeated_s"]


ONE, TWO, THREE, FOUR = (f"group-{number},hardware" for number in (1, 2, 3, 4))


@pytest.mark.parametrize(
    ("lost", "from_peers"),
    [
        # Of 0, 2, 3, 4 ... the second two keep each other's, whichever did before one had left.
        pytest.param([(2.5, ONE), (4.5, THREE), (4.5, FOUR)], 0, id="both since one has left"),
        pytest.param(
            [(2.5, TWO), (8.5, THREE), (12.5, "job,software")], 1, id="one by one, made good"
        ),
        pytest.param([(2.5, TWO), (4.5, THREE)], 0, id="the other before that"),
    ],
)
def test_shares_are_dealt_anew_for_survivors_too(
    lost: list[tuple[float, str]], from_peers: int, losing: Simulate
) -> None:
    """What the rest of the job takes for lost is not saved just in time, all else is."""
    record = losing(lost, "strategy.name=replica-drop", "protection.name=just-in-time")
    assert (record["restarts"], record["restarts_from_peers"]) == (1, from_peers)


def test_what_a_failure_needs_is_a_restart() -> None:
    """Also where it is explained."""
    for backup, recoveries in (("neighbour", ["shrink", "restart"]), ("none", ["restart"])):
        scenario = load_scenario("llama3-70b-stress", [f"model.optimizer_backup={backup}"])
        explained = explained_recoveries(scenario, ["replica-drop"])
        found = [one.recovery for one in explained if isinstance(one, ExplainedRecovery)]
        assert [one for one in found if one != "rejoin"] == recoveries
