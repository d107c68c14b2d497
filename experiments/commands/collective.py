"""``faultline platform probe``: one collective on an idle platform."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from faultline.experiments.commands.output import pairs_table, print_json, waiting
from faultline.experiments.config.errors import UserError
from faultline.experiments.job.platform_files import (
    explaining_aborts,
    generate_preset,
)
from faultline.experiments.screen import Screen
from faultline.platforms.errors import PlatformError
from faultline.platforms.preset_library import load_preset, preset_names
from faultline.platforms.units import BANDWIDTH, SIZE, parse_quantity
from faultline.simulator.cache_folder import cache_directory
from faultline.simulator.collectives.catalogue import CollectiveError
from faultline.simulator.simgrid_engine.collective_probe import probe_collective

_MOST_BYTES = 1e18
"""SimGrid counts bytes in 64 bits."""


def execute(arguments: argparse.Namespace) -> None:
    """Measure a collective on an idle platform."""
    path, size_bytes = _collective(arguments)
    prefixed = _prefixed(f"{arguments.file}:", CollectiveError)
    with prefixed, explaining_aborts(path), waiting("measuring"):
        result = probe_collective(
            path, arguments.collective, arguments.algorithm, size_bytes, arguments.gpus
        )
    if arguments.json:
        fields = asdict(result).items()
        print_json({key.removesuffix("_bytes_per_s"): value for key, value in fields})
        return
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
    title = f"{what}, {arguments.bytes}"
    Screen().print(pairs_table(rows, title))


@contextmanager
def _prefixed(name: str, kind: type[Exception]) -> Iterator[None]:
    """Put a name before the message of an error."""
    try:
        yield
    except kind as error:
        raise UserError(f"{name} {error}") from error


def _collective(arguments: argparse.Namespace) -> tuple[Path, float]:
    """Return the platform XML and the bytes of the arguments."""
    with _prefixed("--bytes", PlatformError):
        size_bytes = parse_quantity(arguments.bytes, SIZE)
    if not 1 <= size_bytes <= _MOST_BYTES:
        raise UserError(f"--bytes {arguments.bytes!r}: write a size from 1B to 1EB, like 1GB")
    if arguments.gpus is not None and arguments.gpus < 2:
        raise UserError(f"--gpus {arguments.gpus}: a collective needs at least 2 ranks")
    return _platform(arguments.file, arguments.gpus), size_bytes


def _platform(name: str, ranks: int | None) -> Path:
    """Return the XML of the argument; a shipped rail plane is generated with a group per rank."""
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
