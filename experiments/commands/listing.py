"""``faultline list``: shipped scenarios, clusters, mixes of causes and studies."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from faultline.experiments.analysis.quantities import duration_text
from faultline.experiments.commands.declarations.shared import DRAWN_GPUS
from faultline.experiments.commands.output import print_json, refuse_idle
from faultline.experiments.config.keys import first_sentence
from faultline.experiments.config.mix_file import MixFile, all_mixes
from faultline.experiments.config.scenario_file import load_scenario, shipped_scenarios
from faultline.experiments.studies import all_studies
from faultline.platforms.preset_library import load_preset, preset_names
from faultline.simulator.failures.failure import STOPPING

Row = dict[str, Any]


def execute(arguments: argparse.Namespace) -> None:
    """List things of one kind, or of all, a line each."""
    kind = arguments.kind
    if kind not in (None, "mixes"):
        refuse_idle(arguments, ["gpus"], f"on {kind}")
    found = {
        one: _rows(one, arguments.gpus or DRAWN_GPUS)
        for one in ("scenarios", "clusters", "mixes", "studies")
        if kind in (None, one)
    }
    if arguments.json:
        print_json(found if kind is None else found[kind])
        return
    for one, rows in found.items():
        if kind is None:
            print(f"{one}:")
        width = max(len(row["name"]) for row in rows)
        for row in rows:
            print(f"{row['name']:{width}}  {_sentence(row)}")
        if kind is None:
            print()


def _rows(kind: str, gpus: int) -> list[Row]:
    if kind == "mixes":
        mixes, left_out = all_mixes()
        for line in left_out:
            print(f"faultline: {line}", file=sys.stderr)
        return [_mix(mix, gpus) for mix in mixes]
    if kind == "scenarios":
        known = {name: load_scenario(name).description for name in shipped_scenarios()}
    elif kind == "clusters":
        known = {name: load_preset(name).description for name in preset_names()}
    else:
        known = all_studies()
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
