"""``faultline report``: what the page shows, that it is always the same, and what is refused."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from pathlib import Path

import pandas as pd
import pytest
from faultline.experiments.analysis.selection import caveats
from faultline.experiments.cli import main
from faultline.experiments.config.grid import read_grid
from faultline.experiments.report.page import report_page
from faultline.experiments.report.question import grid_text, notices
from faultline.experiments.runs.sweep_plan import make_plan
from faultline.experiments.runs.table import read_sweep

from tests.experiments.command_line import Cli, in_a_process
from tests.experiments.report.conftest import copy_with_errors, report
from tests.experiments.report.html_reading import Document, read_page

COMMAND = ("report",)


@pytest.fixture(scope="module")
def page(page_file: Path) -> Document:
    return read_page(page_file)


@pytest.fixture(scope="module")
def runs(page_file: Path) -> pd.DataFrame:
    return read_sweep(page_file.parent / "sweep.sqlite").frame


def test_the_page_is_sound_and_loads_nothing_from_the_network(
    page: Document, page_file: Path
) -> None:
    assert page.unclosed == []
    assert len(set(page.identifiers)) == len(page.identifiers)
    assert all(load.startswith(("data:", "#")) for load in page.loads)
    targets = {load[1:] for load in page.loads if load.startswith("#")}
    assert targets <= set(page.identifiers)
    markup = page_file.read_text(encoding="utf-8")
    assert not re.search(r"@import|url\(|<script[^>]+src|<link[^>]+stylesheet", markup)
    assert "default-src 'none'" in markup


def test_the_answer_comes_first(page: Document) -> None:
    assert page.text.index("looks soonest") < page.text.index("The question")
    assert "SPARe + checkpoint looks soonest under 2 of 2 conditions" in page.text


def test_an_axis_that_is_named_is_compared_as_schemes_are(
    swept: Path, tmp_path: Path, cli: Cli
) -> None:
    path = tmp_path / "page.html"
    cli(swept, "--by", "failures.mtbf_s", "--price", "2.5", "-o", path)
    page = read_page(path)
    assert "report sweep.sqlite --by failures.mtbf_s --price 2.5 -o report.html" in page.text
    headings, first, *_ = page.tables["comparison-table"]
    assert "Thousand GPU-hours" in headings
    assert "MTBF of the system" not in headings
    assert "MTBF = 20 min" in first[0]
    message = cli.refused(swept, "--by", "failures.mtbf", "-o", path)
    assert "did you mean 'failures.mtbf_s'?" in message


def test_the_commands_name_the_files_of_schemes(
    page_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULTLINE_SCHEME_FILES", "/somewhere/twin stages.py")
    markup = report_page(read_sweep(page_file.parent / "sweep.sqlite"))
    command = "faultline &#39;--scheme-file=twin stages.py&#39;"
    assert f"{command} sweep grid.toml -o sweep.sqlite\n{command} report sweep.sqlite" in markup


def test_failed_runs_are_listed_with_their_errors(page: Document, runs: pd.DataFrame) -> None:
    headings, *rows = page.tables["failed-table"]
    assert [row[headings.index("Error")] for row in rows] == [
        "took longer than 60 s",
        "took more than 4 GB",
    ]
    assert [row[0] for row in rows] == list(runs.loc[runs["status"] == "failed", "run_id"])
    (printed,) = caveats(runs)
    assert printed in page.text


def test_the_grid_on_the_page_gives_the_very_same_runs(page_file: Path, tmp_path: Path) -> None:
    plan = read_sweep(page_file.parent / "sweep.sqlite").plan
    file = tmp_path / "grid.toml"
    file.write_text(grid_text(plan.grid), encoding="utf-8")
    assert list(make_plan(read_grid(str(file))).stored.runs()) == list(plan.runs())
    assert grid_text(plan.grid) in read_page(page_file).text


@pytest.mark.parametrize(
    ("name", "printed"),
    [("page.pdf", ": name a file that ends in .html or .htm"), ("no-such-folder/page.html", "")],
)
def test_a_file_that_can_be_no_page_is_refused(
    name: str, printed: str, swept: Path, tmp_path: Path, cli: Cli
) -> None:
    message = cli.refused(swept, "-o", tmp_path / name)
    assert message.startswith("faultline")
    assert f"{tmp_path / name}{printed}" in message
    assert not list(tmp_path.iterdir())


def test_one_sweep_one_page(page_file: Path, tmp_path: Path) -> None:
    """In another process, with another hash seed, at another time and under another name."""
    again = tmp_path / "again.html"
    moved = shutil.copy(page_file.parent / "sweep.sqlite", tmp_path / "moved")
    elsewhere = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"}
    in_a_process("report", moved, "-o", again, env=elsewhere, check=True)
    assert again.read_bytes() == page_file.read_bytes()
    assert str(tmp_path) not in again.read_text(encoding="utf-8")


def test_a_sweep_under_way_is_marked(swept: Path, tmp_path: Path) -> None:
    copy = copy_with_errors(swept, tmp_path, {})
    with sqlite3.connect(copy) as connection:
        connection.execute("DELETE FROM runs WHERE rowid % 2 = 0")
    (printed,) = notices(read_sweep(copy))
    assert printed.startswith("This sweep is not finished: 21 of 42 runs are there.")


def test_a_page_reports_that_all_runs_failed(swept: Path, tmp_path: Path) -> None:
    copy = copy_with_errors(swept, tmp_path, dict.fromkeys(range(42), "no memory left"))
    page = read_page(report(copy, tmp_path / "page.html"))
    assert "No answer: all 42 runs failed." in page.text
    assert len(page.tables["failed-table"]) == 43
    assert page.unclosed == []


def test_a_single_run_makes_a_page_beside_its_file(tmp_path: Path, cli: Cli) -> None:
    """Nothing varies and nothing is compared: there is no table without a row."""
    grid = tmp_path / "grid.toml"
    grid.write_text('scenario = "spare-study"\n[set]\n"job.steps" = 20\n', encoding="utf-8")
    sweep = tmp_path / "sweep.sqlite"
    assert main(["sweep", str(grid), "-o", str(sweep), "--workers", "1"]) == 0
    assert cli(sweep).strip() == str(tmp_path / "sweep.html")
    page = read_page(tmp_path / "sweep.html")
    assert "The sweep has no other choice to compare it with." in page.text
    assert all(len(table) > 1 for table in page.tables.values())


def test_what_is_no_sweep_or_has_no_run_yet_is_refused_in_one_line(
    swept: Path, tmp_path: Path, cli: Cli
) -> None:
    page, copy = tmp_path / "page.html", shutil.copy(swept, tmp_path / "copy.sqlite")
    assert f"{tmp_path}: a folder, but" in cli.refused(tmp_path, "-o", page)
    with sqlite3.connect(copy) as connection:
        connection.execute("DELETE FROM runs")
    assert "no run of this sweep has finished yet" in cli.refused(copy, "-o", page)
    assert not page.exists()
