"""Parsers of what plays many runs, or reads what they left."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from faultline.experiments.commands.parsers.arguments import (
    above_zero,
    add_command,
    add_json,
    add_output,
    add_seed,
    add_settings,
    positive,
    shipped,
)

PLOT_FORMATS = ("png", "svg", "pdf")
_PLOT_KINDS = ("curves", "heat-map", "best-map", "schemes", "badput")
_LIMIT = "nothing runs within nothing; use more"


def sweep(commands: Any) -> None:
    """Declare ``faultline sweep``."""
    parser = add_command(
        commands,
        "sweep",
        help="play a grid of scenarios and seeds; goes on where it was interrupted",
        description="Play every point of a grid with every seed. Results land in DIR as they come; "
        "the same command again plays only what is missing. Tables with a row a run stand in DIR "
        "at the end.",
        epilog="example: faultline sweep first-look -o results/first-look",
    )
    parser.add_argument("grid", metavar="GRID", help=f"a TOML file, or one of: {shipped('grids')}")
    add_output(parser, "DIR", "where results are kept", required=True)
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--workers", type=positive, metavar="N", help="runs at a time; default: one a core"
    )
    where.add_argument(
        "--scheduler", metavar="tcp://HOST:PORT", help="play on the workers of a Dask scheduler"
    )
    parser.add_argument(
        "--time-limit",
        type=above_zero("time", _LIMIT),
        metavar="TIME",
        help="real time a run may take, for example 10min; a run that takes longer has failed",
    )
    parser.add_argument(
        "--memory-limit",
        type=above_zero("size", _LIMIT),
        metavar="SIZE",
        help="memory a run may take, for example 4GB; a run that takes more has failed",
    )
    parser.add_argument(
        "--retry-failed", action="store_true", help="play runs that failed before once more"
    )
    parser.add_argument(
        "--accept-other-code",
        action="store_true",
        help="keep results that were made before the simulation's source changed",
    )


def compare(commands: Any) -> None:
    """Declare ``faultline compare``."""
    parser = add_command(
        commands,
        "compare",
        help="compare the schemes of a sweep, seed by seed",
        description="Compare the values of one axis of a sweep with a baseline: differences "
        "between runs of the same seed and the same setting, with 95 %% intervals by paired t.",
        epilog="example: faultline compare results/mtbf --metric availability "
        "--baseline replication",
    )
    _add_directory(parser)
    parser.add_argument(
        "--metric",
        default="time_to_train_ratio",
        metavar="NAME",
        help="column of the sweep's table; default: time_to_train_ratio",
    )
    parser.add_argument(
        "--by",
        metavar="KEY",
        help="axis whose values are compared; default: strategy.name where it was varied, else the "
        "first axis",
    )
    parser.add_argument(
        "--baseline", metavar="VALUE", help="what to compare with; default: the axis's first value"
    )
    add_json(parser, "print one JSON object")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write all rows to a CSV file")


def plot(commands: Any) -> None:
    """Declare ``faultline plot``."""
    parser = add_command(
        commands,
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
    add_output(
        parser,
        "PATH",
        "of a sweep: a folder (default: figures, in the sweep's); of a run: a file (default: "
        "timeline.png)",
    )
    parser.add_argument("--format", choices=PLOT_FORMATS, default="png", help="default: png")
    pictures = parser.add_argument_group("pictures of a sweep").add_argument
    pictures("--kind", choices=_PLOT_KINDS, help="one kind of picture instead of the usual")
    pictures("--x", metavar="KEY", help="axis to the right; default: the first numeric")
    pictures("--y", metavar="KEY", help="axis upwards, of a map")
    pictures("--metric", metavar="NAME", help="default: time_to_train_ratio")
    pictures("--hue", metavar="KEY", help="axis of the lines; default: strategy.name")
    pictures("--column", metavar="KEY", help="axis of the panels")
    course = parser.add_argument_group("the course of a run")
    course.add_argument(
        "--timeline", metavar="SCENARIO", help="play this scenario and draw its run"
    )
    add_settings(course)
    course.add_argument("--engine", choices=("replay", "simgrid"), default="replay")
    add_seed(course)
    course.add_argument(
        "--window",
        nargs=2,
        type=float,
        metavar=("START", "END"),
        help="part of the run to be drawn larger, in simulated seconds",
    )


def report(commands: Any) -> None:
    """Declare ``faultline report``."""
    parser = add_command(
        commands,
        "report",
        help="write one page that tells what a sweep found",
        description="Write one self-contained HTML page from a sweep: the answer, what was asked, "
        "comparisons, figures, where the time went, all points. It needs no network.",
        epilog="example: faultline report results/my-sweep -o report.html",
    )
    _add_directory(parser)
    add_output(parser, "FILE", "the page; default: report.html in DIR")


def reproduce(commands: Any) -> None:
    """Declare ``faultline reproduce``."""
    parser = add_command(
        commands,
        "reproduce",
        help="play a published comparison and print it beside the published numbers",
        description="Play a published comparison again: tables and figures go to results/NAME, "
        "the headline to the screen.",
    )
    parser.add_argument("name", metavar="NAME", help="which one; 'list' tells what there is")
    parser.add_argument("--full", action="store_true", help="everything that was published")
    parser.add_argument("--seeds", type=positive, metavar="K", help="default: 3; adaptive: 5")
    add_json(parser, "print the rows as a JSON list")
    parser.add_argument(
        "--workers", type=positive, metavar="N", help="processes; default: one a core"
    )
    add_output(parser, "DIR", "default: results/NAME")


def head_to_head(commands: Any) -> None:
    """Declare ``faultline head-to-head``."""
    parser = add_command(
        commands,
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
        "--side", type=positive, metavar="N", help="cells on a side of a plane; default: 20, or 4"
    )
    parser.add_argument(
        "--seeds", type=positive, metavar="K", help="seeds of a cell; default: 3, or 1"
    )
    parser.add_argument(
        "--schemes", nargs="+", metavar="NAME", help="schemes, or one as spare/reft; default: all"
    )
    parser.add_argument(
        "--only",
        choices=["settings", "stalls", "layers", "restart", "domains"],
        help="the table of settings, what stalls or layers do to it, or one plane; default: all",
    )
    add_json(parser, "print the settings' table as JSON")
    parser.add_argument(
        "--workers", type=positive, metavar="N", help="processes; default: one a core"
    )
    add_output(parser, "DIR", "default: results/head-to-head")


def _add_directory(parser: ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="what faultline sweep wrote")
