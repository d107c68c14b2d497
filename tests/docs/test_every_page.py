"""Fenced blocks of pages are real: files are read, commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from faultline.experiments import cli as program
from faultline.experiments.cli import main
from faultline.experiments.config.grid import read_grid
from faultline.experiments.config.keys import schema_keys
from faultline.experiments.config.mix_file import load_mix
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.toml_text import parse_toml
from faultline.experiments.job.check import check_scenario
from faultline.experiments.runs.sweep_plan import make_plan
from faultline.platforms.spec_file import parse_spec
from faultline.platforms.xml_writer import write_xml

from tests.docs.pages import PAGES, ROOT, Snippet, commands, page, snippets, words_of

COMMANDS = list(commands("faultline"))


def place(snippet: Snippet) -> str:
    return f"{snippet.place}-{snippet.text.strip().splitlines()[0][:60]}"


@pytest.mark.parametrize("snippet", list(snippets("toml")), ids=place)
def test_every_file_of_a_page_is_one(snippet: Snippet, tmp_path: Path) -> None:
    path = tmp_path / "shown.toml"
    path.write_text(snippet.text, encoding="utf-8")
    if "our-cluster.xml" in snippet.text:
        (cluster, *_) = (one.text for one in snippets("toml") if "our-cluster.toml" in one.text)
        write_xml(parse_spec(cluster, "our-cluster.toml"), tmp_path / "our-cluster.xml")
    tables, mistakes = parse_toml(snippet.text)
    assert not mistakes
    if "scale_up" in tables:
        assert parse_spec(snippet.text, "shown.toml").gpus > 0
    elif "cause" in tables:
        assert load_mix(str(path)).causes()
    elif "grid" in tables or "cases" in tables:
        assert make_plan(read_grid(str(path))).stored.points
    else:
        assert check_scenario(str(path)) == []


@pytest.mark.parametrize("command", COMMANDS, ids=place)
def test_every_command_of_a_page_is_one(command: Snippet) -> None:
    """The parser accepts its words; other tests run it."""
    assert program.parser().parse_args(words_of(command)).execute


WRITTEN = [path for path in PAGES if path.stem not in ("CHANGELOG", "scenario-reference")]


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.stem)
def test_keys_and_files_that_a_page_names_exist(path: Path) -> None:
    """Keys as `table.key`, files of the code by their paths."""
    text = path.read_text(encoding="utf-8")
    known = {reference.dotted for reference in schema_keys(Scenario).values()}
    tables = {key.partition(".")[0] for key in known}
    keys = set(re.findall(r"`([a-z_]+(?:\.[a-z_-]+)+)\b", text))
    assert {key for key in keys if key.partition(".")[0] in tables} <= known
    for file in re.findall(
        r"`((?:simulator|strategies|experiments|platforms|tests)/[\w/]+\.\w+)", text
    ):
        assert (ROOT / file).is_file(), file


def test_each_published_figure_is_shown_on_a_page() -> None:
    shown = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    figures = (ROOT / "results" / "published").glob("*.png")
    assert [path.name for path in figures if f"results/published/{path.name})" not in shown] == []


# Tests of their pages run the other commands.
RUNS = [
    one
    for one in COMMANDS
    if words_of(one)[0] in ("run", "plot")
    and ".xml" not in one.text
    and "buddies" not in one.text
    and "twin-pairs" not in one.text
    and "results/" not in one.text
    and not one.place.startswith(("failure-models.md", "schemes.md", "planning.md"))
]


@pytest.mark.parametrize("command", RUNS, ids=place)
def test_the_runs_of_a_page_can_be_simulated(
    command: Snippet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = words_of(command)
    steps = 3 if "simgrid" in words else 20
    assert main([*words, "--set", f"job.steps={steps}"]) == 0


NAMED = sorted(set(re.findall(r"`(tests/\S+?)::(\w+)`", page("SECURITY.md"))))


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_a_test_that_a_promise_names_exists(path: str, name: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    assert re.search(rf"^def {name}\(", text, re.MULTILINE)
