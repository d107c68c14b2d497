"""``faultline sweep`` and ``compare``."""

from __future__ import annotations

from pathlib import Path

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
        description="Simulate every point of a grid with every seed. Each result is written to DIR "
        "at once; the same command again simulates only missing runs. At the end, DIR has tables "
        "with a row per run.",
        epilog="example: faultline sweep first-look -o results/first-look",
    )
    sweep.add_argument("grid", metavar="GRID", help="a TOML file, or one of: {grids}")
    shared.add_output(sweep, "DIR", "folder of the results", required=True)
    either = sweep.add_mutually_exclusive_group()
    either.add_argument(
        "--workers", metavar="N", type=shared.count, help="runs at a time; default: one per core"
    )
    either.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="run on the workers of a Dask scheduler: tls://HOST:PORT with certificates, "
        "tcp://127.0.0.1:PORT without (docs/many-machines.md)",
    )
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
        help="memory that a run may take, for example 4GB; a run that takes more fails",
    )
    sweep.add_argument("--retry-failed", action="store_true", help="repeat runs that failed before")

    compare = add_command(
        commands,
        "compare",
        "compare the schemes of a sweep, seed by seed",
        "sweep:execute_compare",
        description="Print the best result of each scheme: goodput, days, GPU-hours. Then compare "
        "the values of one axis of a sweep with a baseline: differences between runs of the same "
        "seed and the same setting, with 95 % intervals by paired t. With --metric, print only the "
        "differences.",
        epilog="example: faultline compare results/mtbf --metric availability --baseline "
        "replication",
    )
    compare.add_argument(
        "dir", metavar="DIR", type=Path, help="a folder that faultline sweep wrote"
    )
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
    compare.add_argument("--csv", metavar="FILE", type=Path, help="write all rows to a CSV file")
    compare.add_argument(
        "--latex",
        metavar="FILE",
        type=Path,
        help="write the tables for a paper, in LaTeX with the package booktabs",
    )
    compare.not_with("--metric", "--price")
