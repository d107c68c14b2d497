"""``faultline head-to-head``: all schemes on one platform, and the map of which to take."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from faultline.experiments.commands.output import make_folder
from faultline.experiments.studies.head_to_head.comparison import Options, run_head_to_head
from rich.console import Console


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    directory = arguments.output or Path("results") / "head-to-head"
    make_folder(directory, "-o DIR")
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
