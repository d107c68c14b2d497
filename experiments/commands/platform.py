"""``faultline platform``: generate, check, draw, compare, import and probe platforms."""

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
from faultline.experiments.commands.output import (
    explained,
    pairs_table,
    print_files,
    print_json,
    waiting,
    write_output,
)
from faultline.experiments.config.cluster import cluster_file, naming_gpus
from faultline.experiments.config.errors import UserError
from faultline.experiments.job.platform_files import explaining_aborts, generate_preset
from faultline.experiments.screen import Screen
from faultline.experiments.streams import print_note
from faultline.platforms.cache_folder import cache_directory
from faultline.platforms.errors import nearest
from faultline.platforms.files import read_text
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
from faultline.platforms.units import BANDWIDTH, SIZE, TIME, format_quantity
from faultline.platforms.xml_reader import LARGEST_BYTES, read_platform
from faultline.platforms.xml_writer import write_xml
from faultline.simulator.collectives.algorithms import ALGORITHMS, CollectiveError
from faultline.simulator.timing.collective_probe import SMALLEST_CHECKED_BYTES, probe_collective
from rich.box import SIMPLE_HEAD

_EFFECTS = {
    "network": "these affect the steps of a [model], a measured all-reduce, checkpoint and load, "
    "and state in host memory:",
    "scale-up": "these affect the tensor parallelism of a [model], and groups that share them:",
    "compute": "these affect the compute of a [model]; times.compute_s is the same on any GPU:",
    "memory": "these affect state in host memory:",
    "none": "these change no time of a run:",
}
_MOST_BYTES = 1e18
"""SimGrid counts bytes in 64 bits."""
_SPEC_ONLY = (
    "sizes of memory, and without host.doors its bandwidth, are those of the spec in the file"
)


def execute_generate(arguments: argparse.Namespace) -> None:
    """Write the XML of a spec."""
    spec = _spec(arguments.spec, read_settings(arguments.settings))
    if arguments.plane:
        spec = rail_plane(spec)
    with waiting("writing"):
        write_xml(spec, arguments.output)
    each = f", each representing {spec.gpus_per_rank:,}" if spec.plane else ""
    print_files(arguments, {arguments.output: f"{arguments.output}: {spec.gpus:,} GPUs{each}"})


def _spec(name: str, overrides: dict[str, object]) -> ClusterSpec:
    if name in preset_names():
        return load_preset(name, **overrides)
    if not Path(name).exists():
        raise UserError(
            f"{name}: no such file{nearest(name, preset_names())}; name a TOML file or a shipped "
            f"cluster ({', '.join(preset_names())})"
        )
    return load_spec(name, overrides)


def _check_is_file(path: Path) -> None:
    if str(path) in preset_names() and not path.exists():
        raise UserError(
            f"{path}: a shipped cluster, no file; write one: faultline platform generate {path} "
            f"-o {path}.xml"
        )


def execute_check(arguments: argparse.Namespace) -> None:
    """Print the contents of a platform, or its mistakes."""
    _check_is_file(arguments.file)
    with waiting("loading it in SimGrid"):
        report = check_report(arguments.file, arguments.gpu_hosts)
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

    _check_is_file(arguments.file)
    platform = read_platform(arguments.file, arguments.gpu_hosts)
    with explained(f"-o {arguments.output}", "name a file that can be written"), waiting("drawing"):
        draw_platform(platform, arguments.output)
    print_files(arguments, {arguments.output: str(arguments.output)})


def _report_rows(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    plane, width = report["gpus_per_rank"], report["bisection"]
    racks = f", {counted(report['racks'], 'rack')}" if report["racks"] else ""
    gpus = (
        f"{report['gpus']:,} in {counted(report['domains'], 'scale-up domain')}, "
        f"{counted(report['hosts'], 'host')}{racks}"
        + (f"; each represents {plane:,}" if plane > 1 else "")
    )
    yield "GPUs", gpus if report["gpus"] else "none: name their hosts by --gpu-hosts PATTERN"
    if report["switches"]:
        yield (
            "switches",
            ", ".join(f"{count:,} {kind}" for kind, count in report["switches"].items()),
        )
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
    elif report["domains"] == 1:
        yield "bisection", "none: there is one domain"
    if report["is_foreign"]:
        yield "routing", "as SimGrid routes; switches and cables are unknown"
    elif report["flow_routes"]:
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
        yield "spec", "none: the links of the file alone describe the platform"
    elif not differences:
        yield "spec", "the file matches its spec"
    else:
        yield "spec", "the file was edited"
        for effect, meaning in _EFFECTS.items():
            texts = [change["text"] for change in differences if change["effect"] == effect]
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
        phases = [{**asdict(phase), "change": phase.change} for phase in edit.phases]
        differences = [difference._asdict() for difference in edit.differences]
        name = edit.scenario.name
        reasons = list(edit.reasons)
        print_json(
            {"scenario": name, "phases": phases, "reasons": reasons, "differences": differences}
        )
        return
    console = Screen()
    groups = edit.scenario.job.groups
    headings = ("phase", Path(arguments.a).name, Path(arguments.b).name, "change", "")
    columns = [
        {"header": heading, "justify": "left" if place in (0, 4) else "right", "no_wrap": place > 0}
        for place, heading in enumerate(headings)
    ]
    title = f"{edit.scenario.name}: {groups:,} groups of {edit.scenario.job.gpus_of_group:,} GPUs"
    look = {"title": title, "title_style": "bold", "box": SIMPLE_HEAD, "pad_edge": False}
    console.print(text_table(map(_cells, edit.phases), columns, **look))
    if not any(phase.change for phase in edit.phases):
        why = ", because" if edit.reasons else "."
        console.print(f"No phase of this job changes{why}", style="bold")
        for reason in edit.reasons:
            console.print(f"- {reason}", soft_wrap=True)
        if edit.reasons:
            console.print("The files differ:")
    for difference in edit.differences:
        console.print(f"- {difference.text}", soft_wrap=True)
    if not edit.differences:
        console.print("The files have the same contents.")


def _cells(phase: PhaseChange) -> tuple[str, ...]:
    change = f"{phase.change:+.1%}" if phase.change else "none"
    if phase.change == float("inf"):
        change = "new"
    return phase.phase, _seconds(phase.before_s), _seconds(phase.after_s), change, phase.source


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
    imported = imported_spec(server, switches, arguments.like, where)
    spec, like = imported.spec, imported.like
    text = tomlkit.dumps(spec.as_mapping())
    parse_spec(text, f"{where}: makes no spec that can be read again")
    write_output("-o", arguments.output, text)
    line = (
        f"{arguments.output}: a spec of {spec.gpus:,} GPUs; values that are not in these files are "
        f"those of {like}: check them, then faultline platform generate {arguments.output}"
    )
    for note in imported.notes:
        print_note(f"{arguments.file}: {note}")
    print_files(arguments, {arguments.output: line})


def execute_probe(arguments: argparse.Namespace) -> None:
    """Measure a collective on an idle platform."""
    if arguments.file in ALGORITHMS:
        raise UserError(
            f"{arguments.file}: a collective comes after its platform; write faultline platform "
            f"probe {arguments.collective} {arguments.file}"
        )
    path, size_bytes = _collective(arguments)
    named = explained(arguments.file, "", CollectiveError)
    with named, explaining_aborts(path), waiting("measuring"):
        result = probe_collective(
            path, arguments.collective, arguments.algorithm, size_bytes, arguments.gpus
        )
    if arguments.json:
        fields = asdict(result).items()
        print_json({key.removesuffix("_bytes_per_s"): value for key, value in fields})
        return
    rows = (
        ("time", _seconds(result.time_s)),
        ("latency", f"{_seconds(result.latency_s)} of it"),
        ("bus bandwidth", _bandwidth(result.bus_bandwidth_bytes_per_s)),
        ("algorithm bandwidth", _bandwidth(result.algorithm_bandwidth_bytes_per_s)),
        ("limited by", result.limited_by),
        ("flows", f"{result.flows:,}"),
    )
    Screen().print(
        pairs_table(
            rows,
            f"{arguments.collective} by {result.algorithm}, {format_quantity(size_bytes, SIZE)}",
        )
    )
    if size_bytes < SMALLEST_CHECKED_BYTES:
        print_note("below 16 MiB times are mostly latencies, which are unchecked")


def _collective(arguments: argparse.Namespace) -> tuple[Path, float]:
    """Return the platform XML and the bytes of the arguments."""
    size_bytes = arguments.bytes
    if not 1 <= size_bytes <= _MOST_BYTES:
        text = format_quantity(size_bytes, SIZE)
        raise UserError(f"--bytes {text}: write a size from 1B to 1EB, like 1GB")
    return _platform(arguments), size_bytes


def _platform(arguments: argparse.Namespace) -> Path:
    """Return a platform XML; a shipped rail plane is generated with a group per rank."""
    name = arguments.file
    if name in preset_names():
        groups = arguments.gpus or load_preset(name).scale_up.domains
        path = generate_preset(name, groups, cache_directory() / "platforms")
    else:
        path = cluster_file(name, name)
    return naming_gpus(path, arguments.gpu_hosts) if arguments.gpu_hosts else path


def _seconds(time_s: float) -> str:
    for unit, seconds in (("h", 3600.0), ("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if time_s >= seconds:
            return f"{time_s / seconds:.4g} {unit}"
    return f"{time_s * 1e9:.4g} ns"


def _bandwidth(bytes_per_s: float) -> str:
    for unit in BANDWIDTH.written:
        if float(BANDWIDTH.units[unit]) <= bytes_per_s:
            return f"{bytes_per_s / float(BANDWIDTH.units[unit]):.4g} {unit}"
    return f"{bytes_per_s:.4g} B/s"
