"""``faultline failures``."""

from __future__ import annotations

from pathlib import Path

from faultline.experiments.commands.declarations import shared
from faultline.experiments.commands.declarations.parsing import (
    Commands,
    Parser,
    add_command,
    add_group,
)


def declare(commands: Commands) -> None:
    """Declare the commands for failure models and logs."""
    failures = add_group(
        commands,
        "failures",
        "draw failures of a model, import logs, and fit models to them",
        "Draw the failures of a model, or make a trace or a model from a log.",
    )

    draw = add_command(
        failures,
        "draw",
        "draw the failures of a model or a scenario",
        "failures:execute_draw",
        description="Draw failures and print their number and the expected number by cause. A "
        f"model by itself is drawn for {shared.DRAWN_GPUS:,} GPUs in groups of "
        f"{shared.DRAWN_GPUS_PER_GROUP}; a "
        "scenario is drawn for its own job.",
        epilog="example: faultline failures draw llama3 --days 54 -o llama3.png -o llama3.csv",
    )
    draw.add_argument(
        "what",
        metavar="WHAT",
        help="a mix ({mixes}, or a TOML file with causes), a trace (a CSV file), or a scenario "
        "({scenarios}, or a TOML file)",
    )
    draw.add_argument("--gpus", metavar="N", type=shared.gpus, help="GPUs of the job")
    shared.add_days(draw, "days to draw (default: 54)", 54.0)
    shared.add_seed(draw)
    shared.add_settings(draw)
    shared.add_output(
        draw,
        "a figure (.png, .svg, .pdf), or the failures as a trace to run again (.csv)",
        *shared.FIGURES,
        ".csv",
        several=True,
    )

    import_ = add_command(
        failures,
        "import",
        "make a trace from a log: Slurm or CSV",
        "failures:execute_import",
        description="Read a log of failures and write it as a trace, each node a host of the job.",
        epilog="example: faultline failures import sacct.txt -o trace.csv",
    )
    _add_log(import_)
    shared.add_output(import_, "the trace to write (.csv)", ".csv", required=True)

    fit = add_command(
        failures,
        "fit",
        "fit rates, shapes, lemons and repair times to a log",
        "failures:execute_fit",
        description="Fit a log of failures: rates by cause, Weibull shapes, how nodes differ, "
        "repair times, each with a 95 % interval or the reason why it cannot be fitted.",
        epilog="example: faultline failures fit sacct.txt -o ours.toml -o fit.png",
    )
    _add_log(fit)
    shared.add_output(
        fit,
        "a mix that scenarios can use (.toml), or a figure (.png, .svg, .pdf)",
        ".toml",
        *shared.FIGURES,
        several=True,
    )


def _add_log(parser: Parser) -> None:
    parser.add_argument(
        "log",
        metavar="LOG",
        type=Path,
        help="sacct --parsable2, a CSV file with time,node, a JSON list of fault records, "
        "or a trace",
    )
    shared.add_nodes_of_a_log(parser)
