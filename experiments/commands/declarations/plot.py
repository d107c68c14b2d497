"""``faultline plot`` and ``report``."""

from __future__ import annotations

from pathlib import Path

from faultline.experiments.commands.declarations import shared
from faultline.experiments.commands.declarations.parsing import Commands, add_command


def declare(commands: Commands) -> None:
    """Declare what draws."""
    plot = add_command(
        commands,
        "plot",
        "draw a sweep, or the course of one run",
        "plot:execute",
        description="Draw the usual pictures of a sweep, or those you name; or the course of one "
        "run, from its timeline.",
        epilog="examples: faultline plot results/mtbf --kind heat-map --x failures.mtbf_s --y "
        "times.restart_s; faultline plot run.csv --window 0 3600 -o course.png",
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

    sweep = plot.add_argument_group("pictures of a sweep")
    sweep.add_argument(
        "--kind",
        choices=("curves", "heat-map", "best-map", "schemes", "badput"),
        help="one kind of picture instead of the usual",
    )
    sweep.add_argument("--x", metavar="KEY", help="axis to the right; default: the first numeric")
    sweep.add_argument("--y", metavar="KEY", help="axis upwards, of a map")
    sweep.add_argument("--metric", metavar="NAME", help="default: time_to_train_ratio")
    sweep.add_argument("--hue", metavar="KEY", help="axis of the lines; default: strategy.name")
    sweep.add_argument("--column", metavar="KEY", help="axis of the panels")

    run = plot.add_argument_group("the course of a run")
    run.add_argument(
        "--window",
        metavar=("START", "END"),
        nargs=2,
        type=float,
        help="part of the run to be drawn larger, in simulated seconds",
    )

    report = add_command(
        commands,
        "report",
        "write one page that tells what a sweep found",
        "plot:execute_report",
        description="Write one self-contained HTML page from a sweep: the answer, what was asked, "
        "comparisons, figures, where the time went, all points. It needs no network.",
        epilog="example: faultline report results/my-sweep -o report.html",
    )
    report.add_argument("dir", metavar="DIR", type=Path, help="what faultline sweep wrote")
    report.add_argument(
        "--by",
        metavar="KEY",
        help="axis whose values are compared, besides schemes, protections and redundancies",
    )
    shared.add_price(report)
    shared.add_output(report, "FILE", "the page; default: report.html in DIR")
