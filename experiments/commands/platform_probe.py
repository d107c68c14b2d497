"""``faultline platform probe``: one collective on an idle platform."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from faultline.experiments.config.errors import UserError
from faultline.experiments.job.platform_files import explaining_aborts, generate_preset
from faultline.platforms.errors import PlatformError
from faultline.platforms.preset_library import load_preset, preset_names
from faultline.platforms.units import BANDWIDTH, parse_size_bytes
from faultline.simulator.collectives.catalogue import ALGORITHMS, CollectiveError
from faultline.simulator.probe_cache import cache_directory
from faultline.simulator.simgrid_engine.collective_probe import CollectiveResult, probe_collective
from rich.console import Console
from rich.table import Table

_MOST_BYTES = 1e18
"""SimGrid counts bytes in 64 bits."""


def add_parser(subcommands: Any) -> None:
    """Declare the command and its arguments."""
    algorithms = "; ".join(f"{name}: {', '.join(known)}" for name, known in ALGORITHMS.items())
    parser: argparse.ArgumentParser = subcommands.add_parser(
        "probe",
        help="measure a collective on a platform",
        description="Measure one collective on an idle platform in SimGrid: its time, its "
        "bandwidths as nccl-tests counts them, and which links limit it. Beside it stands the "
        "alpha-beta time of the algorithm, as if all edges were like the one between the first "
        "and the last rank.",
        epilog="example: faultline platform probe hgx-h100 --collective all-reduce "
        f"--algorithm ring --bytes 1GB --ranks 64. Algorithms: {algorithms}",
    )
    add_collective_arguments(parser)
    parser.set_defaults(execute=execute)


def add_collective_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare which collective is meant, on which platform."""
    parser.add_argument(
        "file",
        metavar="FILE",
        help=f"a platform XML, or a shipped cluster: {', '.join(preset_names())}",
    )
    parser.add_argument(
        "--collective", default="all-reduce", metavar="NAME", help="default: all-reduce"
    )
    parser.add_argument(
        "--algorithm", metavar="NAME", help="default: the first one of the collective"
    )
    parser.add_argument(
        "--bytes",
        dest="size",
        default="1GB",
        metavar="SIZE",
        help="what a rank reduces, sends or gets in all, like 1GB or 64MiB (default: 1GB)",
    )
    parser.add_argument(
        "--ranks", type=int, metavar="N", help="how many GPUs take part (default: all)"
    )
    parser.add_argument(
        "--fidelity",
        choices=("flow", "chunk"),
        default="flow",
        help="one flow an edge of the algorithm (default), or every message",
    )
    parser.add_argument(
        "--placement",
        choices=("packed", "spread"),
        default="packed",
        help="ranks on the first GPUs (default), or on one GPU of each scale-up domain",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object; times in seconds, bandwidths in bytes/s",
    )


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    path, size_bytes = collective_of(arguments)
    try:
        with explaining_aborts(path):
            result = probe_collective(
                path,
                arguments.collective,
                arguments.algorithm,
                size_bytes,
                arguments.ranks,
                arguments.fidelity,
                arguments.placement,
            )
    except CollectiveError as error:
        raise UserError(f"{arguments.file}: {error}") from error
    if arguments.json:
        print(json.dumps(_as_json(result), allow_nan=False))
    else:
        _print(arguments, result)
    return 0


def collective_of(arguments: argparse.Namespace) -> tuple[Path, float]:
    """Return the platform XML and the bytes that are meant.

    Raises
    ------
    UserError
        If there is no such file, or a value is no good.
    """
    size_bytes = _size(arguments.size)
    if arguments.ranks is not None and arguments.ranks < 2:
        raise UserError(f"--ranks {arguments.ranks}: a collective needs at least 2 ranks")
    return _platform(arguments.file, arguments.ranks), size_bytes


def _as_json(result: CollectiveResult) -> dict[str, float | int | str]:
    return {key.removesuffix("_bytes_per_s"): value for key, value in asdict(result).items()}


def _size(text: str) -> float:
    try:
        size_bytes = parse_size_bytes(text)
    except PlatformError as error:
        raise UserError(f"--bytes {error}") from error
    if not 1 <= size_bytes <= _MOST_BYTES:
        raise UserError(f"--bytes {text!r}: write a size from 1B to 1EB, like 1GB")
    return size_bytes


def _platform(name: str, ranks: int | None) -> Path:
    """Return the XML that is meant; a shipped rail plane is made for as many groups as ranks."""
    if name in preset_names():
        groups = ranks or load_preset(name).scale_up.domains
        return generate_preset(name, groups, cache_directory() / "platforms")
    path = Path(name)
    if not path.is_file():
        raise UserError(
            f"{name}: no such file; name a platform XML or a shipped cluster "
            f"({', '.join(preset_names())})"
        )
    return path


def _print(arguments: argparse.Namespace, result: CollectiveResult) -> None:
    of_formula = result.time_s / result.alpha_beta_s - 1.0 if result.alpha_beta_s else 0.0
    rows = (
        ("time", _seconds(result.time_s)),
        ("alpha-beta time", f"{_seconds(result.alpha_beta_s)} ({of_formula:+.1%} measured)"),
        ("bus bandwidth", _bandwidth(result.bus_bandwidth_bytes_per_s)),
        ("algorithm bandwidth", _bandwidth(result.algorithm_bandwidth_bytes_per_s)),
        ("limited by", result.limited_by),
        ("messages", f"{result.messages:,}"),
    )
    what = " ".join(filter(None, (arguments.collective, arguments.algorithm)))
    table = Table(
        title=f"{what}, {arguments.size}, {arguments.fidelity}, {arguments.placement}",
        title_justify="left",
        show_header=False,
    )
    table.add_column(style="bold")
    table.add_column(justify="right")
    for row in rows:
        table.add_row(*row)
    Console(file=sys.stdout).print(table)


def _seconds(time_s: float) -> str:
    for unit, seconds in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if time_s >= seconds:
            return f"{time_s / seconds:.4g} {unit}"
    return f"{time_s * 1e9:.4g} ns"


def _bandwidth(bytes_per_s: float) -> str:
    for unit in BANDWIDTH.written:
        if float(BANDWIDTH.units[unit]) <= bytes_per_s:
            return f"{bytes_per_s / float(BANDWIDTH.units[unit]):.4g} {unit}"
    return f"{bytes_per_s:.4g} B/s"
