"""``faultline plot`` and ``report``."""

from __future__ import annotations

from pathlib import Path

from faultline.experiments.commands.declarations import shared
from faultline.experiments.commands.declarations.parsing import Commands, add_command


def declare(commands: Commands) -> None:
    """Declare the commands that draw."""
    plot = add_command(
        commands,
        "plot",
        "draw a sweep, or the course of one run",
        "plot:execute",
        description="Draw the usual figures of a sweep, or the one you choose; or the course of "
        "one run, from its timeline.",
        epilog="examples: faultline plot results/mtbf --kind heat-map --x failures.mtbf_s --y "
        "times.restart_s; faultline plot run.csv -o course.png",
    )
    plot.add_argument(
        "source",
        metavar="SOURCE",
        type=Path,
        help="a folder that faultline sweep wrote, or a file that faultline run --timeline wrote",
    )
    shared.add_output(
        plot,
        "PATH",
        "of a sweep: a folder (default: figures, in the sweep's); of a run: a file (default: "
        "beside the timeline)",
    )
    plot.add_argument(
        "--no-title",
        action="store_true",
        help="leave the title out of the figure, for a caption of your own",
    )
    plot.add_argument("--format", choices=shared.PLOT_FORMATS, help="default: png")

    sweep = plot.add_argument_group("figures of a sweep")
    sweep.add_argument(
        "--kind",
        choices=("curves", "heat-map", "best-map", "schemes", "badput"),
        help="one kind of figure instead of the usual ones",
    )
    sweep.add_argument(
        "--x", metavar="KEY", help="key of the x axis; default: the first numeric key"
    )
    sweep.add_argument("--y", metavar="KEY", help="key of the y axis of a map")
    sweep.add_argument("--metric", metavar="NAME", help="default: time_to_train_ratio")
    sweep.add_argument("--by", metavar="KEY", help="key of the lines; default: strategy.name")

    report = add_command(
        commands,
        "report",
        "write one page with the results of a sweep",
        "plot:execute_report",
        description="Write one self-contained HTML page from a sweep: the result, the question, "
        "comparisons, figures, the use of time, all points. It needs no network.",
        epilog="example: faultline report results/my-sweep -o report.html",
    )
    report.add_argument("dir", metavar="DIR", type=Path, help="a folder that faultline sweep wrote")
    report.add_argument(
        "--by",
        metavar="KEY",
        help="axis whose values are compared, besides schemes, protections and redundancies",
    )
    shared.add_price(report)
    shared.add_output(report, "FILE", "the page; default: report.html in DIR")
