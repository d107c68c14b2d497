"""``faultline platform break``: a component fails in the middle of a collective."""

from __future__ import annotations

import argparse
import json
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from faultline.experiments.commands.platform_probe import add_collective_arguments, collective_of
from faultline.experiments.config.errors import UserError
from faultline.experiments.job.platform_files import check_controller, explaining_aborts
from faultline.platforms.errors import PlatformError
from faultline.platforms.failure_domains import FailureDomain, failure_domains
from faultline.platforms.platform_data import Platform
from faultline.platforms.units import TIME, parse_quantity
from faultline.platforms.xml_reader import read_platform
from faultline.simulator.collectives.catalogue import CollectiveError
from faultline.simulator.simgrid_engine.collective_failure import (
    Aftermath,
    Failure,
    break_collective,
)
from faultline.simulator.simgrid_engine.collective_probe import prepare
from rich.console import Console
from rich.table import Table

_POWERED = {"gpu", "host", "domain", "rack"}
"""Levels whose failure takes GPUs down; that of a switch or link only cuts them off."""


def add_parser(subcommands: Any) -> None:
    """Declare the command and its arguments."""
    parser: argparse.ArgumentParser = subcommands.add_parser(
        "break",
        help="let a component fail in the middle of a collective",
        description="Play one collective in SimGrid while a GPU, host, scale-up domain, rack, "
        "switch or link fails, and tell which ranks die, which hang until their watchdog fires, "
        "and which got through before.",
        epilog="example: faultline platform break hgx-h100 --component leaf-00000-03 --at 5ms "
        "--watchdog 30s --algorithm ring --bytes 1GB --ranks 64",
    )
    add_collective_arguments(parser)
    parser.add_argument(
        "--component",
        required=True,
        metavar="NAME",
        help="what fails: gpu-000003, host-00001, domain-00000, rack-00000, a switch or a link",
    )
    parser.add_argument("--at", default="1ms", metavar="TIME", help="when it fails (default: 1ms)")
    parser.add_argument(
        "--watchdog",
        default="600s",
        metavar="TIME",
        help="when ranks give up waiting (default: 600s)",
    )
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    path, size_bytes = collective_of(arguments)
    at_s, watchdog_s = _time("--at", arguments.at), _time("--watchdog", arguments.watchdog)
    if watchdog_s <= at_s:
        raise UserError(
            f"--watchdog {arguments.watchdog}: fires before the failure at {arguments.at}; "
            "use a later time"
        )
    platform = read_platform(path)
    check_controller(platform)
    component = _component(platform, arguments.component)
    aftermath, hosts = _break(arguments, path, platform, size_bytes, component, at_s, watchdog_s)
    if arguments.json:
        print(json.dumps(_as_json(component, aftermath, hosts), allow_nan=False))
    else:
        _print(component, aftermath, hosts)
    return 0


def _break(
    arguments: argparse.Namespace,
    path: Path,
    platform: Platform,
    size_bytes: float,
    component: FailureDomain,
    at_s: float,
    watchdog_s: float,
) -> tuple[Aftermath, list[str]]:
    try:
        schedule, hosts, _ = prepare(
            platform,
            arguments.collective,
            arguments.algorithm,
            size_bytes,
            arguments.ranks,
            arguments.placement,
        )
    except CollectiveError as error:
        raise UserError(f"{arguments.file}: {error}") from error
    down = component.gpus if component.level in _POWERED else ()
    failure = Failure(at_s, down, component.links)
    with explaining_aborts(path):
        return (
            break_collective(path, schedule, hosts, arguments.fidelity, failure, watchdog_s),
            hosts,
        )


def _time(option: str, text: str) -> float:
    try:
        return parse_quantity(text, TIME)
    except PlatformError as error:
        raise UserError(f"{option} {error}") from error


def _component(platform: Platform, name: str) -> FailureDomain:
    known = {component.name: component for component in failure_domains(platform)}
    if name not in known:
        close = get_close_matches(name, list(known), n=3)
        remedy = f"did you mean {', '.join(close)}?" if close else "see --help for their names"
        raise UserError(f"--component {name}: {platform.path} has no such component; {remedy}")
    return known[name]


def _as_json(component: FailureDomain, aftermath: Aftermath, hosts: list[str]) -> dict[str, Any]:
    return {
        "component": component.name,
        "level": component.level,
        "died": [hosts[position] for position in aftermath.died],
        "hung": [hosts[position] for position in aftermath.hung],
        "through": [hosts[position] for position in aftermath.through],
        "end_s": aftermath.end_s,
    }


def _print(component: FailureDomain, aftermath: Aftermath, hosts: list[str]) -> None:
    console = Console()
    console.print(f"{component.level} {component.name} fails", style="bold")
    table = Table(show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column()
    for what, positions in (
        ("died", aftermath.died),
        ("hung until the watchdog", aftermath.hung),
        ("got through before", aftermath.through),
    ):
        table.add_row(what, str(len(positions)), _some([hosts[p] for p in positions]))
    table.add_row("all are out after", f"{aftermath.end_s:g} s", "")
    console.print(table)


def _some(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])}, ..., {names[-1]}"
