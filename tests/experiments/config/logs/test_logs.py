"""Logs that people have: each format by a small one, and what is told of broken ones."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
from faultline.experiments.analysis.failure_fit import failures_of_nodes
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.logs import slurm, slurm_rows
from faultline.experiments.config.logs.failure_log import (
    FailureLog,
    JobFailures,
    JobSelection,
    LogFile,
    Logged,
    natural_order,
)
from faultline.experiments.config.logs.node_lists import expand_nodes
from faultline.experiments.config.logs.reading import read_log
from faultline.experiments.config.trace_file import read_trace, write_trace
from faultline.simulator.failures.failure import JobLayout
from hypothesis import given
from hypothesis import strategies as st

SACCT = """\
JobID|State|Start|End|NodeList|FailedNode
1|COMPLETED|2024-05-01T00:00:00|2024-05-01T01:00:00|gpu[01-02]|
2|NODE_FAIL|2024-05-01T01:00:00|2024-05-01T03:00:00|gpu[01-03]|gpu02
2.batch|NODE_FAIL|2024-05-01T01:00:00|2024-05-01T03:00:00|gpu01|
3|FAILED|2024-05-01T01:00:00|2024-05-01T02:00:00|gpu04|
4|CANCELLED by 1000|2024-05-01T02:00:00|2024-05-01T02:30:00|gpu04|
5|NODE_FAIL|2024-05-01T03:00:00|2024-05-01T04:00:00|gpu[01,03]|
6|RUNNING|2024-05-01T03:30:00|Unknown|gpu02|
7|PENDING|Unknown|Unknown|None assigned|
"""

NAMED = """\
time, node, cause, kind, repair
2024-05-01T12:00:00Z, r1-n9, memory, hardware, 3h
2024-05-01T14:00:00+02:00, r1-n10, cable, network,
2024-05-03T00:00:00, r1-n9,, ,
"""


BADPUT = """\
time,badput,seconds,node
0,TPU_INITIALIZATION,60,
1h,UNPRODUCTIVE_CHECKPOINT_SAVE_TIME,40,
7200,infrastructure_recovery_from_disruption,600,n7
7800,PROGRAM_STARTUP,100,
7900,WASTED_PROGRESS_FROM_DISRUPTION,900,
8800,UNPRODUCTIVE_CHECKPOINT_SAVE_TIME,40,
9000,WASTED_PROGRESS_FROM_DISRUPTION,1000,
"""


def log_of(folder: Path, text: str, **how: object) -> FailureLog:
    path = folder / "log"
    path.write_text(text, encoding="utf-8")
    return read_log(LogFile(path, **how))  # type: ignore[arg-type]


def test_jobs_of_slurm_fail_where_the_log_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "_SMALLEST_JOB", 1)
    log = log_of(tmp_path, SACCT)
    assert log.nodes == ("gpu01", "gpu02", "gpu03", "gpu04")
    assert log.failures == (
        Logged(7_200.0, "host", 3, "failed", "software", None),
        # Up again at the latest when job 6 starts.
        Logged(10_800.0, "host", 1, "node-fail", "hardware", 1_800.0),
        # Job 5 does not name its node.
        Logged(14_400.0, "host", None, "node-fail", "hardware", None),
    )
    hours = 2 * 1 + 3 * 2 + 1 + 0.5 + 2 * 1 + 0.5
    assert (log.span_s, log.node_s) == (14_400.0, hours * 3600)
    assert log.notes[:3] == (
        "8 rows: 6 runs of jobs, 2 left out",
        "left out: 1 steps of jobs (line 4)",
        "left out: 1 jobs that never ran (line 9)",
    )
    assert log.notes[3].startswith("1 failures of hardware are each of one unknown node")


def test_small_jobs_and_duplicates_are_left_out_and_counted(tmp_path: Path) -> None:
    """Job 3 is a program that failed on one node; the node that fails under job 8 did fail."""
    twice = next(line for line in SACCT.splitlines(keepends=True) if line.startswith("2|"))
    small = "8|NODE_FAIL|2024-05-01T00:00:00|2024-05-01T00:30:00|gpu04|\n"
    log = log_of(tmp_path, SACCT + twice + small)
    assert [(one.time_s, one.level, one.cause) for one in log.failures] == [
        (1_800.0, "host", "node-fail"),
        (10_800.0, "host", "node-fail"),
        (14_400.0, "host", "node-fail"),
    ]
    assert "left out: 1 exact duplicates (line 10)" in log.notes
    assert "1 failures of software on jobs of fewer than 2 nodes do not count" in log.notes
    # Failures of software would have counted in 2 x 1, 3 x 2 and 2 x 1 hours of large jobs.
    assert log.gpu_s_of("hardware") == 12.5 * 3_600 * 8
    assert log.gpu_s_of("software") == 10 * 3_600 * 8


def test_where_all_jobs_have_one_node_their_failures_count(tmp_path: Path) -> None:
    text = "".join(line for line in SACCT.splitlines(keepends=True) if line[0] in "J34")
    assert [one.cause for one in log_of(tmp_path, text).failures] == ["failed"]


def test_a_preemption_is_no_failure_and_is_counted(tmp_path: Path) -> None:
    log = log_of(tmp_path, SACCT.replace("5|NODE_FAIL", "5|PREEMPTED"))
    assert [one.time_s for one in log.failures] == [10_800.0]
    assert "1 preemptions do not count" in log.notes


JOBS = """\
JobID|JobName|Partition|State|Start|End|NodeList|FailedNode
1|pre-70b|big|NODE_FAIL|2024-05-01T00:00:00|2024-05-02T00:00:00|n[1-8]|
1|pre-70b|big|FAILED|2024-05-02T00:00:00|2024-05-02T12:00:00|n[1-8]|
1|pre-70b|big|NODE_FAIL|2024-05-02T12:00:00|2024-05-03T00:00:00|n[1-8]|n3
2|eval|small|NODE_FAIL|2024-05-01T00:00:00|2024-05-01T03:00:00|n9|
3|eval|small|FAILED|2024-05-01T01:00:00|2024-05-01T02:00:00|n[10-11]|
4|eval|small|FAILED|2024-05-01T03:00:00|2024-05-01T04:00:00|n[10-11]|
5|eval|small|OUT_OF_MEMORY|2024-05-01T05:00:00|2024-05-01T06:00:00|n[10-11]|
6|eval|small|COMPLETED|2024-05-03T10:00:00|2024-05-03T12:00:00|n3|
7|eval|small|RUNNING|2024-05-03T10:00:00|Unknown|n12|
"""


def test_rates_are_those_of_each_job(tmp_path: Path) -> None:
    log = log_of(tmp_path, JOBS)
    hour_s = 3_600.0
    assert log.jobs == (
        JobFailures("pre-70b", 3, 8, 8 * 48 * hour_s, 0.0, 2, 1),
        # Software fails on jobs of two nodes: 7 hours of jobs of one node do not count.
        JobFailures("eval", 6, 2, 13 * hour_s, 7 * hour_s, 1, 3),
    )
    assert log.node_s == sum(job.node_s for job in log.jobs)
    assert log.warning is not None
    assert log.warning.startswith(
        "4 of 7 failures are of short or small jobs (3% of the node-days)"
    )
    assert log.job_nodes == 8


@pytest.mark.parametrize(
    "selection",
    [
        JobSelection(name="pre-*"),
        JobSelection(partition="big"),
        JobSelection(min_nodes=3),
        # The runs of job 1 together: 48 hours.
        JobSelection(min_duration_s=40 * 3_600.0),
    ],
)
def test_a_selection_of_jobs_has_their_node_days_alone(
    tmp_path: Path, selection: JobSelection
) -> None:
    log = log_of(tmp_path, JOBS, selection=selection)
    day_s = 86_400.0
    assert log.failures == (
        Logged(day_s, "host", None, "node-fail", "hardware", None),
        Logged(1.5 * day_s, "job", 0, "failed", "software", None),
        # Another job shows when the node is up again.
        Logged(2 * day_s, "host", 2, "node-fail", "hardware", 36_000.0),
    )
    assert (log.node_s, len(log.nodes), log.warning) == (16 * day_s, 8, None)
    # The log, not the job, says how long it was watched.
    assert log.span_s == 60 * 3_600.0
    assert log.form == f"Slurm's sacct {selection.options}"
    assert "6 runs of other jobs (4 failed) do not count" in log.notes


def test_nodes_without_a_job_are_not_watched(tmp_path: Path) -> None:
    log = log_of(tmp_path, JOBS, nodes=20, selection=JobSelection(name="pre-70b"))
    assert (len(log.nodes), log.idle_nodes) == (20, 12)
    assert list(failures_of_nodes(log)) == [0, 0, 1, 0, 0, 0, 0, 0]
    assert {one.number for one in log.as_failures() if one.level == "host"} <= set(range(8))


FOREIGN = """\
Timestamp,hostname,rack,failure_type,downtime_min
2024-05-01T12:00:00,r1-n9,r1,memory,30
2024-05-01T12:00:00,r1-n9,r1,memory,30
2024-05-03T00:00:00,r1-n10,r1,cable,2h
"""


def test_columns_of_others_are_mapped_and_have_the_units_of_their_names(tmp_path: Path) -> None:
    columns = {"time": "timestamp", "node": "hostname", "cause": "failure_type"}
    log = log_of(tmp_path, FOREIGN, columns={**columns, "repair": "downtime_min"})
    assert log.failures == (
        Logged(0.0, "host", 0, "memory", "hardware", 1_800.0),
        Logged(36 * 3600.0, "host", 1, "cable", "hardware", 7_200.0),
    )
    assert log.notes[:3] == (
        "3 rows: 2 failures, 1 left out",
        "left out: 1 exact duplicates (line 3)",
        "left out: columns 'rack'",
    )
    assert log_of(tmp_path, FOREIGN, columns=columns).failures[0].repair_s is None


def test_all_columns_are_named_with_the_remedy_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError) as printed:
        log_of(tmp_path, FOREIGN)
    for said in (
        "'Timestamp', 'hostname', 'rack', 'failure_type', 'downtime_min'",
        "columns time, node are missing",
        "--columns time=Timestamp,node=hostname,cause=failure_type,repair=downtime_min",
    ):
        assert said in str(printed.value)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("repair", 90.0), ("repair_s", 90.0), ("Repair (minutes)", 5_400.0), ("repair_h", 324_000.0),
     ("repair_d", 90 * 86_400.0)],
)  # fmt: skip
def test_the_name_of_a_column_says_its_unit(tmp_path: Path, header: str, seconds: float) -> None:
    log = log_of(tmp_path, f"time_h,node,{header}\n1,a,90\n2,b,5s\n")
    assert [(one.time_s, one.repair_s) for one in log.failures] == [
        (3_600.0, seconds), (7_200.0, 5.0)
    ]  # fmt: skip


LANL = """\
System,nodenum,Prob Started,Prob Fixed,Down Time,Facilities,Hardware,Human Error,Network,Software
20,9,12/31/2001 13:56,12/31/2001 14:41,45,,Memory Dimm,,,
20,17,1/2/2002 01:56,1/2/2002 03:56,120,,,,,Scheduler Software
"""
LANL_COLUMNS = {
    "time": "Prob Started",
    "node": "nodenum",
    "repair": "Down Time min",
    "cause": "Facilities+Hardware+Human Error+Network+Software",
}


def test_a_table_of_lanl_is_read_by_its_columns(tmp_path: Path) -> None:
    log = log_of(tmp_path, LANL, columns=LANL_COLUMNS)
    assert log.failures == (
        Logged(0.0, "host", 0, "Memory Dimm", "hardware", 2_700.0),
        Logged(36 * 3600.0, "host", 1, "Scheduler Software", "hardware", 7_200.0),
    )
    assert log.notes[1] == "left out: columns 'System', 'Prob Fixed'"


@pytest.mark.parametrize(
    ("text", "how", "said"),
    [
        (JOBS, {"selection": JobSelection(name="pre")}, "most node-days are pre-70b, eval"),
        (SACCT, {"selection": JobSelection(name="a b")}, "has no column JobName; call sacct --all"),
        (NAMED, {"selection": JobSelection(min_nodes=2)}, "--min-nodes 2: "),
        (
            JOBS.replace("2|eval|small|NODE_FAIL", "2|eval|small|COMPLETED"),
            {"selection": JobSelection(name="eval", min_duration_s=7_200.0)},
            "no run of the selected jobs has failed; without --duplicates, sacct hides",
        ),
        (FOREIGN, {"columns": {"nodes": "hostname"}}, "did you mean 'node'?"),
        (SACCT, {"columns": {"time": "End"}}, "is read by its own columns; leave"),
        (LANL.replace("12/31", "31/12"), {"columns": LANL_COLUMNS}, "month/day/year"),
        (LANL, {"columns": {**LANL_COLUMNS, "cause": "Hardware+Firmware"}}, "no column 'firmware'"),
        (LANL, {"columns": {**LANL_COLUMNS, "kind": "Hardware"}}, "gives that column two names"),
    ],
)
def test_an_option_that_does_not_fit_the_log_is_refused(
    tmp_path: Path, text: str, how: dict[str, object], said: str
) -> None:
    with pytest.raises(UserError) as printed:
        log_of(tmp_path, text, **how)
    assert said in str(printed.value)


def test_seconds_since_1970_begin_with_the_first_failure(tmp_path: Path) -> None:
    log = log_of(tmp_path, "time,node\n1714564800,a\n1714564860,b\n")
    assert (log.failures[1].time_s, log.span_s) == (60.0, 60.0)


def test_a_csv_with_node_names(tmp_path: Path) -> None:
    log = log_of(tmp_path, NAMED, nodes=4, span_s=5 * 86_400.0)
    assert log.nodes == ("r1-n9", "r1-n10", "(node 3)", "(node 4)")
    assert log.failures == (
        Logged(0.0, "host", 0, "memory", "hardware", 10_800.0),
        Logged(0.0, "host", 1, "cable", "network", None),
        Logged(36 * 3600.0, "host", 0, "unstated", "hardware", None),
    )
    assert (log.span_s, log.node_s) == (432_000.0, 4 * 432_000.0)
    assert log.notes[0] == "3 rows: 3 failures, 0 left out"


def test_what_follows_a_disruption_without_a_gap_belongs_to_it(tmp_path: Path) -> None:
    """The second wastes the work since the save, and the log does not name its node."""
    log = log_of(tmp_path, BADPUT, nodes=4)
    assert [one[:3] for one in log.failures] == [(7200.0, "host", 0), (9000.0, "host", None)]
    assert [one.repair_s for one in log.failures] == [600.0, None]
    assert (log.nodes[0], log.span_s, log.node_s) == ("n7", 10_000.0, 40_000.0)
    assert "WASTED_PROGRESS_FROM_DISRUPTION 19.00%" in log.notes[0]


def test_a_trace_of_our_own_needs_its_number_of_nodes(tmp_path: Path) -> None:
    text = "time,component,cause\n10,gpu-9,memory\n20,switch-3,cable\n"
    log = log_of(tmp_path, text, nodes=2, span_s=50.0)
    assert [(one.level, one.number) for one in log.failures] == [("gpu", 9), ("switch", 3)]
    assert log.node_s == 100.0
    with pytest.raises(UserError, match="the number of nodes; give --nodes N"):
        log_of(tmp_path, text)


@pytest.mark.parametrize("text", [SACCT, NAMED])
def test_what_is_imported_can_be_simulated(tmp_path: Path, text: str) -> None:
    log = log_of(tmp_path, text)
    trace = tmp_path / "trace.csv"
    write_trace(log.as_failures(), trace)
    layout = JobLayout(len(log.nodes), 8, 8, 8, 8)
    traced = [Logged(*one[:6]) for one in read_trace(trace, layout)]
    assert len(traced) == len(log.failures)
    for one, logged in zip(traced, log.failures, strict=True):
        number = one.number if logged.number is None else logged.number
        assert one == logged._replace(number=number)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("time,node\n1,\n", ":2: names no node"),
        ("time,node,kind\n1,a,odd\n2,b,odd\n", ":2: kind 'odd' is unknown; write hardware"),
        ("time,node\n1,a\n2024-05-01,b\n", "some times are timestamps"),
        ("time,host\n1,a\n", ":1: unknown column 'host'; column node is missing; found: "),
        ("time,badput,seconds\n1,PROGRAM_STARTUPS,3\n", ":2: badput 'PROGRAM_STARTUPS' is unknown"),
        ("", ":1: this is no known log"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError) as printed:
        log_of(tmp_path, text)
    assert said in str(printed.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SACCT.replace("NODE_FAIL", "BROKEN", 1), ":3: State 'BROKEN' is none of Slurm's"),
        (SACCT.replace("gpu[01-02]", "gpu[02-01]"), ":2: NodeList 'gpu[02-01]' '02-01' is no"),
        (SACCT.replace("T03:00:00|gpu[01-03]|gpu02", "T03"), ":3: has 4 cells"),
        (SACCT.replace("01T01:00:00|gpu[01-02]", "00T01:00:00|gpu[01-02]"), ":2: '2024-05-00T"),
        ("time,node\n1,a\n2,\n3,b\n", ":3: names no node"),
    ],
)
def test_one_row_that_cannot_be_read_is_left_out_and_quoted(
    tmp_path: Path, text: str, said: str
) -> None:
    log = log_of(tmp_path, text)
    (note,) = (note for note in log.notes if "cannot be read" in note)
    assert note.startswith("left out: 1 that cannot be read; the first: ")
    assert said in note


def runs(*rows: str) -> str:
    """Return a table of Slurm's runs of jobs of 16 nodes."""
    return "\n".join(("JobID|State|Start|End|NodeList|FailedNode", *rows))


FAILS = "9|NODE_FAIL|2025-10-27T00:10:00|2025-10-28T00:00:00|gpu[001-016]|gpu005.cluster"


def test_slurm_s_own_columns_are_known_in_any_form(tmp_path: Path) -> None:
    """As commas, in small letters, with raw identities, times since 1970, names in a domain."""
    parsable = log_of(tmp_path, runs(FAILS))
    assert [(one.time_s, one.number) for one in parsable.failures] == [(85_800.0, 4)]
    other = (
        "jobidraw,state,start,end,nodelist,failednode\n"
        "9,NODE_FAIL,1761523800,1761609600,gpu[001-008,009-016],gpu005.cluster\n"
    )
    assert log_of(tmp_path, other).failures == parsable.failures


def test_all_states_and_flags_of_slurm_are_known(tmp_path: Path) -> None:
    states = "REQUEUE_HOLD", "SPECIAL_EXIT", "SIGNALING", "STAGE_OUT", "RESV_DEL_HOLD"
    times = "2025-10-01T00:00:00|2025-10-01T06:00:00"
    rows = [f"{number}|{state}|{times}|gpu[001-016]|" for number, state in enumerate(states)]
    log = log_of(tmp_path, runs(*rows, FAILS))
    assert (len(log.failures), log.notes[0]) == (1, "6 rows: 6 runs of jobs, 0 left out")


def test_an_hour_is_added_in_the_night_in_which_clocks_go_back(tmp_path: Path) -> None:
    night = "8|COMPLETED|2025-10-26T02:50:00|2025-10-26T02:10:00|gpu[001-016]|"
    log = log_of(tmp_path, runs(night, FAILS))
    assert log.node_s == 16 * (20 * 60 + 85_800.0)
    assert any("clocks go back: an hour was added" in note for note in log.notes)


def test_a_job_that_was_never_closed_ends_when_the_next_one_has_its_nodes(tmp_path: Path) -> None:
    runaway = "7|RUNNING|2025-10-20T00:00:00|Unknown|gpu[001-016]|"
    log = log_of(tmp_path, runs(runaway, FAILS))
    assert log.node_s == 16 * (7 * 86_400.0 + 600.0 + 85_800.0)
    assert any(note.startswith("1 jobs still run by the log") for note in log.notes)


def test_runs_that_slurm_hides_are_asked_for(tmp_path: Path) -> None:
    """Without --duplicates a requeued job shows its last run alone."""
    done = "8|COMPLETED|2025-10-26T00:00:00|2025-10-27T00:00:00|gpu[001-016]|"
    with pytest.raises(UserError, match="no run has failed; without --duplicates, sacct hides"):
        log_of(tmp_path, runs(done))
    software = "9|FAILED|2025-10-27T00:10:00|2025-10-28T00:00:00|gpu[001-016]|"
    log = log_of(tmp_path, runs(done, software))
    assert any(note.startswith("no run ended because a node failed") for note in log.notes)


XID = """\
time,node,cause
2023-10-03T00:08:00,n029,79
2023-10-03T00:08:01,n029,43
2023-10-05T10:00:00,n101,94
2023-10-05T10:00:30,n102,94
2023-11-01T07:00:00,n029,79
"""


def test_messages_of_one_incident_are_one_failure(tmp_path: Path) -> None:
    log = log_of(tmp_path, XID, nodes=100, span_s=30 * 86_400.0)
    assert [one.number for one in log.failures] == [0, 1, 2, 0]
    assert any(note.startswith("merged: 1 that follow another") for note in log.notes)
    every = log_of(tmp_path, XID, nodes=100, span_s=30 * 86_400.0, merge_within_s=0.0)
    assert len(every.failures) == 5


def test_rows_that_are_no_failures_do_not_count(tmp_path: Path) -> None:
    text = "time;node;cause\n0;a;COMPLETED\n60;a;gpu\n90;b;CANCELLED by 7\n200;b;PREEMPTED\n"
    log = log_of(tmp_path, text, nodes=2)
    assert [(one.cause, one.kind) for one in log.failures] == [
        ("gpu", "hardware"),
        ("PREEMPTED", "preemption"),
    ]
    assert log.notes[:3] == (
        "4 rows: 2 failures, 2 left out",
        "left out: 1 rows of the cause COMPLETED, which is no failure (line 2)",
        "left out: 1 rows of the cause CANCELLED, which is no failure (line 4)",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("job_id,user,node_num,state,end_time\n1,u,8,FAILED,2023-05-17\n", "a table of jobs"),
        ('{"type": "Warning", "reason": "NodeNotReady"}\n', "this is JSON, one object a line"),
        ('[{"status": "Failed", "jobid": "a"}]\n', "something other than faults of nodes"),
    ],
)
def test_a_file_of_another_kind_is_told_by_its_name(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        log_of(tmp_path, text)


def test_a_rate_far_from_published_ones_is_questioned(tmp_path: Path) -> None:
    likely = log_of(tmp_path, XID, nodes=4, span_s=30 * 86_400.0)
    assert not any("clusters that published" in note for note in likely.notes)
    short = log_of(tmp_path, "time,node\n0,a\n3600,b\n")
    assert "failures per 1,000 node-days; clusters that published theirs" in short.notes[-1]


def test_more_nodes_than_there_are_and_a_span_that_is_too_short(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--nodes 1: .* names 2 nodes"):
        log_of(tmp_path, NAMED, nodes=1)
    with pytest.raises(UserError, match=r"--days 0.000694444: .* has a failure after 1.5 days"):
        log_of(tmp_path, NAMED, span_s=60.0)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, said in ((pipe, "a pipe, not a regular file"), (tmp_path / "gone", "No such file")):
        with pytest.raises(UserError, match=said):
            LogFile(path)


def test_slurm_s_ranges() -> None:
    assert expand_nodes("gpu[001-003,7],login1") == ["gpu001", "gpu002", "gpu003", "gpu7", "login1"]
    assert expand_nodes("r[1-2]n[09-10]") == ["r1n09", "r1n10", "r2n09", "r2n10"]
    assert expand_nodes("a[1-2]-ib") == ["a1-ib", "a2-ib"]
    for text in ("a,,b", "n[1", "n[3-1]", "n[1-9999999]", "n[x]"):
        with pytest.raises(ValueError, match=r"is no range|cannot be read|empty name|more than"):
            expand_nodes(text)
    assert expand_nodes("a,a,n[1,1-2],a") == ["a", "n1", "n2"]


def test_nodes_are_counted_before_they_are_named() -> None:
    for text in ("n[0-999999999]" * 9_000, "n" + "[1-9]" * 9_000, "n[0-99999],m"):
        with pytest.raises(ValueError, match="has more than 100,000 nodes"):
            expand_nodes(text)


def test_lists_of_a_log_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_rows, "MOST_EXPANDED", 250_000)
    rows = "".join(
        f"{number}|NODE_FAIL|2024-05-01T00:00:00|2024-05-02T00:00:00|n[0-{99_000 + number}]\n"
        for number in range(300)
    )
    with pytest.raises(UserError, match=r"log:\d+: NodeList .* more than .* keep fewer days"):
        log_of(tmp_path, f"JobID|State|Start|End|NodeList\n{rows}")


@given(st.lists(st.integers(0, 999), min_size=1, max_size=30, unique=True))
def test_every_node_of_a_list_comes_back(numbers: list[int]) -> None:
    text = "n[" + ",".join(f"{number:03d}" for number in numbers) + "]"
    assert expand_nodes(text) == [f"n{number:03d}" for number in numbers]
    assert natural_order(f"n{number}" for number in numbers) == [f"n{n}" for n in sorted(numbers)]


pieces = st.sampled_from([*'|[]-,1g\n\x0b"+ ', "02", "gpu-1", "1e999", "NODE_FAIL", "2024-05-01"])


@given(
    st.lists(pieces, max_size=40).map("".join) | st.text(max_size=200),
    st.sampled_from(
        ["State|Start|End|NodeList\n", "time,node,kind,repair\n", "time,component\n", ""]
    ),
)
def test_any_rows_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, rows: str, header: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "any-rows"
    path.write_text(header + rows, encoding="utf-8", errors="ignore")
    with suppress(UserError):
        assert read_log(LogFile(path, nodes=40)).failures
