"""``faultline platform diff`` and ``import``: what an edit changes; platforms from elsewhere."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

import tomlkit
from faultline.experiments.analysis.platform_phases import Edit, PhaseChange, compare_platforms
from faultline.experiments.analysis.printing import text_table
from faultline.experiments.commands.output import explained, print_files, print_json, waiting
from faultline.experiments.config.errors import UserError
from faultline.experiments.screen import screen_as_wide_as
from faultline.platforms.files import write_file
from faultline.platforms.graph_import import graph_xml, read_graph
from faultline.platforms.topology_import import imported_spec, read_matrix, read_switches
from faultline.platforms.xml_writer import write_text
from rich.box import SIMPLE_HEAD

_GRAPHS = {".json", ".graphml"}


def execute_diff(arguments: argparse.Namespace) -> int:
    """Say which phases of a job differ on two platforms."""
    with waiting("timing both platforms"):
        edit = compare_platforms(arguments.a, arguments.b, arguments.scenario, arguments.settings)
    if arguments.json:
        phases = [{**asdict(one), "change": one.change} for one in edit.phases]
        differences = [one._asdict() for one in edit.differences]
        told = {"scenario": edit.scenario.name, "phases": phases, "differences": differences}
        print_json(told)
    else:
        _print(edit, arguments)
    return 0


def _print(edit: Edit, arguments: argparse.Namespace) -> None:
    console = screen_as_wide_as(110)
    groups = edit.scenario.job.groups
    headings = ("phase", Path(arguments.a).name, Path(arguments.b).name, "change", "")
    columns = [
        {"header": heading, "justify": "left" if place in (0, 4) else "right", "no_wrap": True}
        for place, heading in enumerate(headings)
    ]
    title = f"{edit.scenario.name}: {groups:,} groups of {edit.scenario.job.gpus_of_group:,} GPUs"
    look = {"title": title, "title_style": "bold", "box": SIMPLE_HEAD, "pad_edge": False}
    console.print(text_table((_cells(one) for one in edit.phases), columns, **look))
    if not any(one.change for one in edit.phases):
        console.print("No phase of this job changes.", style="bold")
    for difference in edit.differences:
        console.print(f"- {difference.text}", soft_wrap=True)
    if not edit.differences:
        console.print("The files say the same.")


def _cells(one: PhaseChange) -> tuple[str, ...]:
    change = f"{one.change:+.1%}" if one.change else "none"
    return one.phase, f"{one.before_s:.4g} s", f"{one.after_s:.4g} s", change, one.source


def execute_import(arguments: argparse.Namespace) -> int:
    """Make a platform, or a spec."""
    if arguments.file.suffix.lower() in _GRAPHS:
        if arguments.switches is not None:
            raise UserError("--switches: a graph says itself what is plugged in; leave it out")
        text = graph_xml(read_graph(arguments.file), str(arguments.file))
        write_text(text, arguments.output)
        told = f"{arguments.output}: a platform; faultline platform check {arguments.output}"
        print_files(arguments, {arguments.output: told})
        return 0
    with explained(arguments.file, "name a graph, or what nvidia-smi topo -m prints"):
        text = arguments.file.read_text(encoding="utf-8", errors="replace")
    server = read_matrix(text, str(arguments.file))
    switches = None if arguments.switches is None else read_switches(arguments.switches)
    where = str(arguments.file if switches is None else arguments.switches)
    spec = imported_spec(server, switches, arguments.like, where)
    with explained(arguments.output, "choose another -o FILE"):
        write_file(arguments.output, tomlkit.dumps(spec.as_mapping()))
    told = (
        f"{arguments.output}: a spec of {spec.gpus:,} GPUs; what is not in these files is that of "
        f"{arguments.like}: look at it, then faultline platform generate {arguments.output}"
    )
    print_files(arguments, {arguments.output: told})
    return 0
