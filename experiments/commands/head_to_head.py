"""``faultline head-to-head``: all schemes on one platform, and the map of which to take."""

from __future__ import annotations

import argparse
from pathlib import Path

from faultline.experiments.commands.output import make_folder, print_json
from faultline.experiments.screen import Screen
from faultline.experiments.studies.head_to_head.comparison import HeadToHead
from faultline.experiments.studies.runner import run_study
from faultline.experiments.studies.stage import Stage


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    directory = arguments.output or Path("results") / "head-to-head"
    make_folder(directory, "-o DIR")
    study = HeadToHead(
        side=arguments.side or (4 if arguments.quick else 20),
        setting_seeds=2 if arguments.quick else 8,
        schemes=tuple(arguments.schemes or ()),
        only=arguments.only,
    )
    seeds = arguments.seeds or (1 if arguments.quick else 3)
    console = Screen(stderr=arguments.json, width=150)
    found = run_study(study, Stage(directory, console, seeds, workers=arguments.workers))
    if arguments.json:
        print_json(found)
    return 0
