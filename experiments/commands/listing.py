"""``faultline list``: the scenarios, clusters, mixes of causes and studies that there are."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from faultline.experiments.analysis.printing import text_table
from faultline.experiments.analysis.quantities import duration_text
from faultline.experiments.commands.declarations.shared import DRAWN_GPUS
from faultline.experiments.commands.output import print_json, refuse_idle
from faultline.experiments.config.mix_file import MixFile, all_mixes
from faultline.experiments.config.reference import first_sentence
from faultline.experiments.config.scenario_file import load_scenario, shipped_scenarios
from faultline.experiments.screen import Screen
from faultline.experiments.studies import all_studies
from faultline.platforms.preset_library import load_preset, preset_names
from faultline.simulator.failures.failure import STOPPING

_DESCRIBED = {
    "scenarios": lambda: {name: load_scenario(name).description for name in shipped_scenarios()},
    "clusters": lambda: {name: load_preset(name).description for name in preset_names()},
    "studies": all_studies,
}


def execute(arguments: argparse.Namespace) -> None:
    """List things of one kind, or of all."""
    kind = arguments.kind
    if kind not in (None, "mixes"):
        refuse_idle(arguments, ["gpus"], f"on {kind}")
    kinds = ["scenarios", "clusters", "mixes", "studies"] if kind is None else [kind]
    gpus = arguments.gpus or DRAWN_GPUS
    found = {one: _mixes(gpus) if one == "mixes" else _described(one) for one in kinds}
    if arguments.json:
        print_json(found if kind is None else found[kind])
        return
    for one, rows in found.items():
        headings = (
            (one, "") if one != "mixes" else (one, f"a failure on {gpus:,} GPUs", "hardware", "")
        )
        columns = [{"header": heading} for heading in headings]
        columns[0]["style"] = "bold"
        Screen().print(text_table(map(_cells, rows), columns, box=None, pad_edge=False))
        if kind is None and one != kinds[-1]:
            print()


def _described(kind: str) -> list[dict[str, Any]]:
    return [{"name": name, "description": text} for name, text in _DESCRIBED[kind]().items()]


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    numbers: tuple[str, ...] = ()
    if "mtbf_s" in row:
        stops = row["mtbf_s"] is not None
        numbers = (
            (f"every {duration_text(row['mtbf_s'])}", f"{row['hardware_share']:.0%}")
            if stops
            else ("none", "")
        )
    return (row["name"], *numbers, first_sentence(row["description"]))


def _mixes(gpus: int) -> list[dict[str, Any]]:
    mixes, left_out = all_mixes()
    for line in left_out:
        print(f"faultline: {line}", file=sys.stderr)
    return [_mix(mix, gpus) for mix in mixes]


def _mix(mix: MixFile, gpus: int) -> dict[str, Any]:
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
