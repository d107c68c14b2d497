"""``faultline run``: records for programs, tables for people, one line for mistakes."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.runs.single_run import run
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_writer import write_xml
from faultline.simulator.accounting.badput import CAUSES
from faultline.simulator.accounting.timeline import Event, EventKind

from tests.experiments.command_line import Cli, in_a_process

SMALL = ["job.groups=24", "job.steps=30", "strategy.redundancy=3"]


def arguments(settings: Sequence[str], *more: str) -> list[str]:
    return ["run", "spare-study", *(word for s in settings for word in ("--set", s)), *more]


def test_goodput_is_the_useful_share_and_stands_before_the_ratio(cli: Cli) -> None:
    record = cli.json(*arguments(SMALL, "--seed", "5"))
    # 64 s of compute and 0.24 s of all-reduce for each of 30 steps.
    assert record["goodput"] == pytest.approx(30 * 64.24 / record["time_s"])
    steps, interval_s = record["checkpoint_interval_steps"], record["checkpoint_interval_s"]
    assert 64.24 < interval_s / steps < record["time_s"] / 30
    printed = cli(*arguments(SMALL, "--seed", "5"))
    places = [printed.index(name) for name in ("goodput", "time  ", "every", "time-to-train ratio")]
    assert places == sorted(places)
    assert f"{steps} steps (" in printed


@pytest.mark.parametrize("scheme", ["checkpoint", "replication", "spare"])
def test_a_record_s_numbers_hang_together(scheme: str, cli: Cli) -> None:
    settings = ["job.groups=24", "job.steps=200", f"strategy.name={scheme}", "failures.mtbf_s=9000"]
    r = cli.json(*arguments(settings))
    ideal_s = r["completed_steps"] * (64 + 0.24)
    assert r["time_to_train_ratio"] == pytest.approx(r["time_s"] / ideal_s)
    assert r["availability"] == pytest.approx(1 - r["downtime_s"] / r["time_s"])
    assert r["downtime_s"] == pytest.approx(r["restart_s"] + r["load_s"] + r["reconfigure_s"])
    assert sum(r[f"{cause}_s"] for cause in CAUSES) == pytest.approx(r["time_s"], rel=1e-12)
    assert r["compute_s"] == pytest.approx(r["completed_steps"] * 64)
    assert r["simulated_steps"] >= r["completed_steps"] == 200
    assert r["events"] > 0


def test_a_job_that_did_nothing_has_no_ratio(cli: Cli) -> None:
    settings = ["strategy.name=checkpoint", "job.time_limit_s=10", "failures.mtbf_s=1"]
    settings += ["restart.failure_during=absorbed"]
    record = cli.json(*arguments(settings))
    assert record["completed_steps"] == 0
    assert record["time_to_train_ratio"] is None


def test_people_get_a_table(cli: Cli) -> None:
    printed = " ".join(cli(*arguments(SMALL)).split())
    for word in ("time-to-train ratio", "availability", "restarts", "spare, r = 3, 24 groups"):
        assert word in printed
    assert "gave up" in cli(*arguments(["strategy.name=checkpoint", "job.time_limit_s=5000"]))


def test_a_failure_of_all_groups_is_one_event_and_many_hits(cli: Cli, tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("time,component\n500,job\n4000,group-3\n", encoding="utf-8")
    settings = ["job.groups=24", "job.steps=60", "strategy.name=checkpoint"]
    settings += ["failures.model=trace", f"failures.trace={trace}"]
    words = ["run", "spare-sound", *(word for one in settings for word in ("--set", one))]
    record = cli.json(*words)
    assert (record["events"], record["hits"]) == (2, 25)
    printed = cli(*words)
    assert re.search(r"failures \(events\) +│ +2 │", printed)
    assert re.search(r"groups stopped \(hits\) +│ +25 │", printed)


def test_a_step_that_rests_on_defaults_is_marked(cli: Cli) -> None:
    short = ("run", "llama3-70b-stress", "--set", "job.steps=2")
    stated = ("--set", "model.micro_batch_sequences=1")
    assert "assumes model.virtual_stages = 1; state your job's values." in cli(*short, *stated)
    assert "assumes" not in cli(*short, *stated, "--set", "model.virtual_stages=1")


def test_both_engines_answer(cli: Cli) -> None:
    words = arguments([*SMALL, "job.compute_jitter=0"])
    replayed = cli.json(*words)
    simulated = cli.json(*words, "--engine", "simgrid")
    assert simulated["engine"] == "simgrid"
    assert simulated["time_s"] == pytest.approx(replayed["time_s"], rel=1e-6)


def test_one_seed_one_record_and_another_seed_another(cli: Cli) -> None:
    first, again, other = (cli.json(*arguments(SMALL, "--seed", seed)) for seed in "112")
    assert first == again
    assert first["time_s"] != other["time_s"]


def test_hash_randomisation_changes_nothing(cli: Cli) -> None:
    """Sets and dictionaries in the matching must not let Python's hash seed through."""
    words = arguments([*SMALL, "job.steps=100", "strategy.redundancy=4"], "--json")
    another = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    elsewhere = in_a_process(*words, env={**os.environ, "PYTHONHASHSEED": another}, check=True)
    assert elsewhere.stdout == cli(*words)


def test_the_timeline_is_a_table_of_the_run_s_events(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "timeline.csv"
    record = cli.json(*arguments(SMALL, "-o", str(path)))
    events: list[Event] = []
    assert run(load_scenario("spare-study", SMALL), 0, "replay", events.append) == record
    kept = pd.read_csv(path, keep_default_na=False)
    kept["groups"] = kept["groups"].map(lambda text: tuple(map(int, text.split())))
    kept["kind"] = kept["kind"].map(EventKind)
    assert list(kept.itertuples(index=False, name=None)) == events
    kinds = [event.kind for event in events]
    assert kinds.count(EventKind.WIPE_OUT) == record["restarts"]
    assert kinds.count(EventKind.CHECKPOINT) == record["checkpoints"]


@pytest.mark.parametrize(
    ("settings", "printed"),
    [
        (["strategy.redundancy=29"], "no optimal Golomb ruler of order 29"),
        (["job.groups=24", "strategy.redundancy=9"], "use a redundancy of at most"),
        (["strategy.name=replication", "strategy.redundancy=201"], "use a degree from 1 to 200"),
        (["strategy.name=checkpoint", "strategy.redundancy=2"], "no redundancy"),
        (["platform.file=nowhere.xml", "~times.all_reduce_per_group_s"], "nowhere.xml"),
        (["job.gpus=12", "job.groups=24"], "set job.gpus to 24 or more"),
        (["job.groups=100000000000000000000000000000"], "job.groups"),
        # It lets no group through its restart, ever.
        (["failures.mtbf_s=1e-3"], "restart"),
        # Valid numbers, whose product or function no float can hold.
        (["failures.shape=1e-300"], "shape"),
        (["times.checkpoint_write_s=1e308"], "checkpoint"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_settings_end_with_status_2_and_one_line(
    settings: list[str], printed: str, cli: Cli
) -> None:
    message = cli.refused(*arguments(settings, "--json"))
    assert message.startswith("faultline: ")
    assert printed in message


def edited_platform(tmp_path: Path, old: str, new: str) -> Path:
    path = tmp_path / "edited.xml"
    write_xml(load_preset("spare-600k", groups=24), path)
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path


def test_an_edited_platform_is_the_one_that_is_simulated(tmp_path: Path, cli: Cli) -> None:
    """NICs of 1.25 instead of 12.5 GB/s, a fifth of the core's 6.25: 5 times as long."""
    settings = [*SMALL, "~times.all_reduce_per_group_s", "failures.mtbf_s=1e9"]
    as_shipped = edited_platform(tmp_path, "12.5GBps", "12.5GBps")
    before = cli.json(*arguments([*settings, f"platform.file={as_shipped}"]))
    slow = edited_platform(tmp_path, "12.5GBps", "1.25GBps")
    after = cli.json(*arguments([*settings, f"platform.file={slow}"]))
    assert after["all_reduce_s"] == pytest.approx(5 * before["all_reduce_s"], rel=0.01)


def test_schemes_with_one_recovery_are_explained_together(cli: Cli) -> None:
    printed = cli("explain-recovery", "spare-study", "--schemes", "checkpoint,replication,spare")
    rows = [" ".join(line.split()) for line in printed.splitlines()]
    assert rows[3:7] == [
        "restart: checkpoint (a GPU fails); replication (about 30.5 failures later); "
        "spare (about 97.1 failures later) 3,600.00",
        "all phases 3,600.00 1",
        "shrink: replication, spare (a GPU fails) 0.10",
        "all phases 0.10 2",
    ]
