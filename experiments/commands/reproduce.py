"""``faultline reproduce``: play a published comparison again."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from faultline.experiments.commands.output import make_folder
from faultline.experiments.config.errors import UserError, did_you_mean
from faultline.experiments.screen import Screen
from faultline.experiments.studies import all_studies, load_study


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    known = all_studies()
    if arguments.name == "list":
        for name, summary in known.items():
            print(f"{name:18} {summary}")
        return 0
    if arguments.name not in known:
        raise UserError(
            f"reproduce {arguments.name}: there is no such reproduction; "
            f"{did_you_mean(arguments.name, list(known))}"
        )
    # What plays waits until it is known that something is to be played.
    from faultline.experiments.studies.runner import run_study
    from faultline.experiments.studies.stage import Stage

    directory = arguments.output or Path("results") / arguments.name
    make_folder(directory, "-o DIR")
    study = load_study(arguments.name)
    seeds, console = arguments.seeds or study.default_seeds, Screen(stderr=arguments.json)
    found = run_study(study, Stage(directory, console, seeds, arguments.full, arguments.workers))
    if arguments.json:
        print(json.dumps(found, allow_nan=False))
    return 0
