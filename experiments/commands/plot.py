"""``faultline plot``: pictures of a sweep, or of the course of one run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faultline.experiments.commands.run import seed
from faultline.experiments.commands.scenario_arguments import add_settings
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.runs.single_run import run
from faultline.simulator.timeline import Event

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_KINDS = ("curves", "heat-map", "best-map", "schemes", "badput")
_FORMATS = ("png", "svg", "pdf")


def add_parser(commands: Any) -> None:
    """Declare the command and its arguments."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "plot",
        help="draw a sweep, or the course of one run",
        description="Draw the usual pictures of a sweep, or those you name; or the course of one "
        "run, from its timeline or played for it.",
        epilog="examples: faultline plot results/mtbf --kind heat-map --x failures.mtbf_s "
        "--y restart.duration_s; faultline plot --timeline spare-study --set job.steps=1000 "
        "-o course.png",
    )
    parser.add_argument(
        "source",
        nargs="?",
        type=Path,
        metavar="SOURCE",
        help="a folder that faultline sweep wrote, or a file that faultline run --timeline wrote",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="PATH",
        help="of a sweep: a folder (default: figures, in the sweep's); of a run: a file (default: "
        "timeline.png)",
    )
    parser.add_argument("--format", choices=_FORMATS, default="png", help="default: png")
    _add_sweep_arguments(parser.add_argument_group("pictures of a sweep"))
    _add_run_arguments(parser.add_argument_group("the course of a run"))
    parser.set_defaults(execute=execute)


def _add_sweep_arguments(group: Any) -> None:
    group.add_argument("--kind", choices=_KINDS, help="one kind of picture instead of the usual")
    group.add_argument("--x", metavar="KEY", help="axis to the right; default: the first numeric")
    group.add_argument("--y", metavar="KEY", help="axis upwards, of a map")
    group.add_argument("--metric", metavar="NAME", help="default: time_to_train_ratio")
    group.add_argument("--hue", metavar="KEY", help="axis of the lines; default: strategy.name")
    group.add_argument("--column", metavar="KEY", help="axis of the panels")


def _add_run_arguments(group: Any) -> None:
    group.add_argument("--timeline", metavar="SCENARIO", help="play this scenario and draw its run")
    add_settings(group)
    group.add_argument("--engine", choices=("replay", "simgrid"), default="replay")
    group.add_argument("--seed", type=seed, default=0, metavar="N", help="default: 0")
    group.add_argument(
        "--window",
        nargs=2,
        type=float,
        metavar=("START", "END"),
        help="part of the run to be drawn larger, in simulated seconds",
    )


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if (arguments.source is None) == (arguments.timeline is None):
        raise UserError("plot: name a SOURCE, or --timeline SCENARIO (one of the two)")
    if arguments.timeline is not None:
        _plot_run(*_played(arguments), arguments, Path("timeline"))
    elif arguments.source.is_file():
        from faultline.experiments.analysis.course import read_timeline

        events = read_timeline(arguments.source)
        _plot_run(
            events, f"Timeline {arguments.source.name}", arguments, arguments.source.with_suffix("")
        )
    else:
        _plot_sweep(arguments)
    return 0


def _played(arguments: argparse.Namespace) -> tuple[list[Event], str]:
    scenario = load_scenario(arguments.timeline, arguments.settings)
    events: list[Event] = []
    record = run(scenario, arguments.seed, arguments.engine, events.append)
    title = (
        f"{record['scenario']}: {record['strategy']}, r = {record['redundancy']}, "
        f"{record['groups']} groups, seed {record['seed']}"
    )
    return events, title


def _plot_run(
    events: list[Event], title: str, arguments: argparse.Namespace, default: Path
) -> None:
    # Here and below: no other command need wait for pandas and matplotlib.
    from faultline.experiments.figures.timeline import draw_timeline

    window_s = None if arguments.window is None else tuple(arguments.window)
    path = arguments.output or default.with_name(f"{default.name}.{arguments.format}")
    if path.suffix.removeprefix(".") not in _FORMATS:
        raise UserError(f"-o {path}: name a file that ends in .{', .'.join(_FORMATS)}")
    _make_folder(path.parent)
    _save(draw_timeline(events, title, window_s), title, path)


def _plot_sweep(arguments: argparse.Namespace) -> None:
    from faultline.experiments.figures.sweep_pictures import Wanted, chosen_figure, usual_figures
    from faultline.experiments.runs.table import read_sweep

    sweep = read_sweep(arguments.source)
    options = ("kind", "x", "y", "metric", "hue", "column")
    asked = {option: value for option in options if (value := getattr(arguments, option))}
    frame = sweep.frame
    pictures = [chosen_figure(frame, Wanted(**asked))] if asked else usual_figures(sweep)
    folder = arguments.output or arguments.source / "figures"
    _make_folder(folder)
    for picture in pictures:
        _save(picture.figure, picture.title, folder / f"{picture.name}.{arguments.format}")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror}; choose another -o PATH") from error


def _save(figure: Figure, title: str, path: Path) -> None:
    from faultline.experiments.figures.style import save_figure

    try:
        save_figure(figure, path)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; choose another -o PATH") from error
    print(f"{path}: {title}")
