"""`faultline failures import` and `failures fit`, as people call them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from faultline.experiments.cli import main

LOG = "time,node,cause,kind,repair\n" + "".join(
    f"{hour}h,n{hour % 7},{'memory' if hour % 3 else 'bug'},"
    f"{'hardware' if hour % 3 else 'software'},{hour}min\n"
    for hour in range(1, 60)
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(LOG, encoding="utf-8")
    return path


def test_a_log_is_imported_and_played(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.csv"
    asked = ["failures", "import", str(log), "--nodes", "16", "-o", str(trace)]
    assert main([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["failures"], told["nodes"], told["nodes_in_order"][0]) == (59, 16, "n0")
    assert main(asked) == 0
    assert "--set job.gpus=128" in capsys.readouterr().out
    assert main(["failures", "draw", str(trace), "--gpus", "128", "--days", "3", "--json"]) == 0
    drawing = json.loads(capsys.readouterr().out)
    assert (drawing["process"], drawing["failures"]) == ("trace", 59)


def test_a_log_is_fitted(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mix, figure = tmp_path / "ours.toml", tmp_path / "fit.png"
    asked = ["failures", "fit", str(log), "--nodes", "16", "--span", "3d"]
    assert main([*asked, "--mix", str(mix), "-o", str(figure)]) == 0
    out = capsys.readouterr().out
    assert "59 failures of 16 nodes in 3 d" in out
    assert figure.is_file()
    assert main([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    memory = next(cause for cause in told["causes"] if cause["name"] == "memory")
    assert memory["failures"] == 40
    assert memory["per_1000_node_days"]["value"] == pytest.approx(40 / (16 * 3) * 1000)
    assert main(["failures", "draw", str(mix), "--days", "3"]) == 0


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["failures", "fit", "{log}", "--nodes", "3"], "--nodes 3: "),
        (["failures", "fit", "{log}", "-o", "{folder}/fit.nothing"], "-o "),
        (["failures", "fit", "{log}", "--mix", "{folder}/no/mix.toml"], "--mix "),
        (["failures", "import", "{log}", "-o", "{folder}"], "-o "),
        (
            ["failures", "import", "{folder}", "-o", "x.csv"],
            "a folder, and no regular file; name a log",
        ),
    ],
)
def test_what_cannot_be_done_is_told_in_a_line(
    asked: list[str], said: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([one.format(log=log, folder=tmp_path) for one in asked]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert len(told.strip().splitlines()) == 1
