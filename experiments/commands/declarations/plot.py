"""``faultline plot`` and ``report``."""

from __future__ import annotations

from faultline.experiments.commands.declarations import shared
from faultline.experiments.commands.declarations.parsing import Commands, add_command


def declare(commands: Commands) -> None:
    """Declare the commands that draw."""
    plot = add_command(
        commands,
        "plot",
        "draw the usual figures of a sweep",
        "plot:execute",
        epilog="example: faultline plot results/first-look.sqlite --format pdf",
    )
    shared.add_sweep(plot)
    shared.add_output(plot, "default: NAME-figures beside FILE")
    plot.add_argument("--format", choices=shared.PLOT_FORMATS, default="png", help="default: png")

    report = add_command(
        commands,
        "report",
        "write one page with the results of a sweep",
        "plot:execute_report",
        description="Write one self-contained HTML page from a sweep: the result, the question, "
        "comparisons, figures, the use of time. It needs no network.",
        epilog="example: faultline report results/first-look.sqlite -o report.html",
    )
    shared.add_sweep(report)
    report.add_argument(
        "--by",
        metavar="KEY",
        help="axis whose values are compared, besides schemes, protections and redundancies",
    )
    shared.add_price(report)
    shared.add_output(report, "the page (.html); default: NAME.html beside FILE", *shared.PAGES)
