"""``faultline platform``: generate, check, draw, compare and import platform files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tomlkit
from faultline.experiments.analysis.platform_phases import PhaseChange, compare_platforms
from faultline.experiments.analysis.printing import text_table
from faultline.experiments.analysis.quantities import counted, rate_text
from faultline.experiments.commands.declarations.shared import PLOT_FORMATS
from faultline.experiments.commands.output import (
    explained,
    print_files,
    print_json,
    waiting,
)
from faultline.experiments.config.errors import UserError
from faultline.experiments.screen import Screen
from faultline.platforms.errors import nearest
from faultline.platforms.files import read_text, write_file
from faultline.platforms.preset_library import load_preset, preset_names
from faultline.platforms.simgrid_check import check_report
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.spec_file import load_spec, parse_spec, read_settings
from faultline.platforms.topology import rail_plane
from faultline.platforms.topology_import import (
    READS,
    imported_spec,
    read_matrix,
    read_nccl_topology,
    read_switches,
)
from faultline.platforms.units import TIME, format_quantity
from faultline.platforms.xml_reader import LARGEST_BYTES, read_platform
from faultline.platforms.xml_writer import write_xml
from rich.box import SIMPLE_HEAD

_EFFECTS = {
    "network": "these count for the steps of a [model], measured all-reduce, checkpoint and load, "
    "and state in host memory:",
    "scale-up": "these count for the tensor parallelism of a [model], and where groups share them:",
    "compute": "these count for the compute of a [model]; times.compute_s holds on any GPU:",
    "memory": "these count for state in host memory:",
    "none": "these change no time of a run:",
}
_SPEC_ONLY = (
    "what memory holds, and without host.doors its bandwidth, are those of the spec in the file"
)


def execute_generate(arguments: argparse.Namespace) -> None:
    """Write the XML of a spec."""
    spec = _spec(arguments.spec, read_settings(arguments.settings))
    if arguments.plane:
        spec = rail_plane(spec)
    with waiting("writing"):
        write_xml(spec, arguments.output)
    stands = f", each standing for {spec.gpus_per_rank:,}" if spec.plane else ""
    print_files(arguments, {arguments.output: f"{arguments.output}: {spec.gpus:,} GPUs{stands}"})


def _spec(name: str, overrides: dict[str, object]) -> ClusterSpec:
    if name in preset_names():
        return load_preset(name, **overrides)
    if not Path(name).exists():
        raise UserError(
            f"{name}: no such file{nearest(name, preset_names())}; name a TOML file or a shipped "
            f"cluster ({', '.join(preset_names())})"
        )
    return load_spec(name, overrides)


def execute_check(arguments: argparse.Namespace) -> None:
    """Print the contents of a platform, or its mistakes."""
    with waiting("loading it in SimGrid"):
        report = check_report(arguments.file)
    if arguments.json:
        print_json(report)
        return
    columns = ({"style": "bold", "no_wrap": True}, {"overflow": "fold"})
    look = {"title": report["file"], "show_header": False, "box": None}
    Screen().print(text_table(_report_rows(report), columns, **look))


def execute_draw(arguments: argparse.Namespace) -> None:
    """Draw a topology."""
    # Importing Matplotlib takes a second: only a command that draws imports it.
    from faultline.experiments.figures.platform_drawing import draw_platform

    if arguments.output.suffix.lower().removeprefix(".") not in PLOT_FORMATS:
        raise UserError(
            f"-o {arguments.output}: name a file that ends in .{', .'.join(PLOT_FORMATS)}"
        )
    try:
        with waiting("drawing"):
            draw_platform(read_platform(arguments.file), arguments.output)
    except OSError as error:
        raise UserError(f"-o {arguments.output}: cannot be written: {error.strerror}") from error
    print_files(arguments, {arguments.output: str(arguments.output)})


def _report_rows(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    plane, width = report["gpus_per_rank"], report["bisection"]
    racks = f", {counted(report['racks'], 'rack')}" if report["racks"] else ""
    yield (
        "GPUs",
        f"{report['gpus']:,} in {counted(report['domains'], 'scale-up domain')}, "
        f"{counted(report['hosts'], 'host')}{racks}"
        + (f"; each stands for {plane:,}" if plane > 1 else ""),
    )
    yield "switches", ", ".join(f"{count:,} {kind}" for kind, count in report["switches"].items())
    for name, links in report["links"].items():
        rates = _between(links["bandwidth_bytes_per_s"], rate_text)
        delays = _between(
            links["latency_s"], lambda delay_s: format_quantity(float(f"{delay_s:.4g}"), TIME)
        )
        yield f"link {name}", f"{links['count']:,} of {rates}, {delays}"
    for layer in report["layers"]:
        if layer["oversubscription"]:
            ratio = _between(layer["oversubscription"], lambda value: f"{value:.4g}:1")
            down, up = rate_text(layer["down_bytes_per_s"]), rate_text(layer["up_bytes_per_s"])
            yield f"layer {layer['name']}", f"oversubscribed {ratio}: {down} down, {up} up"
    if width:
        yield (
            "bisection",
            f"{rate_text(width['bandwidth_bytes_per_s'])} each way between the halves of the "
            f"domains, {width['of_full']:.4g} of their adapters",
        )
    else:
        yield "bisection", "none: there is one domain"
    if report["flow_routes"]:
        yield "routing", f"{report['flow_routes']:,} pairs of hosts keep to one spine each"
    yield "storage", _storage_text(report["storage"])
    yield "SimGrid", f"loads its {report['simgrid_hosts']:,} hosts"
    yield from _difference_rows(report["differs_from_spec"])


def _storage_text(storage: dict[str, float | None] | None) -> str:
    if storage is None:
        return "none"
    read, write = storage["read_bytes_per_s"] or 0.0, storage["write_bytes_per_s"] or 0.0
    client = storage["client_bytes_per_s"]
    limit = f", {rate_text(client)} per client" if client else ""
    return f"reads {rate_text(read)}, writes {rate_text(write)}{limit}"


def _difference_rows(differences: list[dict[str, str]] | None) -> Iterator[tuple[str, str]]:
    if differences is None:
        yield "spec", "the file keeps none: its links are all there is"
    elif not differences:
        yield "spec", "the file is as its spec says"
    else:
        yield "spec", "the file was edited"
        for effect, meaning in _EFFECTS.items():
            texts = [one["text"] for one in differences if one["effect"] == effect]
            if texts:
                yield from (("", meaning), *(("", f"  {text}") for text in texts))
        yield "", _SPEC_ONLY


def _between(ends: list[float], write: Any) -> str:
    low, high = (write(end) for end in ends)
    return str(low) if low == high else f"{low} to {high}"


def execute_diff(arguments: argparse.Namespace) -> None:
    """Print which phases of a job differ on two platforms."""
    if arguments.settings and arguments.scenario is None:
        raise UserError("--set: has no effect without SCENARIO; add that, or leave it out")
    with waiting("timing both platforms"):
        edit = compare_platforms(arguments.a, arguments.b, arguments.scenario, arguments.settings)
    if arguments.json:
        phases = [{**asdict(one), "change": one.change} for one in edit.phases]
        differences = [one._asdict() for one in edit.differences]
        name = edit.scenario.name
        print_json({"scenario": name, "phases": phases, "differences": differences})
        return
    console = Screen()
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
        console.print("The files have the same contents.")


def _cells(one: PhaseChange) -> tuple[str, ...]:
    change = f"{one.change:+.1%}" if one.change else "none"
    return one.phase, f"{one.before_s:.4g} s", f"{one.after_s:.4g} s", change, one.source


def execute_import(arguments: argparse.Namespace) -> None:
    """Make a spec from a server's topology."""
    with explained(arguments.file, f"name a file; {READS}"):
        text = read_text(arguments.file, LARGEST_BYTES)
    if arguments.file.suffix.lower() == ".xml":
        server = read_nccl_topology(text.encode(), str(arguments.file))
    else:
        server = read_matrix(text, str(arguments.file))
    switches = None if arguments.switches is None else read_switches(arguments.switches)
    where = str(arguments.file if switches is None else arguments.switches)
    like = arguments.like or "hgx-h100"
    spec = imported_spec(server, switches, like, where)
    text = tomlkit.dumps(spec.as_mapping())
    parse_spec(text, f"{where}: makes no spec that can be read again")
    with explained(arguments.output, "choose another -o FILE"):
        write_file(arguments.output, text)
    line = (
        f"{arguments.output}: a spec of {spec.gpus:,} GPUs; what is not in these files is that of "
        f"{like}: look at it, then faultline platform generate {arguments.output}"
    )
    print_files(arguments, {arguments.output: line})
