"""What commands print with `--json`, against the schema that `faultline schema` prints."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faultline.experiments.benchmarks.run_speed import matching_cases
from faultline.experiments.commands import machine
from faultline.experiments.commands.arguments import parser
from jsonschema import Draft202012Validator

from tests.experiments.asking import Ask

SERVER = Path(__file__).parents[2] / "platforms" / "imported" / "topo-hgx-h100.txt"
GRID = """\
scenario = "spare-study"
seeds = 2
[set]
job.groups = 12
job.steps = 20
strategy.redundancy = 2
[grid]
strategy.name = ["replication", "spare"]
"""
LOG = "time,node,cause,kind,repair\n" + "".join(
    f"{hour}h,n{hour % 3},{'memory' if hour % 2 else 'bug'},hardware,{hour}min\n"
    for hour in range(1, 20)
)
SMALL = "--set job.groups=12 --set job.steps=20 --set strategy.redundancy=2"
PLAN = "plan spare-study --groups 24 --mtbf 30min --set job.steps=50 --schemes spare,checkpoint"
HASHED = "--set domains=8 --set domains_per_leaf=4 --set spines=4 --groups 4 --seeds 2"

# Later commands of a room read what earlier ones have written.
ASKED = {
    "runs": [
        f"run spare-study {SMALL}",
        "run llama3-70b-hgx --set job.steps=3",
        "explain-recovery head-to-head --schemes spare checkpoint",
        f"{PLAN} --no-simulation",
    ],
    "plan": [f"{PLAN} --verify 1 --seeds 2"],
    "sweep": [
        "sweep grid.toml -o swept --workers 1",
        "compare swept",
        "plot swept --kind schemes",
        f"plot --timeline spare-study {SMALL}",
        "report swept --price 2",
    ],
    "studies": [
        "reproduce list",
        "reproduce recovery -o recovery",
        "head-to-head --quick --only settings --schemes checkpoint -o head",
    ],
    "scenario": [
        "scenario list",
        "scenario show spare-study",
        "scenario check scenario.toml",
        "scenario explain",
        "scenario explain failures.clock",
    ],
    "platform": [
        "platform generate hgx-h100 --set domains=2 -o two.xml",
        "platform check two.xml",
        "platform draw two.xml -o two.svg",
        "platform list",
        "platform diff two.xml two.xml",
        f"platform import {SERVER} -o ours.toml",
        "platform probe two.xml --ranks 16 --bytes 1MB",
        "platform break two.xml --algorithm ring --ranks 8 --bytes 1MB --component gpu-000003",
        f"platform collisions hgx-h100 {HASHED}",
    ],
    "failures": [
        "failures list",
        "failures draw llama3 --days 2",
        "failures import log.csv -o trace.csv",
        "failures fit log.csv",
    ],
    "machine": [
        "new scheme buddies",
        "cluster certificates keys",
        "doctor",
        "doctor --clean",
        "bench --quick",
    ],
}


def commands(whole: Any, above: str = "") -> Iterator[str]:
    """Yield the words of each command that prints JSON."""
    for action in whole._actions:
        if action.dest == "json":
            yield above.strip()
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from commands(inner, f"{above}{name} ")


def command_of(line: str) -> str:
    return next(name for name in COMMANDS if f"{line} ".startswith(f"{name} "))


COMMANDS = list(commands(parser()))


def test_every_command_has_a_form_and_is_asked(ask: Ask) -> None:
    asked = {command_of(line) for lines in ASKED.values() for line in lines}
    schema = json.loads(ask("schema"))
    Draft202012Validator.check_schema(schema)
    assert asked == set(COMMANDS)
    assert set(schema["$defs"]) == {name.replace(" ", "-") for name in COMMANDS}


ROOMS = [pytest.param(room, marks=[pytest.mark.slow] * (room == "studies")) for room in ASKED]


@pytest.mark.parametrize("room", ROOMS)
def test_what_is_printed_is_of_its_commands_form(
    room: str, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if room == "machine":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.setattr(machine, "_cases", matching_cases)
        monkeypatch.setattr(machine, "simgrid_checks", list)
    for name, text in (("grid.toml", GRID), ("log.csv", LOG), ("scenario.toml", "[job]\na = 1")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    schema = json.loads(ask("schema"))
    for line in ASKED[room]:
        name = command_of(line).replace(" ", "-")
        _, out, _ = ask.all(*line.split(), "--json")
        told = json.loads(out)
        of_its_own = {**schema, "$ref": f"#/$defs/{name}"}
        for error in Draft202012Validator(of_its_own).iter_errors(told):
            raise AssertionError(f"{line}: {error.json_path}: {error.message}")
