"""Pages are real: their files, their commands and their code work, and print what they promise."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from pathlib import Path

import pytest
from faultline.experiments.cli import main
from faultline.experiments.commands import sweep
from faultline.experiments.config.grid import read_grid
from faultline.experiments.config.mix_file import load_mix
from faultline.experiments.runs.sweep_plan import make_plan
from faultline.platforms.spec_file import parse_spec

from tests.docs.pages import ROOT, Snippet, blocks, commands, page, simulated, words_of
from tests.experiments.runs.in_process import Invented, some_record

pytestmark = pytest.mark.system


def lines_of(name: str, language: str = "sh") -> list[str]:
    return [line for one in blocks(name, language) for line in one.replace("\\\n", "").splitlines()]


SACCT = """\
JobID|State|Start|End|NodeList|FailedNode
17|NODE_FAIL|2024-05-01T01:00:00|2024-05-03T03:00:00|gpu[001-016]|gpu007
17.batch|CANCELLED|2024-05-01T01:00:00|2024-05-03T03:00:00|gpu001|
18|FAILED|2024-05-03T04:30:00|2024-05-03T20:00:00|gpu[001-006,008-017]|
19|COMPLETED|2024-05-03T21:00:00|2024-05-09T12:00:00|gpu[001-016]|
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_failure_models(capsys: pytest.CaptureFixture[str]) -> None:
    name = "failure-models.md"
    (mix,) = blocks(name, "toml")
    Path("our-causes.toml").write_text(mix, encoding="utf-8")
    (trace,) = blocks(name, "csv")
    Path("log.csv").write_text(trace, encoding="utf-8")
    assert simulated(lines_of(name)) == 7
    printed = capsys.readouterr().out
    assert "power-shelf" in printed
    assert "4 failures" in printed
    assert Path("llama3.png").read_bytes().startswith(b"\x89PNG")
    assert Path("llama3.csv").read_text(encoding="utf-8").startswith("time,component,cause")


def test_logs_of_failures(capsys: pytest.CaptureFixture[str]) -> None:
    Path("sacct.txt").write_text(SACCT, encoding="utf-8")
    # LANL's table of failures, LA-UR-05-7318.
    header = "System,nodenum,Prob Started,Prob Fixed,Down Time,Hardware,Network,Software\n"
    row = "20,9,12/31/2001 13:56,12/31/2001 14:41,45,Memory Dimm,,\n"
    Path("lanl.csv").write_text(header + row + row.replace("/31/", "/30/"), encoding="utf-8")
    lines = lines_of("learning-from-a-log.md")
    assert simulated(line for line in lines if line.startswith("faultline failures")) == 4
    printed = capsys.readouterr().out
    assert "2 failures of 512 nodes" in printed
    assert "2 failures of 17 nodes" in printed
    assert load_mix("ours.toml").cause[0].per_1000_node_days is not None


def test_modelling_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "modelling-a-cluster.md"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (spec,) = blocks(name, "toml")
    Path("our-cluster.toml").write_text(spec, encoding="utf-8")
    assert simulated(lines_of(name)) == 8
    printed = capsys.readouterr()
    assert "128 GPUs" in printed.out
    assert "oversubscribed 2:1" in printed.out
    assert "the file matches its spec" in printed.out
    assert Path("our-cluster.png").read_bytes().startswith(b"\x89PNG")


def test_the_error_of_a_cluster_is_the_one_that_comes() -> None:
    (spec,) = blocks("modelling-a-cluster.md", "toml")
    promised = re.search(r"faultline: (our-cluster\.toml:.*)", page("modelling-a-cluster.md"))
    assert promised is not None
    with pytest.raises(ValueError, match=re.escape(promised[1])):
        parse_spec(spec.replace('"400Gbps"', '"400Gb"'), "our-cluster.toml")


@pytest.mark.parametrize(
    "command", [line for line in lines_of("schemes.md", "") if "ntp-32k" in line]
)
def test_nonuniform(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With longer steps, which take less time to run."""
    assert simulated([f"{command} --set times.compute_s=60 --json"]) == 1
    record = json.loads(capsys.readouterr().out)
    assert record["events"] > 0
    assert record["degraded_s"] > 0


PLANNING = lines_of("planning.md")


@pytest.mark.parametrize(
    "command",
    [
        # A cluster of another size than the scenario's is measured and simulated at length.
        pytest.param(one, marks=[pytest.mark.slow] * ("--gpus 100000" in one))
        for one in PLANNING
    ],
)
def test_planning(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulated([command]) == 1
    if command == PLANNING[0]:
        printed = " ".join(capsys.readouterr().out.split())
        assert " ".join(blocks("planning.md", "text")[0].split()) in printed


@pytest.mark.slow
def test_the_readme_shows_rows_of_its_plan(capsys: pytest.CaptureFixture[str]) -> None:
    (plan,) = [one.text for one in commands("faultline") if "--quick   #" in one.text]
    assert main(words_of(Snippet("README.md", "sh", plan))) == 0
    printed = " ".join(capsys.readouterr().out.split())
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = readme.partition("```text\n")[2].partition("Take")[0].splitlines()
    assert len(rows) == 3
    assert [row for row in rows if " ".join(row.split()) not in printed] == []


def test_the_grid_of_sweeps_has_as_many_runs_as_the_page_states() -> None:
    (grid,) = blocks("sweeps.md", "toml")
    Path("grid.toml").write_text(grid, encoding="utf-8")
    plan = make_plan(read_grid("grid.toml")).stored
    stated = re.search(r"these are (\d+) points\s+and (\d+) runs", page("sweeps.md"))
    assert stated is not None
    assert [len(plan.points), plan.count] == [*map(int, stated.groups())]


def test_running(capsys: pytest.CaptureFixture[str]) -> None:
    """The run that the page explains prints the lines that the page shows."""
    (command,) = [line for line in lines_of("running.md", "") if "-o run.png" in line]
    assert simulated([command]) == 1
    (shown,) = blocks("running.md", "text")
    assert shown in capsys.readouterr().out
    assert Path("run.png").read_bytes().startswith(b"\x89PNG")


def test_sweeps(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With invented results: what is simulated is tested elsewhere."""
    invented = Invented(lambda request: {**some_record(request)})
    monkeypatch.setattr(sweep, "open_executor", lambda *_: nullcontext(invented))
    assert simulated(lines_of("sweeps.md"))
