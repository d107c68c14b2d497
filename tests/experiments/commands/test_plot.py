"""``faultline plot``: files with pictures, one line for mistakes."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from faultline.experiments.analysis.course import read_timeline, write_timeline
from faultline.experiments.cli import main
from faultline.experiments.config.errors import UserError
from faultline.experiments.figures.sweep_pictures import Wanted, chosen_figure
from faultline.simulator.timeline import Event, EventKind
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.asking import Ask

COMMAND = ("plot",)

GRID = """
scenario = "spare-study"
seeds = 2
[set]
"job.groups" = 24
"job.steps" = 20
"failures.mtbf_s" = 1200.0
[grid]
"strategy.name" = ["replication", "spare"]
"strategy.redundancy" = [2, 3]
"""
SMALL = ["--set", "job.groups=24", "--set", "job.steps=20", "--set", "failures.mtbf_s=1200"]
MAGIC = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


def test_the_usual_pictures_go_into_the_folder_of_the_sweep(directory: Path, ask: Ask) -> None:
    printed = ask(str(directory)).splitlines()
    written = sorted((directory / "figures").iterdir())
    assert {path.name for path in written} == {
        "ratio-over-strategy-redundancy.png",
        "goodput-over-strategy-redundancy.png",
        "schemes.png",
        "badput.png",
    }
    assert sorted(Path(line.partition(": ")[0]) for line in printed) == written
    assert all(path.read_bytes().startswith(MAGIC["png"]) for path in written)


@pytest.mark.parametrize("suffix", MAGIC)
def test_one_picture_in_the_format_asked_for(
    directory: Path, tmp_path: Path, suffix: str, ask: Ask
) -> None:
    asked = ["--kind", "curves", "--metric", "restarts", "--format", suffix, "-o", str(tmp_path)]
    ask(str(directory), *asked)
    (written,) = tmp_path.iterdir()
    assert written.name == f"restarts-over-strategy-redundancy.{suffix}"
    assert written.read_bytes().startswith(MAGIC[suffix])


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["--x", "strategy.redundancy", "--y", "strategy.name"], "ratio-map.png"),
        (["--kind", "schemes", "--x", "strategy.redundancy"], "schemes.png"),
        (["--kind", "badput"], "badput.png"),
    ],
)
def test_other_kinds(
    directory: Path, tmp_path: Path, words: list[str], name: str, ask: Ask
) -> None:
    ask(str(directory), *words, "-o", str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--x", "strategy.redundany"], "did you mean 'strategy.redundancy'?"),
        (["--x", "strategy.name"], "not numbers"),
        (["--metric", "availabilty"], "did you mean 'availability'?"),
        (["--kind", "heat-map"], "--y: the sweep has no other numeric axis"),
        (["--y", "strategy.name", "--x", "strategy.name"], "different axes"),
        (["--kind", "best-map", "--x", "strategy.name", "--y", "strategy.redundancy",
          "--by", "strategy.redundancy"], "three different axes"),
        # Places that cannot be written.
        (["-o", __file__], __file__),
        (["--kind", "best-map", "--metric", "failures", "--x", "strategy.redundancy", "--y",
          "strategy.name"], "neither higher nor lower"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_told_in_one_line(
    directory: Path, words: list[str], said: str, ask: Ask
) -> None:
    assert said in ask.refused(str(directory), *words)


def test_a_source_is_needed(ask: Ask) -> None:
    assert "SOURCE" in ask.refused()


def test_so_many_parts_that_nobody_could_read_them_are_refused() -> None:
    frame = pd.DataFrame({"failures.mtbf_s": [float(mtbf_s) for mtbf_s in range(1, 200)]})
    frame = frame.assign(status="ok", seed=0, time_to_train_ratio=2.0, strategy="spare")
    for wanted in (
        Wanted(kind="badput", x="failures.mtbf_s"),
        Wanted(x="failures.mtbf_s", by="failures.mtbf_s"),
        Wanted(kind="schemes", x="failures.mtbf_s", by="failures.mtbf_s"),
    ):
        with pytest.raises(UserError, match="at most"):
            chosen_figure(frame, wanted)


@pytest.fixture
def timeline(tmp_path: Path) -> Path:
    path = tmp_path / "run.csv"
    assert main(["run", "spare-study", *SMALL, "--timeline", str(path)]) == 0
    return path


def test_a_title_can_be_left_to_the_caption(timeline: Path, tmp_path: Path, ask: Ask) -> None:
    titled, bare = tmp_path / "titled.svg", tmp_path / "bare.svg"
    ask(str(timeline), "-o", str(titled))
    ask(str(timeline), "-o", str(bare), "--no-title")
    assert len(bare.read_bytes()) < len(titled.read_bytes())


def test_a_timeline_is_drawn_beside_its_file(timeline: Path, tmp_path: Path, ask: Ask) -> None:
    ask(str(timeline))
    assert (tmp_path / "run.png").read_bytes().startswith(MAGIC["png"])
    assert "--kind: has no effect" in ask.refused(str(timeline), "--kind", "badput")
    odd = str(tmp_path / "run.odd")
    assert "ends in .png" in ask.refused(str(timeline), "-o", odd)


events = st.builds(
    Event,
    st.floats(0, 1e9),
    st.sampled_from(EventKind),
    st.integers(0, 10**6),
    st.lists(st.integers(0, 10**5), max_size=4).map(tuple),
    st.integers(0, 9),
    st.integers(0, 99),
)


@given(history=st.lists(events, min_size=1, max_size=8), kind=st.sampled_from([".csv", ".parquet"]))
def test_what_is_written_is_what_is_read(
    history: list[Event], kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("timeline") / f"run{kind}"
    write_timeline(history, path, {})
    assert read_timeline(path) == history


HEAD = "time_s,kind,step,groups,stacks,moved_types,recovery\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "first line"),
        (b"a,b,c\n1,2,3\n", "first line"),
        (b"\xff\xfe\x00", "not UTF-8 text"),
        (HEAD.encode(), "has no event"),
        (f"{HEAD}1.0,step,1,,1,0,\n2.0,stop,1,,1,0,\n".encode(), "line 3: this is no event"),
        (f"{HEAD}1.0,step,1\n".encode(), "line 2: this is no event"),
        (f"{HEAD}nan,step,1,,1,0,\n".encode(), "line 2: nan is no time"),
        (f"{HEAD}-1,step,1,,1,0,\n".encode(), "line 2: -1 is no time"),
    ],
)
def test_what_is_no_timeline_is_refused(text: bytes, said: str, tmp_path: Path, ask: Ask) -> None:
    path = tmp_path / "run.csv"
    path.write_bytes(text)
    assert said in ask.refused(str(path))
