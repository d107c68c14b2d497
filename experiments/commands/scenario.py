"""``faultline scenario``: show, check and explain scenarios."""

from __future__ import annotations

import argparse
import json
import re
from itertools import chain

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
    # Colours on a terminal only, and unwrapped lines, so that they can be copied.
    text = Text(toml.rstrip("\n"))
    text.highlight_regex(_COMMENT, "dim")
    text.highlight_regex(_TABLE, "bold")
    Screen(soft_wrap=True).print(text)


def execute_check(arguments: argparse.Namespace) -> None:
    """Print every mistake."""
    with waiting("scenarios, and the platforms they run on"):
        found = {name: check_scenario(name) for name in arguments.file}
    if arguments.json:
        print_json([{"file": name, "mistakes": lines} for name, lines in found.items()])
    else:
        records = (lines or [f"{name}: ok"] for name, lines in found.items())
        print_text("\n".join(chain.from_iterable(records)))
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
