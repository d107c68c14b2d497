"""``faultline learn`` and ``backtest``: a job's own log."""

from __future__ import annotations

from pathlib import Path

from faultline.experiments.commands.declarations import shared
from faultline.experiments.commands.declarations.parsing import Commands, add_command


def declare(commands: Commands) -> None:
    """Declare the commands that read the log of a job."""
    learn = add_command(
        commands,
        "learn",
        "write a scenario of a job from its logs",
        "learn:execute",
        description="Read a goodput event log (JSON lines: when nodes started, loaded and saved), "
        "a log of failures by node, or both; fit the times of the job and the failures of its "
        "nodes, and write a scenario with their uncertainty.",
        epilog="example: faultline learn events.jsonl sacct.txt -o our-job.toml",
    )
    learn.add_argument(
        "logs",
        metavar="LOG",
        type=Path,
        nargs="+",
        help="a goodput event log (JSON lines), or a log of failures as for 'failures fit'",
    )
    shared.add_nodes_of_a_log(learn)
    shared.add_output(learn, "the scenario to write (.toml)", ".toml", required=True)

    backtest = add_command(
        commands,
        "backtest",
        "predict the second half of a log from the first, and compare",
        "learn:execute_backtest",
        description="Fit the first half of a goodput event log, simulate the second many times, "
        "and print predicted next to measured results.",
        epilog="example: faultline backtest events.jsonl -o progress.png",
    )
    backtest.add_argument("log", metavar="LOG", type=Path, help="a goodput event log (JSON lines)")
    shared.add_gpus_per_node(backtest)
    backtest.add_argument(
        "--nodes",
        metavar="N",
        type=shared.nodes,
        help="nodes of the cluster: predicts, from a JSON list of fault records, how many are down",
    )
    shared.add_seed(backtest)
    backtest.add_argument(
        "--seeds",
        metavar="N",
        type=shared.whole(": use a whole number from 20", 20),
        default=200,
        help="runs of the prediction (default: 200)",
    )
    shared.add_output(backtest, "a figure of the progress (.png, .svg, .pdf)", *shared.FIGURES)
