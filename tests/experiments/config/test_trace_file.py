"""Traces: what is read is what was written, and mistakes are told in one line."""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.trace_file import parse_timestamp, read_trace, write_trace
from faultline.simulator.failures.failure import (
    KINDS,
    LEVELS,
    RULES,
    Failure,
    JobLayout,
)
from hypothesis import given
from hypothesis import strategies as st

# Groups of 4: GPUs 0 to 47, hosts 0 to 5, domains 0 to 2, switches 0 and 1.
LAYOUT = JobLayout(
    groups=12, gpus_per_group=4, gpus_per_host=8, gpus_per_domain=16, gpus_per_switch=32
)


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_trace_by_hand(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "\ufefftime, component, cause, repair\n"
        "2h, host-2, fan, 3d\n"
        '90.5, gpu-000031, "memory, uncorrectable",\n'
        "\n"
        "90.5, domain-1,, 7200\n"
        "0,job,storage,5min\n"
        "1e3,switch-1,cable,\n",
    )
    assert read_trace(path, LAYOUT) == [
        Failure(0.0, "job", 0, "storage", "hardware", 300.0, range(12)),
        Failure(90.5, "gpu", 31, "memory, uncorrectable", "hardware", None, range(7, 8)),
        Failure(90.5, "domain", 1, "unstated", "hardware", 7200.0, range(4, 8)),
        Failure(1000.0, "switch", 1, "cable", "hardware", None, range(8, 12)),
        Failure(7200.0, "host", 2, "fan", "hardware", 259200.0, range(4, 6)),
    ]


def test_timestamps_count_from_the_start_of_the_job(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "time,component\n2024-05-01T12:00:30Z,gpu-0\n2024-05-01 14:00:00+02:00,gpu-1\n"
        "2024-05-01T11:59:59,gpu-2\n2024-05-02,gpu-3\n",
    )
    failures = read_trace(path, LAYOUT, parse_timestamp("2024-05-01T12:00:00"))
    assert [(one.time_s, one.number) for one in failures] == [(0.0, 1), (30.0, 0), (43200.0, 3)]
    with pytest.raises(UserError, match=r"log.csv:2: .*failures.trace_start.*\(and 3 more\)"):
        read_trace(path, LAYOUT)


@st.composite
def failures(draw: st.DrawFn) -> Failure:
    level = draw(st.sampled_from(LEVELS))
    number = draw(st.integers(0, LAYOUT.components(level) - 1))
    seconds = st.floats(0, 1e9)
    cause = draw(st.text(st.characters(codec="utf-8"), max_size=20))
    cause = "".join(filter(str.isprintable, cause)).strip().lstrip("=+-@ ") or "unstated"
    repair_s = draw(st.none() | seconds)
    kind = draw(st.sampled_from(KINDS))
    groups = LAYOUT.groups_of(level, number)
    lasts_s = draw(seconds) if RULES[kind].lasts == "always" else 0.0
    factor = draw(st.floats(1, 1000)) if RULES[kind].factor == "always" else 1.0
    return Failure(draw(seconds), level, number, cause, kind, repair_s, groups, lasts_s, factor)


@given(recorded=st.lists(failures(), min_size=1, max_size=20))
def test_what_is_written_is_read_back(
    recorded: list[Failure], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "round-trip.csv"
    write_trace(recorded, path)
    assert read_trace(path, LAYOUT) == sorted(recorded, key=lambda one: one.time_s)


@pytest.mark.parametrize(
    ("row", "printed"),
    [
        ("soon,gpu-1,", "time 'soon' is no time; write seconds, or 90min or 3h"),
        ("1e99,gpu-1,", "time '1e99' is out of range"),
        ("2024-13-01,gpu-1,", "failures.trace_start"),
        ("3,gpu,", "component 'gpu' is unknown: write gpu-0, nvlink-0, pcie-0, adapter-0"),
        ("3,gpu-48,", "component gpu-48: the job has gpu-0 to gpu-47"),
        ("3,gpu-1,later", "repair 'later' is no time"),
        ("3,gpu-1", "has 2 cells where the header has 3"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_how_many_more(
    row: str, printed: str, tmp_path: Path
) -> None:
    path = written(tmp_path, f"time,component,repair\n1,gpu-1,\n{row}\n{row}\nx,y,z\n")
    with pytest.raises(UserError) as caught:
        read_trace(path, LAYOUT)
    assert f"{path}:3: " in str(caught.value)
    assert printed in str(caught.value)
    assert str(caught.value).endswith("(and 2 more)")


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("time,component\n", "no failure in it"),
        ("time,cause\n1,x\n", "column component is missing"),
        ("time,component,repairs\n", "did you mean 'repair'?"),
        ("time,component,time\n", "column time is stated twice"),
        ('time,component\n1,"gpu-1\n', "no CSV"),
        ("time,component,kind\n1,gpu-1,metal\n", "kind 'metal'"),
        ("time,component,kind,factor\n1,gpu-1,slow,2\n", "of kind slow needs a cell lasts"),
        ("time,component,kind,lasts,factor\n1,gpu-1,slow,1h,0.5\n", "factor '0.5' is invalid"),
    ],
)
def test_what_is_wrong_with_a_trace_as_a_whole(text: str, printed: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        read_trace(written(tmp_path, text), LAYOUT)
    assert printed in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_what_is_no_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (tmp_path, tmp_path / "missing.csv", pipe):
        with pytest.raises(UserError):
            read_trace(path, LAYOUT)


def test_timestamps_without_a_zone_are_in_utc() -> None:
    zone = timezone(timedelta(hours=-7))
    assert parse_timestamp("2024-05-01T05:00-07:00") == datetime(2024, 5, 1, 5, tzinfo=zone)
    assert parse_timestamp("2024-05-01 12:00") == datetime(2024, 5, 1, 12, tzinfo=timezone.utc)


def test_no_trace_is_written_that_could_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    failures = [
        Failure(float(place), "host", 0, f"cause {place}", "hardware", None, range(0))
        for place in range(201)
    ]
    write_trace(failures[1:], path)
    path.unlink()
    with pytest.raises(UserError, match=r"has 201 causes; sum them up to at most 200"):
        write_trace(failures, path)
    assert not path.exists()
