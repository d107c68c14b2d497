"""``faultline scenario``: list, show, check and explain scenarios."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from faultline.experiments.commands.output import print_json, waiting
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.keys import KeyPath
from faultline.experiments.config.reference import (
    explained,
    find_reference,
    first_sentence,
    overview,
    reference_page,
    scenario_reference,
    scenario_schema,
)
from faultline.experiments.config.scenario_file import load_scenario, read_source, shipped_scenarios
from faultline.experiments.job.check import check_scenario
from faultline.experiments.job.resolved_keys import ResolvedScenario, resolve_source, scenario_toml
from faultline.experiments.screen import Screen
from rich.text import Text

_COMMENT = re.compile(r"(?m)(^|  )# .*$")
_TABLE = re.compile(r"(?m)^\[.*\]$")


def execute_list(arguments: argparse.Namespace) -> int:
    """List what comes with Faultline."""
    names = shipped_scenarios()
    if arguments.json:
        print_json([{"name": one, "description": load_scenario(one).description} for one in names])
        return 0
    width = max(map(len, names))
    for name in names:
        print(f"{name:{width}}  {first_sentence(load_scenario(name).description)}")
    return 0


def execute_show(arguments: argparse.Namespace) -> int:
    """Print a scenario with every value filled in."""
    with waiting("measuring on the platform"):
        resolved = resolve_source(read_source(arguments.scenario, arguments.settings))
    if arguments.json:
        print_json(_as_json(resolved))
        return 0
    toml = scenario_toml(resolved, comments=not arguments.plain, everything=arguments.all)
    # Colours on a terminal only, and lines as they are: they are made to be copied.
    text = Text(toml.rstrip("\n"))
    text.highlight_regex(_COMMENT, "dim")
    text.highlight_regex(_TABLE, "bold")
    Screen(soft_wrap=True).print(text)
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


def execute_check(arguments: argparse.Namespace) -> int:
    """Name every mistake."""
    wrong = mistakes = 0
    with waiting("scenarios, and the platforms they run on"):
        found = {name: check_scenario(name) for name in arguments.file}
    if arguments.json:
        print_json([{"file": name, "mistakes": lines} for name, lines in found.items()])
    for name, lines in found.items():
        for line in [] if arguments.json else lines or [f"{name}: ok"]:
            print(line)
        wrong += bool(lines)
        mistakes += len(lines)
    if mistakes:
        several = "mistakes" if mistakes > 1 else "mistake"
        files = f"{wrong} of {len(arguments.file)} files" if len(arguments.file) > 1 else "it"
        raise UserError(f"scenario check: {mistakes} {several} in {files}")
    return 0


def execute_explain(arguments: argparse.Namespace) -> int:
    """Explain a key or a table."""
    known = None if arguments.key is None else find_reference(arguments.key)
    if arguments.json:
        print_json(list(_keys_as_json(() if known is None else known.path)))
        return 0
    text = overview() if known is None else explained(known)
    Screen(soft_wrap=True).print(Text(text))
    return 0


def _keys_as_json(path: KeyPath) -> Iterator[dict[str, Any]]:
    """Yield what there is to know of a key, or of a table and all below it."""
    facts = ("meaning", "kind", "unit", "default", "limits", "choices", "source")
    for known, key in scenario_reference().items():
        if known[: len(path)] == path:
            yield {"key": key.dotted, **{fact: getattr(key, fact) for fact in facts}}


def execute_schema(_arguments: argparse.Namespace) -> int:
    """Print the JSON Schema of a scenario."""
    print(json.dumps(scenario_schema(), indent=1))
    return 0


def execute_reference(_arguments: argparse.Namespace) -> int:
    """Print the reference of all keys."""
    print(reference_page(), end="")
    return 0
