"""``faultline head-to-head``: all schemes on one platform, and the map of which to take."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from faultline.experiments.config.errors import UserError


def add_parser(commands: Any) -> None:
    """Declare the command and its arguments."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "head-to-head",
        help="play all schemes on one platform, and draw the map of which is best where",
        description="All schemes of this project, with one model on one platform, under the same "
        "failures: a table of three settings, what becomes of one of them where every event costs "
        "everybody the same, or where the layers divide otherwise, and two planes that show which "
        "scheme trains soonest and which with the fewest GPU-hours. Played cells are kept "
        "in DIR/cells: the same command goes on where it was interrupted.",
        epilog="example: faultline head-to-head --quick --schemes checkpoint spare/reft",
    )
    parser.add_argument("--quick", action="store_true", help="a coarse grid and few seeds")
    parser.add_argument(
        "--side", type=_positive, metavar="N", help="cells on a side of a plane; default: 20, or 4"
    )
    parser.add_argument(
        "--seeds", type=_positive, metavar="K", help="seeds of a cell; default: 3, or 1"
    )
    parser.add_argument(
        "--schemes", nargs="+", metavar="NAME", help="schemes, or one as spare/reft; default: all"
    )
    parser.add_argument(
        "--only",
        choices=["settings", "stalls", "layers", "restart", "domains"],
        help="the table of settings, what stalls or layers do to it, or one plane; default: all",
    )
    parser.add_argument("--json", action="store_true", help="print the settings' table as JSON")
    parser.add_argument(
        "--workers", type=_positive, metavar="N", help="processes; default: one a core"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="default: results/head-to-head"
    )
    parser.set_defaults(execute=execute)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r}: use a whole number from 1")
    return int(text)


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    # No other command need wait for pandas and matplotlib.
    from faultline.experiments.studies.head_to_head.comparison import Options, run_head_to_head
    from rich.console import Console

    directory = arguments.output or Path("results") / "head-to-head"
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{directory}: {error.strerror}; choose another -o DIR") from error
    options = Options(
        side=arguments.side or (4 if arguments.quick else 20),
        seeds=arguments.seeds or (1 if arguments.quick else 3),
        setting_seeds=2 if arguments.quick else 8,
        schemes=tuple(arguments.schemes or ()),
        only=arguments.only,
        workers=arguments.workers,
        directory=directory,
        console=Console(stderr=arguments.json, highlight=False, width=150),
    )
    found = run_head_to_head(options)
    if arguments.json:
        print(json.dumps(found, allow_nan=False))
    return 0
