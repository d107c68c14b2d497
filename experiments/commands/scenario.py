"""``faultline scenario``: list, show, check and explain scenarios."""

from __future__ import annotations

import argparse
import json
import re
from importlib.metadata import version
from typing import Any

from faultline.experiments.commands.scenario_arguments import add_scenario
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.reference import find_reference, first_sentence
from faultline.experiments.config.reference_text import explained, overview, reference_page
from faultline.experiments.config.scenario_file import load_scenario, read_source, shipped_scenarios
from faultline.experiments.job.check import check_scenario
from faultline.experiments.job.resolved_keys import ResolvedScenario, resolve_source, scenario_toml
from rich.console import Console
from rich.text import Text

_COMMENT = re.compile(r"(?m)(^|  )# .*$")
_TABLE = re.compile(r"(?m)^\[.*\]$")


def add_parser(commands: Any) -> None:
    """Declare the command, its subcommands and their arguments."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "scenario",
        help="list, show, check and explain scenarios",
        description="Scenarios are TOML files that say what is trained, under which failures, and "
        "by which scheme. docs/scenario-reference.md documents every key.",
    )
    subcommands = parser.add_subparsers(dest="subcommand", required=True, metavar="SUBCOMMAND")
    listing = subcommands.add_parser("list", help="list the scenarios that come with Faultline")
    listing.set_defaults(execute=_list)
    _add_show(subcommands)
    check = subcommands.add_parser(
        "check",
        help="name every mistake of scenario files",
        description="Name every mistake of scenario files, one a line, with its place; the exit "
        "status is 2 if there is any.",
    )
    check.add_argument("files", metavar="FILE", nargs="+", help="a TOML file")
    check.set_defaults(execute=_check)
    explain = subcommands.add_parser(
        "explain",
        help="explain a key or a table: meaning, unit, default, range, choices, source",
        epilog="example: faultline scenario explain failures.clock",
    )
    explain.add_argument(
        "key", metavar="KEY", nargs="?", help="a dotted key, or a table; all tables if left out"
    )
    explain.set_defaults(execute=_explain)
    reference = subcommands.add_parser(
        "reference", help="print the reference of all keys as Markdown"
    )
    reference.set_defaults(execute=_reference)


def _add_show(subcommands: Any) -> None:
    show: argparse.ArgumentParser = subcommands.add_parser(
        "show",
        help="print a scenario with every value filled in, as TOML that can be run",
        description="Print a scenario with every value filled in: defaults, redundancy and "
        "checkpoint interval by the closed forms, what was measured on the platform. It is TOML: "
        "kept in a file of this folder, it gives the same records.",
        epilog="example: faultline scenario show spare-study --set job.groups=600 > mine.toml",
    )
    add_scenario(show)
    show.add_argument("--plain", action="store_true", help="without comments")
    show.add_argument(
        "--all", action="store_true", help="also defaults on which nothing depends here"
    )
    show.add_argument(
        "--json", action="store_true", help="print one JSON object: scenario and origins"
    )
    show.set_defaults(execute=_show)


def execute(arguments: argparse.Namespace) -> int:
    """Run the subcommand."""
    status: int = arguments.execute(arguments)
    return status


def _list(_arguments: argparse.Namespace) -> int:
    names = shipped_scenarios()
    width = max(map(len, names))
    for name in names:
        print(f"{name:{width}}  {first_sentence(load_scenario(name).description)}")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    resolved = resolve_source(read_source(arguments.scenario, arguments.settings))
    if arguments.json:
        print(json.dumps(_as_json(resolved), allow_nan=False))
        return 0
    toml = scenario_toml(resolved, comments=not arguments.plain, everything=arguments.all)
    # Colours on a terminal only, and lines as they are: they are made to be copied.
    text = Text(toml.rstrip("\n"))
    text.highlight_regex(_COMMENT, "dim")
    text.highlight_regex(_TABLE, "bold")
    Console(highlight=False, soft_wrap=True).print(text)
    return 0


def _as_json(resolved: ResolvedScenario) -> dict[str, Any]:
    return {
        "faultline": version("faultline"),
        "scenario": resolved.scenario.model_dump(mode="json"),
        "keys": {
            key.reference.dotted: {
                "value": key.value,
                "unit": key.reference.unit,
                "origin": key.origin,
                "in_force": key.counts,
            }
            for key in resolved.keys.values()
        },
    }


def _check(arguments: argparse.Namespace) -> int:
    wrong = mistakes = 0
    for name in arguments.files:
        lines = check_scenario(name)
        for line in lines or [f"{name}: ok"]:
            print(line)
        wrong += bool(lines)
        mistakes += len(lines)
    if mistakes:
        several = "mistakes" if mistakes > 1 else "mistake"
        files = f"{wrong} of {len(arguments.files)} files" if len(arguments.files) > 1 else "it"
        raise UserError(f"scenario check: {mistakes} {several} in {files}")
    return 0


def _explain(arguments: argparse.Namespace) -> int:
    text = overview() if arguments.key is None else explained(find_reference(arguments.key))
    Console(highlight=False, soft_wrap=True).print(Text(text))
    return 0


def _reference(_arguments: argparse.Namespace) -> int:
    print(reference_page(), end="")
    return 0
