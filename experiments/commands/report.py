"""``faultline report``: one page that tells what a sweep found."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from faultline.experiments.config.errors import UserError


def add_parser(commands: Any) -> None:
    """Declare the command and its arguments."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "report",
        help="write one page that tells what a sweep found",
        description="Write one self-contained HTML page from a sweep: the answer, what was asked, "
        "comparisons, figures, where the time went, all points. It needs no network.",
        epilog="example: faultline report results/my-sweep -o report.html",
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="what faultline sweep wrote")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="the page; default: report.html in DIR",
    )
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    # pandas, jinja2 and matplotlib take a second to load, which other commands need not wait for.
    from faultline.experiments.report.page import make_page
    from faultline.experiments.report.render import render
    from faultline.experiments.runs.table import read_sweep

    directory: Path = arguments.directory
    output: Path = arguments.output or directory / "report.html"
    sweep = read_sweep(directory)
    if sweep.frame.empty:
        raise UserError(
            f"{directory}: no run of this sweep has finished yet; let faultline sweep go on"
        )
    _check_writable(output)
    text = render(make_page(sweep))
    output.write_text(text, encoding="utf-8", newline="\n")
    print(output)
    return 0


def _check_writable(path: Path) -> None:
    """Find out before the figures are drawn that the page has no place to go."""
    existed = path.exists()
    try:
        with path.open("a", encoding="utf-8"):
            pass
    except OSError as error:
        raise UserError(
            f"--output {path}: {error.strerror}; name a file that can be written"
        ) from error
    if not existed:
        path.unlink()
