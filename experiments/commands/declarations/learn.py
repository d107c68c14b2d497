"""``faultline learn`` and ``backtest``: a job's own log."""

from __future__ import annotations

from pathlib import Path

from faultline.experiments.commands.declarations import shared
from faultline.experiments.commands.declarations.parsing import Commands, Parser, add_command


def declare(commands: Commands) -> None:
    """Declare the commands that read the log of a job."""
    learn = add_command(
        commands,
        "learn",
        "write a scenario of a job from its goodput event log",
        "learn:execute",
        description="Read a goodput event log (JSON lines: when nodes started, loaded and saved), "
        "fit the times of the job, and write a scenario with what is uncertain in them.",
        epilog="example: faultline learn events.jsonl -o our-job.toml",
    )
    _add_log(learn)
    shared.add_output(learn, "FILE", "the scenario to write (.toml)", required=True)

    backtest = add_command(
        commands,
        "backtest",
        "predict the second half of a log from the first, and compare",
        "learn:execute_backtest",
        description="Fit the first half of a goodput event log, simulate the second many times, "
        "and print predicted beside measured.",
        epilog="example: faultline backtest events.jsonl -o progress.png",
    )
    _add_log(backtest)
    backtest.add_argument(
        "--nodes",
        metavar="N",
        type=shared.whole(" is no number of nodes: use 1 to 1000000", 1, 10**6),
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
    shared.add_output(backtest, "FILE", "a figure of the progress (.png, .svg, .pdf)")


def _add_log(parser: Parser) -> None:
    parser.add_argument("log", metavar="LOG", type=Path, help="a goodput event log (JSON lines)")
    parser.add_argument(
        "--gpus-per-node",
        metavar="N",
        type=shared.whole(" is no number of GPUs: use 1 to 1000", 1, 1000),
        default=8,
        help="GPUs of a node (default: 8)",
    )
