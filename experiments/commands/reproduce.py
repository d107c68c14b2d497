"""``faultline reproduce`` and ``head-to-head``: rerun a published comparison, or our own."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faultline.experiments.commands.listing import print_list
from faultline.experiments.commands.output import make_folder, print_json, refuse_idle
from faultline.experiments.config.errors import UserError, did_you_mean
from faultline.experiments.screen import Screen
from faultline.experiments.studies.catalogue import all_studies, load_study

if TYPE_CHECKING:
    from faultline.experiments.studies.base import Study


def execute(arguments: argparse.Namespace) -> None:
    """Run the command."""
    known = all_studies()
    if arguments.name is None:
        refuse_idle(arguments, ["full", "output", "seeds"], "without a study")
        print_list("studies", as_json=arguments.json)
        return
    if arguments.name not in known:
        raise UserError(
            f"reproduce {arguments.name}: there is no such reproduction; "
            f"{did_you_mean(arguments.name, list(known))}"
        )
    # The simulator is imported only after the arguments are checked.
    study = load_study(arguments.name)
    refuse_idle(arguments, sorted({"full", "seeds"} - study.scaled_by), f"on {arguments.name}")
    seeds, console = arguments.seeds or study.default_seeds, Screen(stderr=arguments.json)
    _simulate(study, arguments, arguments.name, console, seeds=seeds, full=arguments.full)


def execute_head_to_head(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from faultline.experiments.studies.head_to_head.comparison import HeadToHead

    quick = arguments.quick
    study = HeadToHead(
        worlds=arguments.worlds or (4 if quick else 8),
        schemes=tuple(arguments.schemes or ()),
        only=arguments.only,
        quick=quick,
    )
    console = Screen(stderr=arguments.json)
    _simulate(study, arguments, "head-to-head", console)


def _simulate(
    study: Study, arguments: argparse.Namespace, name: str, console: Screen, **how: Any
) -> None:
    from faultline.experiments.studies.runner import run_study
    from faultline.experiments.studies.stage import Stage

    directory = arguments.output or Path("results") / name
    make_folder(directory, "-o DIR")
    chosen = {"workers": arguments.workers, "scheduler": arguments.scheduler}
    stage = Stage(directory, console, **chosen, **how)
    found = run_study(study, stage)
    if arguments.json:
        print_json(found)
