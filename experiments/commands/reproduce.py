"""``faultline reproduce``: play a published comparison again."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from faultline.experiments.config.errors import UserError, did_you_mean
from faultline.experiments.studies import all_reproductions
from faultline.experiments.studies.base import Options
from rich.console import Console


def add_parser(commands: Any) -> None:
    """Declare the command and its arguments."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "reproduce",
        help="play a published comparison and print it beside the published numbers",
        description="Play a published comparison again: tables and figures go to results/NAME, "
        "the headline to the screen.",
    )
    parser.add_argument("name", metavar="NAME", help="which one; 'list' tells what there is")
    parser.add_argument("--full", action="store_true", help="everything that was published")
    parser.add_argument("--seeds", type=_positive, metavar="K", help="default: 3; adaptive: 5")
    parser.add_argument("--json", action="store_true", help="print the rows as a JSON list")
    parser.add_argument(
        "--workers", type=_positive, metavar="N", help="processes; default: one a core"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="default: results/NAME")
    parser.set_defaults(execute=execute)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r}: use a whole number from 1")
    return int(text)


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    known = all_reproductions()
    if arguments.name == "list":
        for reproduction in known.values():
            print(f"{reproduction.name:12} {reproduction.summary}")
        return 0
    if arguments.name not in known:
        raise UserError(
            f"reproduce {arguments.name}: there is no such reproduction; "
            f"{did_you_mean(arguments.name, list(known))}"
        )
    directory = arguments.output or Path("results") / arguments.name
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{directory}: {error.strerror}; choose another -o DIR") from error
    options = Options(
        full=arguments.full,
        seeds=arguments.seeds or known[arguments.name].default_seeds,
        workers=arguments.workers,
        directory=directory,
        console=Console(stderr=arguments.json),
    )
    rows = known[arguments.name].reproduce(options)
    if arguments.json:
        print(json.dumps([row.as_dict() for row in rows], allow_nan=False))
    return 0
