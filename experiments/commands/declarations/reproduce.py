"""``faultline reproduce`` and ``head-to-head``."""

from __future__ import annotations

from faultline.experiments.commands.declarations import shared
from faultline.experiments.commands.declarations.parsing import Commands, add_command

_TABLES = ("settings", "stalls", "interleaved", "layers", "links")
_PLANES = ("restart", "domains")


def declare(commands: Commands) -> None:
    """Declare the studies."""
    reproduce = add_command(
        commands,
        "reproduce",
        "run a published comparison and print it beside the published numbers",
        "reproduce:execute",
        description="Run a published comparison again: tables and figures go to results/NAME, the "
        "headline to the screen.",
    )
    reproduce.add_argument("name", metavar="NAME", help="which one; faultline list studies")
    reproduce.add_argument("--full", action="store_true", help="everything that was published")
    reproduce.add_argument(
        "--seeds", metavar="K", type=shared.count, help="default: 3, or what the study says"
    )
    shared.add_workers(reproduce)
    shared.add_output(reproduce, "DIR", "default: results/NAME")

    match = add_command(
        commands,
        "head-to-head",
        "run all schemes on one platform, and draw the map of which is best where",
        "reproduce:execute_head_to_head",
        description="All schemes of this project, with one model on one platform, under the same "
        "failures: a table of three settings, what becomes of one of them where every event costs "
        "everybody the same, or where the layers divide otherwise, and two planes that show which "
        "scheme trains soonest and which with the fewest GPU-hours. Simulated cells are kept in "
        "DIR/cells: the same command goes on where it was interrupted.",
        epilog="example: faultline head-to-head --quick --schemes checkpoint spare/reft",
    )
    match.add_argument("--quick", action="store_true", help="a coarse grid and few seeds")
    match.add_argument(
        "--seeds", metavar="K", type=shared.count, help="seeds of a cell; default: 3, or 1"
    )
    shared.add_schemes(match, "schemes, or one as spare/reft; default: all")
    match.add_argument(
        "--only",
        choices=(*_TABLES, *_PLANES),
        help="the table of settings, what stalls, interleaved pipelines, layers, or slower links "
        "and GPUs do to it, or one plane; default: all",
    )
    shared.add_workers(match)
    shared.add_output(match, "DIR", "default: results/head-to-head")
    match.not_with("--only", "--seeds", values=_TABLES)
