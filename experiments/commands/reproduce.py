"""``faultline reproduce``: play a published comparison again."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from faultline.experiments.commands.output import make_folder
from faultline.experiments.config.errors import UserError, did_you_mean
from faultline.experiments.studies import all_reproductions
from faultline.experiments.studies.base import Options
from rich.console import Console


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
    make_folder(directory, "-o DIR")
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
