"""``faultline plot`` and ``report``: figures of a sweep, and its page."""

from __future__ import annotations

import argparse
from pathlib import Path

from faultline.experiments.analysis.selection import check_axis
from faultline.experiments.commands.output import (
    check_output,
    explained,
    make_folder,
    print_files,
    waiting,
    write_output,
)
from faultline.experiments.config.errors import UserError
from faultline.experiments.figures.style import save_figure
from faultline.experiments.figures.sweep_pictures import usual_figures
from faultline.experiments.report.page import report_page
from faultline.experiments.runs.table import read_sweep


def execute(arguments: argparse.Namespace) -> None:
    """Run the command."""
    file: Path = arguments.file
    sweep = read_sweep(file)
    with waiting("drawing"):
        pictures = usual_figures(sweep)
    folder: Path = arguments.output or file.with_name(f"{file.stem}-figures")
    make_folder(folder, "-o DIR")
    written: dict[Path, str] = {}
    for picture in pictures:
        path = folder / f"{picture.name}.{arguments.format}"
        with explained(path, "choose another -o DIR"):
            save_figure(picture.figure, path)
        written[path] = f"{path}: {picture.title}"
    print_files(arguments, written)


def execute_report(arguments: argparse.Namespace) -> None:
    """Run the command."""
    file: Path = arguments.file
    output: Path = arguments.output or file.with_suffix(".html")
    sweep = read_sweep(file)
    if sweep.frame.empty:
        raise UserError(f"{file}: no run of this sweep has finished yet; let faultline sweep go on")
    if arguments.by is not None:
        check_axis(sweep.frame, arguments.by, "--by")
    check_output("-o", output)
    with waiting("comparing and drawing"):
        text = report_page(sweep, arguments.price, arguments.by)
    write_output("-o", output, text)
    print_files(arguments, {output: str(output)})
