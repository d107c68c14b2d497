"""``faultline scenario``: show, check and explain scenarios."""

from __future__ import annotations

import argparse
import json
import re
from itertools import chain
from textwrap import wrap

from faultline.experiments.commands.output import print_json, waiting
from faultline.experiments.config.distribution import own_version
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.keys import schema_keys
from faultline.experiments.config.priors import explained_prior, shipped_priors
from faultline.experiments.config.reference import (
    explained,
    find_reference,
    overview,
    scenario_schema,
)
from faultline.experiments.config.reference_page import reference_page
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import read_source
from faultline.experiments.job.check import check_scenario
from faultline.experiments.job.resolved_keys import resolve_source, scenario_toml
from faultline.experiments.screen import Screen, print_names
from faultline.experiments.streams import print_text
from rich.text import Text

_COMMENT = re.compile(r"(?m)(^|  )# .*$")
_TABLE = re.compile(r"(?m)^\[.*\]$")


def execute_show(arguments: argparse.Namespace) -> None:
    """Print a scenario with every value filled in."""
    with waiting("measuring on the platform"):
        source = read_source(arguments.scenario, arguments.settings)
        source.used_scenario()
        resolved = resolve_source(source)
    if arguments.json:
        keys = {
            key.reference.dotted: {
                "value": key.value,
                "unit": key.reference.unit,
                "origin": key.origin,
                "in_force": key.counts,
            }
            for key in resolved.keys.values()
        }
        scenario = resolved.scenario.model_dump(mode="json")
        print_json({"faultline": own_version(), "scenario": scenario, "keys": keys})
        return
    toml = scenario_toml(resolved, everything=arguments.all)
    console = Screen(soft_wrap=True)
    if console.is_terminal:
        toml = "\n".join(_folded(line, console.width) for line in toml.split("\n"))
    text = Text(toml.rstrip("\n"))
    text.highlight_regex(_COMMENT, "dim")
    text.highlight_regex(_TABLE, "bold")
    console.print(text)


def _folded(line: str, width: int) -> str:
    """Return a line of TOML with its comment over several lines, as wide as a terminal."""
    found = _COMMENT.search(line)
    if len(line) <= width or found is None:
        return line
    # The remark begins at its bracket, behind the name of a key that is not set.
    start, remark = line.index("#", found.start()), line.find("[", found.start())
    column = remark if start < remark < width * 2 // 3 else start + 2
    head, *others = wrap(
        line[column:], width - column, break_long_words=False, break_on_hyphens=False
    )
    further = f"{' ' * start}#".ljust(column)
    return "\n".join([line[:column] + head, *(further + other for other in others)])


def execute_check(arguments: argparse.Namespace) -> None:
    """Print every mistake."""
    with waiting("scenarios, and the platforms they run on"):
        found = {name: check_scenario(name) for name in arguments.file}
    if arguments.json:
        print_json([{"file": name, "mistakes": lines} for name, lines in found.items()])
    else:
        records = (lines or [f"{name}: ok"] for name, lines in found.items())
        console = Screen()
        for line in chain.from_iterable(records):
            console.print(line, soft_wrap=True)
    wrong, mistakes = sum(map(bool, found.values())), sum(map(len, found.values()))
    if mistakes:
        several = "mistakes" if mistakes > 1 else "mistake"
        files = f"{wrong} of {len(arguments.file)} files" if len(arguments.file) > 1 else "it"
        raise UserError(f"scenario check: {mistakes} {several} in {files}")


def execute_explain(arguments: argparse.Namespace) -> None:
    """Explain a key, a table or all keys."""
    if arguments.format is not None:
        if arguments.key is not None:
            raise UserError(f"--format {arguments.format}: prints all keys; leave KEY out")
        as_json = arguments.format == "json-schema"
        text = json.dumps(scenario_schema(), indent=1) if as_json else reference_page()
        print_text(text.rstrip("\n"))
        return
    known = None if arguments.key is None else find_reference(arguments.key)
    if arguments.json:
        path = () if known is None else known.path
        facts = ("meaning", "kind", "unit", "default", "limits", "choices", "source")
        keys = [key for at, key in schema_keys(Scenario).items() if at[: len(path)] == path]
        records = [
            {
                "key": key.dotted,
                **{fact: getattr(key, fact) for fact in facts},
                "prior": prior.model_dump(exclude_none=True)
                if (prior := shipped_priors().get(key.dotted)) is not None
                else None,
            }
            for key in keys
        ]
        print_json(records)
        return
    text = overview() if known is None else explained(known)
    if known is not None and (prior := shipped_priors().get(known.dotted)) is not None:
        text = "\n".join([text, "", *explained_prior(prior)])
    print_names(Screen(), text.split("\n"))
