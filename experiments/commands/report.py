"""``faultline report``: one page that tells what a sweep found."""

from __future__ import annotations

import argparse
from pathlib import Path

from faultline.experiments.commands.output import check_writable
from faultline.experiments.config.errors import UserError
from faultline.experiments.report.page import make_page, render
from faultline.experiments.runs.table import read_sweep


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    directory: Path = arguments.dir
    output: Path = arguments.output or directory / "report.html"
    sweep = read_sweep(directory)
    if sweep.frame.empty:
        raise UserError(
            f"{directory}: no run of this sweep has finished yet; let faultline sweep go on"
        )
    check_writable(output, "--output")
    text = render(make_page(sweep))
    output.write_text(text, encoding="utf-8", newline="\n")
    print(output)
    return 0
