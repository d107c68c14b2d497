"""``faultline list``, ``new-scheme`` and ``doctor``: what is shipped, plug-ins, this machine."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from faultline.experiments.analysis.printing import text_table
from faultline.experiments.analysis.quantities import duration_text
from faultline.experiments.commands.declarations.shared import DRAWN_GPUS
from faultline.experiments.commands.output import print_files, print_json, refuse_idle
from faultline.experiments.config.keys import first_sentence
from faultline.experiments.config.mix_file import MixFile, all_mixes
from faultline.experiments.config.scenario_file import load_scenario, shipped_scenarios
from faultline.experiments.health import limit_checks, simgrid_checks, version_checks
from faultline.experiments.plugins.scheme_package import write_scheme_package
from faultline.experiments.screen import Screen
from faultline.experiments.streams import print_note, print_text
from faultline.experiments.studies.catalogue import all_studies
from faultline.platforms.preset_library import load_preset, preset_names
from faultline.simulator.failures.failure import STOPPING
from rich.text import Text

Row = dict[str, Any]
_STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red"}


def execute_list(arguments: argparse.Namespace) -> None:
    """List the names of one kind, or of all, in a line each."""
    kind = arguments.kind
    if kind not in (None, "mixes"):
        refuse_idle(arguments, ["gpus"], f"on {kind}")
    found = {
        listed: _rows(listed, arguments.gpus or DRAWN_GPUS)
        for listed in ("scenarios", "clusters", "mixes", "studies")
        if kind in (None, listed)
    }
    if arguments.json:
        print_json(found if kind is None else found[kind])
        return
    console = Screen()
    for listed, rows in found.items():
        if kind is None:
            console.print(f"{listed}:")
        width = max(len(row["name"]) for row in rows)
        for row in rows:
            console.print(f"{row['name']:{width}}  {_sentence(row)}", soft_wrap=True)
        if kind is None:
            console.print()


def _rows(kind: str, gpus: int) -> list[Row]:
    if kind == "mixes":
        mixes, left_out = all_mixes()
        for line in left_out:
            print_note(line)
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


def execute_new_scheme(arguments: argparse.Namespace) -> None:
    """Write a package with a scheme."""
    folder: Path = arguments.output or Path(arguments.name)
    written = write_scheme_package(arguments.name, folder)
    print_files(arguments, {path: str(path) for path in written})
    if arguments.json:
        return
    # Another Python may lack Faultline, or have another package of that name.
    here = shlex.quote(sys.executable)
    print_text(f"next:   {here} -m pip install -e {shlex.quote(f'{folder}[test]')}")
    print_text(f"        {here} -m pytest -s {shlex.quote(str(folder))}")
    print_text(f"        faultline run spare-sound --set strategy.name={arguments.name} \\")
    print_text("            --set job.groups=24 --set job.steps=200")


def execute_doctor(arguments: argparse.Namespace) -> int:
    """Run the command; 1 if a check failed."""
    checks = [*version_checks(), *limit_checks(), *simgrid_checks()]
    failed = sum(check.state == "failed" for check in checks)
    if arguments.json:
        print_json({"ok": failed == 0, "checks": [asdict(check) for check in checks]})
        return 1 if failed else 0
    console = Screen()
    for section, members in groupby(checks, key=lambda check: check.section):
        rows = (
            (check.what, check.value, Text(check.state, _STYLES[check.state]), check.meaning)
            for check in members
        )
        styles = [{"style": style} for style in ("bold", None, None, "dim")]
        console.print(text_table(rows, styles, title=section, show_header=False))
    if failed:
        console.print(f"{failed} check{'s' if failed > 1 else ''} failed.", style="bold red")
    else:
        console.print("All is well.", style="green")
    return 1 if failed else 0
