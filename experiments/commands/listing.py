"""``faultline list``: what is shipped, and the schemes and mixes of plug-ins."""

from __future__ import annotations

import argparse
from typing import Any

from faultline.experiments.analysis.quantities import duration_text
from faultline.experiments.commands.declarations.shared import DRAWN_GPUS, KINDS
from faultline.experiments.commands.output import print_json, refuse_idle
from faultline.experiments.config.grid import grid_descriptions
from faultline.experiments.config.keys import first_sentence
from faultline.experiments.config.mix_file import MixFile, all_mixes
from faultline.experiments.config.scenario_file import load_scenario, shipped_scenarios
from faultline.experiments.screen import Screen, print_names
from faultline.experiments.streams import print_note
from faultline.experiments.studies.catalogue import all_studies
from faultline.platforms.preset_library import load_preset, preset_names
from faultline.simulator.failures.failure import STOPPING
from faultline.strategies.plugins.registry import all_protections, all_strategies

Row = dict[str, Any]


def execute(arguments: argparse.Namespace) -> None:
    """List the names of one kind, or of all, in a line each."""
    if arguments.kind not in (None, "mixes"):
        refuse_idle(arguments, ["gpus"], f"on {arguments.kind}")
    print_list(arguments.kind, arguments.gpus or DRAWN_GPUS, as_json=arguments.json)


def print_list(kind: str | None, gpus: int = DRAWN_GPUS, *, as_json: bool = False) -> None:
    """Print the names of one kind, or of all, with a sentence each."""
    found = {listed: _rows(listed, gpus) for listed in KINDS if kind in (None, listed)}
    if as_json:
        print_json(found if kind is None else found[kind])
        return
    console = Screen()
    for listed, rows in found.items():
        if kind is None:
            console.print(f"{listed}:")
        width = max(len(row["name"]) for row in rows)
        print_names(console, (f"{row['name']:{width}}  {_sentence(row)}" for row in rows))
        if kind is None:
            console.print()


def _rows(kind: str, gpus: int) -> list[Row]:
    if kind == "mixes":
        mixes, left_out = all_mixes()
        for line in left_out:
            print_note(line)
        return [_mix(mix, gpus) for mix in mixes]
    known: dict[str, str] = {
        "scenarios": lambda: {one: load_scenario(one).description for one in shipped_scenarios()},
        "schemes": lambda: {one: cls.summary for one, cls in all_strategies().items()},
        "protections": lambda: {one: cls.summary for one, cls in all_protections().items()},
        "platforms": lambda: {one: load_preset(one).description for one in preset_names()},
        "grids": grid_descriptions,
        "studies": all_studies,
    }[kind]()
    return [{"name": name, "description": text} for name, text in known.items()]


def _sentence(row: Row) -> str:
    text = first_sentence(row["description"])
    if row.get("mtbf_s") is None:
        return text
    rate = f"a failure every {duration_text(row['mtbf_s'])} on {row['gpus']:,} GPUs"
    return f"{rate}, {row['hardware_share']:.0%} hardware: {text}"


def _mix(mix: MixFile, gpus: int) -> Row:
    causes = mix.causes()
    stopping = [cause for cause in causes if cause.kind in STOPPING]
    rate_per_gpu_s = sum(cause.rate_per_gpu_s for cause in stopping)
    hardware = sum(cause.rate_per_gpu_s for cause in stopping if cause.kind == "hardware")
    return {
        "name": mix.name,
        "gpus": gpus,
        "mtbf_s": 1.0 / (rate_per_gpu_s * gpus) if stopping else None,
        "hardware_share": hardware / rate_per_gpu_s if stopping else None,
        "causes": [cause.name for cause in causes],
        "description": mix.description,
        "source": mix.source,
    }
