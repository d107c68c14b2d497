"""``faultline plan``: which scheme to take on this cluster, with which redundancy and interval."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faultline.experiments.commands.scenario_arguments import add_scenario
from faultline.experiments.config.errors import UserError
from faultline.experiments.planner.situation import Wish, read_situation
from faultline.platforms.errors import PlatformError
from faultline.platforms.units import TIME, parse_quantity
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from faultline.experiments.planner.plan import Plan

_FILE_COLUMNS = 150


def add_parser(commands: Any) -> None:
    """Declare the command and its arguments."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "plan",
        help="say which scheme to take, with which redundancy and checkpoint interval",
        description="Find the best redundancy and checkpoint interval of each scheme by closed "
        "forms, verify the best few by simulation, and say which scheme to take.",
        epilog="example: faultline plan spare-sound --gpus 100000 --mtbf 30min",
    )
    add_scenario(parser)
    _add_cluster_arguments(parser.add_argument_group("the cluster, instead of the scenario's"))
    _add_effort_arguments(parser.add_argument_group("how it is planned"))
    parser.add_argument("--json", action="store_true", help="print the plan as one JSON object")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FOLDER",
        help="draw each scheme's time to train over redundancy and interval, with its table",
    )
    parser.set_defaults(execute=execute)


def _add_cluster_arguments(group: Any) -> None:
    group.add_argument("--gpus", type=_positive, metavar="N", help="GPUs of the whole job")
    group.add_argument(
        "--groups", type=_positive, metavar="N", help="data-parallel groups that they make"
    )
    group.add_argument(
        "--mtbf",
        type=_time,
        metavar="TIME",
        help="mean time between failures of the whole job, for example 5min; default: the "
        "scenario's, scaled with 1 / GPUs",
    )
    group.add_argument("--restart", type=_time, metavar="TIME", help="time of a restart")
    group.add_argument("--save", type=_time, metavar="TIME", help="time to write a checkpoint")


def _add_effort_arguments(group: Any) -> None:
    group.add_argument(
        "--schemes",
        type=_names,
        metavar="A,B",
        help="schemes that come into question; default: all but those whose options have to say "
        "how a group is cut into stages or domains (ntp, mecefo, ...)",
    )
    group.add_argument(
        "--protections",
        type=_names,
        metavar="A,B",
        help="ways to keep the state that come into question; default: all that fit the job",
    )
    group.add_argument(
        "--seeds",
        type=_positive,
        default=3,
        metavar="N",
        help="seeds of a verification; default 3, and more for what they cannot tell apart",
    )
    group.add_argument(
        "--verify",
        type=_positive,
        default=3,
        metavar="N",
        help="choices to verify at least; each scheme's best over each protection always is; "
        "default 3",
    )
    group.add_argument(
        "--steps",
        type=_positive,
        metavar="N",
        help="steps of simulated jobs; default: enough for 20 restarts, at most the whole job",
    )
    how = group.add_mutually_exclusive_group()
    how.add_argument("--no-simulation", action="store_true", help="closed forms alone")
    how.add_argument(
        "--optimise",
        action="store_true",
        help="search the best redundancy and interval by simulation too",
    )


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r}: use a whole number from 1")
    return int(text)


def _time(text: str) -> float:
    try:
        value = parse_quantity(text, TIME)
    except PlatformError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if value == 0:
        raise argparse.ArgumentTypeError(f"{text!r}: use a time above zero, for example 5min")
    return value


def execute(arguments: argparse.Namespace) -> int:
    """Run the command; the status is 1 if no scheme would finish the job."""
    # Here and below: no other command need wait for scipy and pandas.
    from faultline.experiments.planner.advice import advise
    from faultline.experiments.planner.answer import answer
    from faultline.experiments.planner.optimised import check_searchable, optimise_schemes
    from faultline.experiments.planner.plan import chosen_protections, chosen_schemes, make_plan
    from faultline.experiments.planner.printing import print_plan

    if arguments.no_simulation and arguments.output is not None:
        raise UserError("-o FOLDER: its figures show simulations; leave out --no-simulation")
    schemes, not_named = chosen_schemes(arguments.schemes)
    protections = chosen_protections(arguments.protections)
    if arguments.output is not None:
        _make_folder(arguments.output)
    situation = read_situation(
        Wish(
            arguments.scenario,
            arguments.settings,
            arguments.gpus,
            arguments.groups,
            arguments.mtbf,
            arguments.restart,
            arguments.save,
        )
    )
    if arguments.optimise:
        check_searchable(situation)
    console = Console(stderr=True)
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task("closed forms", total=None)

        def on_done() -> None:
            progress.advance(task)
            played = int(progress.tasks[task].completed)
            progress.update(task, description=f"verifying: {played:,} jobs played")

        plan = make_plan(
            situation,
            schemes,
            protections,
            range(arguments.seeds),
            0 if arguments.no_simulation else arguments.verify,
            arguments.steps,
            on_done,
        )
        plan = replace(plan, left_out=(*plan.left_out, *not_named))
        optimised = (
            optimise_schemes(plan, arguments.steps, on_done=on_done) if (arguments.optimise) else []
        )
    advice = advise(plan)
    if arguments.json:
        print(json.dumps(answer(plan, advice, optimised), allow_nan=False))
    else:
        # A file has no width of its own; the table is never folded there.
        width = None if sys.stdout.isatty() else _FILE_COLUMNS
        print_plan(Console(file=sys.stdout, width=width), plan, advice, optimised)
    if arguments.output is not None:
        _draw(plan, arguments)
    return 0 if plan.lines else 1


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror}; choose another -o FOLDER") from error


def _draw(plan: Plan, arguments: argparse.Namespace) -> None:
    from faultline.experiments.figures.style import save_figure
    from faultline.experiments.planner.landscape import draw_landscape, landscape

    for line in plan.bests_of_schemes():
        scheme, folder = line.choice.scheme, arguments.output
        frame = landscape(plan, line.choice, range(arguments.seeds), arguments.steps)
        path, table = folder / f"plan-{scheme}.png", folder / f"plan-{scheme}.csv"
        try:
            save_figure(draw_landscape(frame, line.choice), path)
            frame.to_csv(table, index=False, lineterminator="\n")
        except OSError as error:
            raise UserError(f"{folder}: {error.strerror}; choose another -o FOLDER") from error
        print(f"{path}, {table}", file=sys.stderr if arguments.json else sys.stdout)
