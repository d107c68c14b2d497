"""``faultline learn`` and ``backtest``: from a run's own log back to its scenario."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tomllib
from faultline.experiments.analysis.job_backtest import backtest
from faultline.experiments.analysis.job_lives import lives_of
from faultline.experiments.config.logs.goodput_log import read_goodput_log
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.runs.single_run import run
from faultline.simulator.accounting.timeline import Event, EventKind

from tests.experiments.command_line import Cli

PUBLISHED = Path(__file__).parents[4] / "shared/data/goodput-events-112-nodes-first-half.jsonl"
JOB = """
version = 2
name = "our-job"
description = "A job whose times are known."
[job]
gpus = 64
groups = 1
steps = 4000
[strategy]
name = "checkpoint"
[failures]
distribution = "weibull"
shape = 1.3
mtbf_s = 900.0
[restart]
failure_during = "begins-anew"
[checkpoint]
interval_steps = 20
[times]
compute_s = 8.0
all_reduce_s = 0.0
checkpoint_write_s = 0.001
checkpoint_load_s = 0.0
restart_s = 240.0
"""


def simulated_log(folder: Path, cli: Cli) -> Path:
    (folder / "job.toml").write_text(JOB)
    log = folder / "events.jsonl"
    cli("run", folder / "job.toml", "-o", log)
    return log


def test_a_run_writes_the_log_of_its_lives(tmp_path: Path, cli: Cli) -> None:
    log = read_goodput_log(simulated_log(tmp_path, cli))
    record = cli.json("run", tmp_path / "job.toml")
    assert log.lives[-1].saves[-1][1] == 4000
    assert log.jobs == ("our-job",)
    # All but the first start follow a failure.
    assert len(log.lives) - 1 == record["events"]


def test_a_scenario_is_learned_from_a_runs_log(tmp_path: Path, cli: Cli) -> None:
    learned = tmp_path / "learned.toml"
    printed = cli("learn", simulated_log(tmp_path, cli), "-o", learned)
    assert "not in the log: job.groups" in printed
    tables = tomllib.loads(learned.read_text())
    assert tables["times"]["compute_s"] == pytest.approx(8.0, rel=1e-3)
    assert tables["times"]["restart_s"] == pytest.approx(240.0, rel=1e-3)
    assert tables["checkpoint"]["interval_steps"] == 20
    assert tables["failures"]["mtbf_s"] == pytest.approx(900.0, rel=0.35)
    prior = tables["uncertain"]["failures.mtbf_s"]
    assert prior["low"] < tables["failures"]["mtbf_s"] < prior["high"]
    assert "ok" in cli("scenario", "check", learned)


def test_a_backtest_predicts_a_runs_second_half(tmp_path: Path, cli: Cli) -> None:
    log, figure = simulated_log(tmp_path, cli), tmp_path / "progress.png"
    status, out, _ = cli.all("backtest", log, "--seeds", "20", "-o", figure)
    assert status == 0
    assert figure.stat().st_size > 10_000
    assert "goodput is" in out
    found = json.loads(cli.all("backtest", log, "--seeds", "20", "--json")[1])
    assert set(found["inside"]) == {"steps_kept", "goodput", "starts", "lives_without_save"}
    low, high = (found["predicted"]["goodput"][bound] for bound in ("low", "high"))
    assert 0.0 < low < high < 1.0


@pytest.mark.slow
def test_bands_hold_at_their_stated_rate(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(JOB)
    scenario, inside = load_scenario(str(tmp_path / "job.toml")), 0
    for seed in range(80):
        events: list[Event] = []
        record = run(scenario, seed, record_event=events.append, records_steps=False)
        tested = backtest(lives_of(events, float(record["time_s"])), runs=60)
        inside += tested.is_inside("goodput")
    # Of 80 bands of 80 %, fewer than 54 or more than 72 hold once in a hundred times.
    assert 54 <= inside <= 72


def test_events_without_steps_are_those_of_a_whole_record(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(JOB)
    scenario = load_scenario(str(tmp_path / "job.toml"))
    every: list[Event] = []
    fewer: list[Event] = []
    assert run(scenario, 3, record_event=every.append)["restarts"] > 10
    run(scenario, 3, record_event=fewer.append, records_steps=False)
    assert len(every) > 4000
    expected = [event for event in every if event.kind != EventKind.STEP]
    assert [event[1:] for event in fewer] == [event[1:] for event in expected]
    times_s = [event.time_s for event in fewer]
    assert times_s == pytest.approx([event.time_s for event in expected], rel=1e-12)


def test_a_job_that_goes_on_slower_is_refused(tmp_path: Path, cli: Cli) -> None:
    """Steps of SPARe compute more stacks after failures, so they have no single duration."""
    log = tmp_path / "events.jsonl"
    cli("run", "head-to-head", "--set", "rejoin.when=at-restart", "-o", log)
    assert "restarts at full speed" in cli.refused("backtest", log)


@pytest.mark.skipif(not PUBLISHED.exists(), reason="the published log is not here")
def test_the_published_log_predicts_its_own_second_half(cli: Cli) -> None:
    found: dict[str, Any] = json.loads(cli.all("backtest", PUBLISHED, "--json")[1])
    assert found["read"].startswith("3,895 lines: 112 nodes, 33 starts, 25 loads, 49 saves")
    assert found["inside"]["goodput"]
    assert found["inside"]["starts"]
    assert found["fit"]["interval_steps"] == 20
    assert found["fit"]["step"]["mean"] == pytest.approx(8.0, rel=0.02)
    assert any("loading" in change for change in found["changes"])


@pytest.mark.parametrize("command", ["learn", "backtest"])
def test_a_bad_log_is_refused_in_one_line(command: str, tmp_path: Path, cli: Cli) -> None:
    target = ["-o", tmp_path / "x.toml"] if command == "learn" else []
    assert "name a goodput event log" in cli.refused(command, tmp_path / "none", *target)
    other = tmp_path / "other.jsonl"
    other.write_text('{"kind": "other"}\n')
    assert "no job_started event" in cli.refused(command, other, *target)
    short = tmp_path / "short.jsonl"
    start = '{"timestamp": "2025-01-01T00:00:00", "event_type": "job_started", "node_rank": 0}'
    short.write_text(start + "\n")
    assert "too few" in cli.refused(command, short, *target)


def test_fault_records_predict_how_many_nodes_are_down(tmp_path: Path, cli: Cli) -> None:
    """A node in ten is down all the time: so is it predicted, and measured."""
    fault = {"Level": "Hardware Failure", "Class": "GPU", "Desc": "GPU Lost"}
    records = []
    for day in range(200):
        at = {"node_id": f"node-{day % 7}", "fault_type": fault}
        records.append({**at, "event_time": day, "event_type": "fault_start"})
        records.append({**at, "event_time": day + 1, "event_type": "fault_end"})
    path = tmp_path / "faults.json"
    path.write_text(json.dumps(records))
    found = cli.json("backtest", path, "--nodes", 10)
    for measure in ("mean", "P90"):
        assert found["measured"][measure] == pytest.approx(0.1, abs=0.001)
        assert found["predicted"][measure]["median"] == pytest.approx(0.1, abs=0.001)
    assert "outside" not in cli("backtest", path, "--nodes", 10).splitlines()[3]
    assert "give --nodes N" in cli.refused("backtest", path)
    few = tmp_path / "few.json"
    few.write_text(json.dumps(records[:100]))
    assert "too few" in cli.refused("backtest", few, "--nodes", 10)


SACCT_LIKE = "time_h,node,cause,repair_h\n" + "".join(
    f"{10 * number + (number % 7)},n{(number * number) % 23},{'memory' if number % 3 else 'fan'},"
    f"{1 + number % 5}\n"
    for number in range(60)
)


def test_a_log_by_node_gives_causes_lemons_and_repairs(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "nodes.csv").write_text(SACCT_LIKE)
    path = tmp_path / "ours.toml"
    data = cli.json("learn", tmp_path / "nodes.csv", "--nodes", 64, "-o", path)
    scenario = load_scenario(str(path), {"job.groups": 8})
    assert scenario.job.gpus == 512
    assert (scenario.failures.model, scenario.failures.rate) == ("mix", "mtbf")
    # 60 failures in 600 hours.
    assert scenario.failures.mtbf_s == pytest.approx(36_000.0, rel=0.03)
    shape = data["failures"]["lemons"]["shape"]["value"]
    assert scenario.failures.kinds.lemon_shape == pytest.approx(shape, rel=1e-3)
    assert data["failures"]["bursts"]["excess"]["low"] == 1.0
    assert scenario.failures.kinds.correlated_excess == 1.0
    causes = tomllib.loads((tmp_path / "ours-causes.toml").read_text())["cause"]
    assert {cause["name"]: cause["kind"] for cause in causes} == {
        "memory": "hardware", "fan": "hardware"
    }  # fmt: skip
    assert set(scenario.uncertain) == {"failures.mtbf_s", "failures.kinds.lemon_shape"}


def test_both_logs_give_times_and_causes_at_the_rate_of_the_job(tmp_path: Path, cli: Cli) -> None:
    log = simulated_log(tmp_path, cli)
    (tmp_path / "nodes.csv").write_text(SACCT_LIKE)
    path = tmp_path / "ours.toml"
    data = cli.json("learn", log, tmp_path / "nodes.csv", "-o", path)
    scenario = load_scenario(str(path), {"job.groups": 1})
    assert scenario.failures.model == "mix"
    assert scenario.failures.mtbf_s == pytest.approx(data["between_starts"]["mean"], rel=1e-4)
    assert scenario.times.restart_s == pytest.approx(
        data["start_to_load"]["mean"] + data["warm-up"]["mean"], rel=1e-4
    )


def jobs_log(path: Path) -> Path:
    """Write a log of a long job on 16 nodes, and of short ones on two that fail ten times more."""
    rows = ["JobID|JobName|State|Start|End|NodeList"]

    def add(name: str, state: str, start: int, hours: int, nodes: str) -> None:
        times = [f"2026-03-{1 + at // 24:02d}T{at % 24:02d}:00:00" for at in (start, start + hours)]
        rows.append("|".join([str(len(rows)), name, state, *times, nodes]))

    for place in range(20):
        add("pre", "FAILED" if place % 4 == 0 else "NODE_FAIL", 24 * place, 24, "n[01-16]")
    for place in range(400):
        add("eval", "FAILED" if place % 3 == 0 else "COMPLETED", place, 1, "n[17-18]")
    path.write_text("\n".join(rows))
    return path


def test_a_job_is_learned_from_its_own_runs(tmp_path: Path, cli: Cli) -> None:
    """The short jobs' 134 failures of software would have been 134 of 154."""
    log, ours = jobs_log(tmp_path / "sacct.txt"), tmp_path / "ours.toml"
    assert "warning: 134 of 154 failures are of short or small" in " ".join(
        cli("failures", "fit", log).split()
    )
    printed = cli("learn", log, "--job", "p*", "-o", ours)
    assert "warning" not in printed
    assert "job.gpus" not in printed
    scenario = load_scenario(str(ours), {"job.groups": 16})
    assert scenario.job.gpus == 128
    # 20 failures in 20 days.
    assert scenario.failures.mtbf_s == pytest.approx(86_400.0)
    causes = tomllib.loads((tmp_path / "ours-causes.toml").read_text())["cause"]
    assert {
        cause["name"]: (cause["level"], cause["kind"], cause["per_1000_node_days"])
        for cause in causes
    } == {
        "node-fail": ("host", "hardware", pytest.approx(15 / 320 * 1000)),
        "failed": ("job", "software", pytest.approx(5 / 320 * 1000)),
    }
    jobs = cli.json("failures", "fit", log)["jobs"]
    assert [(job["name"], job["runs"], job["hardware"], job["software"]) for job in jobs] == [
        ("pre", 20, 15, 5), ("eval", 400, 0, 134)
    ]  # fmt: skip
    assert jobs[0]["per_1000_node_days"]["software"] == pytest.approx(5 / 320 * 1000)


@pytest.mark.parametrize(
    ("logs", "options", "why"),
    [
        (("a.jsonl", "a.jsonl"), (), "give one goodput event log"),
        (("n.csv", "n.csv"), (), "give one log of failures"),
        (("a.jsonl",), ("--min-nodes", 4), "--min-nodes: has no effect without a log"),
        (("n.csv",), ("--job", "x"), "is no log of jobs"),
    ],
)
def test_logs_that_do_not_go_together_are_refused(
    tmp_path: Path, cli: Cli, logs: tuple[str, ...], options: tuple[Any, ...], why: str
) -> None:
    (tmp_path / "a.jsonl").write_bytes(simulated_log(tmp_path, cli).read_bytes())
    (tmp_path / "n.csv").write_text(SACCT_LIKE)
    paths = [tmp_path / log for log in logs]
    assert why in cli.refused("learn", *paths, *options, "-o", tmp_path / "ours.toml")


def test_the_replay_of_a_log_takes_as_long_as_the_log(tmp_path: Path, cli: Cli) -> None:
    """The times are fitted, the stops are those of the log: within 5 %."""
    log = simulated_log(tmp_path, cli)
    data = cli.json("learn", log, "-o", tmp_path / "ours.toml")
    read = read_goodput_log(log)
    record = cli.json("run", data["replay"])
    assert record["completed_steps"] == read.steps_kept
    assert record["time_s"] == pytest.approx(read.span_s, rel=0.05)
    stops = (tmp_path / "ours-stops.csv").read_text().splitlines()
    assert len(stops) == len(read.lives)
    assert "uncertain" not in tomllib.loads(Path(data["replay"]).read_text())
