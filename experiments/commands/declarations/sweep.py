"""``faultline sweep`` and ``compare``."""

from __future__ import annotations

from faultline.experiments.commands.declarations import shared
from faultline.experiments.commands.declarations.parsing import Commands, add_command

_NOTHING = "must be greater than 0"


def declare(commands: Commands) -> None:
    """Declare the commands that simulate a grid and compare its runs."""
    sweep = add_command(
        commands,
        "sweep",
        "simulate a grid of scenarios and seeds; resumes where it was interrupted",
        "sweep:execute",
        description="Simulate each point of a grid with each seed. Each result is written to FILE "
        "at once; the same command again simulates only missing runs.",
        epilog="example: faultline sweep first-look -o results/first-look.sqlite",
    )
    sweep.add_argument("grid", metavar="GRID", help="a TOML file, or one of: {grids}")
    shared.add_output(sweep, "the results (.sqlite); default: results/GRID.sqlite", ".sqlite")
    size = sweep.add_argument_group("the job, instead of the grid's and its scenario's")
    shared.add_size(size, "steps of the job")
    shared.add_workers(sweep)
    sweep.add_argument(
        "--time-limit",
        metavar="TIME",
        type=shared.above_zero("time", _NOTHING),
        help="real time that a run may take, for example 10min; a run that takes longer fails",
    )
    sweep.add_argument(
        "--memory-limit",
        metavar="SIZE",
        type=shared.above_zero("size", _NOTHING),
        help="memory that each process of a run may take, for example 4GB; a run that takes more "
        "fails",
    )
    sweep.add_argument("--retry-failed", action="store_true", help="repeat runs that failed before")

    export = add_command(
        commands,
        "export",
        "write the table of a sweep as CSV or Parquet",
        "sweep:execute_export",
        description="Write a row per run, in the order of the grid. The same grid gives the same "
        "bytes on any machine with any number of workers.",
        epilog="example: faultline export results/first-look.sqlite -o first-look.csv",
    )
    shared.add_sweep(export)
    shared.add_output(export, "the table (.csv, .parquet)", *shared.TABLES, required=True)

    compare = add_command(
        commands,
        "compare",
        "compare the schemes of a sweep, seed by seed",
        "sweep:execute_compare",
        description="Print the best result of each scheme: goodput, days, GPU-hours. Then compare "
        "the values of one axis of a sweep with a baseline: differences between runs of the same "
        "seed and the same setting, with 95 % intervals by paired t. With --metric, print only the "
        "differences.",
        epilog="example: faultline compare results/first-look.sqlite --metric availability",
    )
    shared.add_sweep(compare)
    compare.add_argument(
        "--metric", metavar="NAME", help="column of the sweep's table; default: time_to_train_ratio"
    )
    compare.add_argument(
        "--by",
        metavar="KEY",
        help="axis whose values are compared; default: strategy.name if it was varied, else "
        "the first axis",
    )
    compare.add_argument(
        "--baseline", metavar="VALUE", help="value to compare with; default: the axis's first value"
    )
    shared.add_price(compare)
    shared.add_output(
        compare,
        "all rows (.csv), or the tables for a paper in LaTeX with the package booktabs (.tex)",
        ".csv",
        ".tex",
        several=True,
    )
    compare.not_with("--metric", "--price")
