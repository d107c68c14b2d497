"""``faultline failures``: which failure models there are, and what they produce."""

from __future__ import annotations

import argparse
import json
from typing import Any

from faultline.experiments.commands import failures_draw
from faultline.experiments.commands.failures_output import duration, gpu_count, output
from faultline.experiments.config.mix_file import MixFile, load_mix, shipped_mixes
from rich.table import Table


def add_parser(commands: Any) -> None:
    """Declare the command and its subcommands."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "failures",
        help="list failure models, and draw what they produce",
        description="Failure models: which there are, and what they produce.",
    )
    subcommands = parser.add_subparsers(dest="subcommand", required=True, metavar="SUBCOMMAND")
    _add_list(subcommands)
    failures_draw.add_parser(subcommands)


def _add_list(subcommands: Any) -> None:
    parser: argparse.ArgumentParser = subcommands.add_parser(
        "list",
        help="list the shipped mixes of causes",
        description="List the shipped mixes of causes and how often they strike a job.",
    )
    parser.add_argument(
        "--gpus",
        type=gpu_count,
        default=failures_draw.GPUS,
        metavar="N",
        help=f"GPUs of the job (default: {failures_draw.GPUS})",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON list; times in seconds")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Run ``failures list``."""
    mixes = [load_mix(name) for name in shipped_mixes()]
    rows = [_row(mix, arguments.gpus) for mix in mixes]
    if arguments.json:
        print(json.dumps(rows, allow_nan=False))
        return 0
    table = Table(box=None, pad_edge=False)
    table.add_column("mix", style="bold")
    table.add_column("causes", justify="right")
    table.add_column(f"a failure on {arguments.gpus:,} GPUs", justify="right")
    table.add_column("hardware", justify="right")
    table.add_column("what it is")
    for row in rows:
        table.add_row(
            row["name"],
            str(len(row["causes"])),
            f"every {duration(row['mtbf_s'])}",
            f"{row['hardware_share']:.0%}",
            row["description"],
        )
    output().print(table)
    return 0


def _row(mix: MixFile, gpus: int) -> dict[str, Any]:
    causes = mix.causes()
    rate_per_gpu_s = sum(cause.rate_per_gpu_s for cause in causes)
    hardware = sum(cause.rate_per_gpu_s for cause in causes if cause.kind == "hardware")
    return {
        "name": mix.name,
        "gpus": gpus,
        "mtbf_s": 1.0 / (rate_per_gpu_s * gpus),
        "hardware_share": hardware / rate_per_gpu_s,
        "causes": [cause.name for cause in causes],
        "description": mix.description,
        "source": mix.source,
    }
