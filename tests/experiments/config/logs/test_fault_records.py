"""Paired fault records: pairs, overlaps, what is open, and what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.logs.failure_log import FailureLog, LogFile
from faultline.experiments.config.logs.reading import read_log

DAY_S = 86_400.0


def record(node: str, day: float, kind: str, part: str = "GPU", level: str = "Hardware") -> Any:
    fault = {"Level": f"{level} Failure", "Class": part, "Desc": "x"}
    return {"node_id": node, "event_time": day, "event_type": f"fault_{kind}", "fault_type": fault}


def read(folder: Path, records: list[Any], **options: Any) -> FailureLog:
    path = folder / "faults.json"
    path.write_text(json.dumps(records))
    return read_log(LogFile(path, **{"nodes": 10, **options}))


def test_faults_that_overlap_are_one_outage(tmp_path: Path) -> None:
    records = [
        record("a", 1.0, "start"),
        record("a", 2.0, "start", "NIC"),
        record("a", 3.0, "end"),
        record("a", 5.0, "end", "NIC"),
        record("a", 7.0, "start", "NIC"),
        record("a", 8.0, "end", "NIC"),
        record("b", 6.0, "start", "File System", "Software"),
        record("c", 4.0, "end"),
        record("d", 10.0, "end", "Fan"),
    ]
    log = read(tmp_path, records)
    assert [(one.time_s / DAY_S, one.cause, one.kind) for one in log.failures] == [
        (1.0, "GPU", "hardware"),
        (6.0, "File System", "software"),
        (7.0, "NIC", "network"),
    ]
    assert [one.repair_s for one in log.failures] == [4 * DAY_S, None, DAY_S]
    assert log.span_s == 10.0 * DAY_S
    # Node a is down for five days, and b for the last four.
    assert log.node_s == pytest.approx((100.0 - 9.0) * DAY_S)
    assert "1 under way at the end; 1 overlap another" in log.notes[0]
    assert "left out: 2 ends without a start" in log.notes[0]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"event_type": "fault"}, "entry 1: event_type 'fault' is neither"),
        ({"event_time": "soon"}, "entry 1: could not convert"),
        ({"event_time": -1.0}, "entry 1: event_time -1.0 is no number of days"),
    ],
)
def test_a_wrong_record_is_named(change: dict[str, Any], why: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=why):
        read(tmp_path, [{**record("a", 1.0, "start"), **change}])


def test_the_number_of_nodes_is_needed(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="give --nodes N"):
        read(tmp_path, [record("a", 1.0, "start")], nodes=None)
