"""``faultline reproduce`` and ``head-to-head``."""

from __future__ import annotations

from faultline.experiments.commands.declarations import shared
from faultline.experiments.commands.declarations.parsing import Commands, add_command

_TABLES = ("settings", "stalls", "interleaved", "layers", "links")


def declare(commands: Commands) -> None:
    """Declare the studies."""
    reproduce = add_command(
        commands,
        "reproduce",
        "run a published comparison and print it next to the published numbers",
        "reproduce:execute",
        description="Run a published comparison again: tables and figures go to results/NAME, the "
        "headline to the screen.",
    )
    reproduce.add_argument(
        "name", metavar="NAME", nargs="?", help="a study; without it, all studies are listed"
    )
    reproduce.add_argument(
        "--full", action="store_true", help="simulate everything that was published"
    )
    reproduce.add_argument(
        "--seeds", metavar="K", type=shared.count, help="default: 3, or that of the study"
    )
    shared.add_workers(reproduce)
    shared.add_output(reproduce, "default: results/NAME")

    match = add_command(
        commands,
        "head-to-head",
        "run all schemes on one platform, and draw maps of which is best where",
        "reproduce:execute_head_to_head",
        description="Plan one job in several circumstances (three settings, one price for every "
        "recovery, other layers, other links), and two jobs on maps of two circumstances, over "
        "the priors of all other inputs: which scheme trains soonest. Answers are kept in "
        "DIR/cells.sqlite: the same command resumes after an interruption.",
        epilog="example: faultline head-to-head --quick --schemes checkpoint,spare",
    )
    match.add_argument(
        "--quick",
        action="store_true",
        help="one table and one map, at every other value of their axes",
    )
    match.add_argument(
        "--worlds", metavar="K", type=shared.count, help="worlds of a cell; default: 8, or 4"
    )
    shared.add_schemes(match, "default: all")
    match.add_argument(
        "--only",
        metavar="PART",
        choices=(*_TABLES, "maps"),
        help="one of: settings, stalls, interleaved (pipelines), layers, links (and GPUs, slower), "
        "maps; default: all",
    )
    shared.add_workers(match)
    shared.add_output(match, "default: results/head-to-head")
