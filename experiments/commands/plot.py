"""``faultline plot`` and ``report``: figures of a sweep or of one run, and a sweep's page."""

from __future__ import annotations

import argparse
from pathlib import Path

from faultline.experiments.analysis.course import read_timeline
from faultline.experiments.analysis.selection import check_axis
from faultline.experiments.commands.declarations.shared import PLOT_FORMATS
from faultline.experiments.commands.output import (
    explained,
    make_folder,
    print_files,
    refuse_idle,
    waiting,
)
from faultline.experiments.config.errors import UserError
from faultline.experiments.figures.style import save_figure
from faultline.experiments.figures.sweep_pictures import Wanted, chosen_figure, usual_figures
from faultline.experiments.figures.timeline import draw_timeline
from faultline.experiments.report.page import report_page
from faultline.experiments.runs.table import read_sweep
from faultline.platforms.files import check_writable, write_file
from matplotlib.figure import Figure

_OF_SWEEPS = ("kind", "x", "y", "metric", "by")


def execute(arguments: argparse.Namespace) -> None:
    """Run the command."""
    if arguments.source.is_file():
        _plot_run(arguments)
    else:
        _plot_sweep(arguments)


def _plot_run(arguments: argparse.Namespace) -> None:
    refuse_idle(arguments, _OF_SWEEPS, "on the picture of one run")
    source: Path = arguments.source
    events, title = read_timeline(source), f"Timeline {source.name}"
    if arguments.output is not None:
        refuse_idle(arguments, ["format"], f"with -o {arguments.output}, which ends in one")
    path = arguments.output or source.with_suffix(f".{_format(arguments)}")
    if path.suffix.removeprefix(".") not in PLOT_FORMATS:
        raise UserError(f"-o {path}: name a file that ends in .{', .'.join(PLOT_FORMATS)}")
    make_folder(path.parent, "-o PATH")
    print_files(arguments, _saved(arguments, draw_timeline(events, title), title, path))


def _plot_sweep(arguments: argparse.Namespace) -> None:
    sweep = read_sweep(arguments.source)
    chosen = {option: value for option in _OF_SWEEPS if (value := getattr(arguments, option))}
    frame = sweep.frame
    with waiting("drawing"):
        pictures = [chosen_figure(frame, Wanted(**chosen))] if chosen else usual_figures(sweep)
    folder = arguments.output or arguments.source / "figures"
    make_folder(folder, "-o PATH")
    written: dict[Path, str] = {}
    for picture in pictures:
        path = folder / f"{picture.name}.{_format(arguments)}"
        written |= _saved(arguments, picture.figure, picture.title, path)
    print_files(arguments, written)


def _format(arguments: argparse.Namespace) -> str:
    return arguments.format or PLOT_FORMATS[0]


def _saved(
    arguments: argparse.Namespace, figure: Figure, title: str, path: Path
) -> dict[Path, str]:
    if arguments.no_title:
        figure.suptitle("")
    with explained(path, "choose another -o PATH"):
        save_figure(figure, path)
    return {path: f"{path}: {title}"}


def execute_report(arguments: argparse.Namespace) -> None:
    """Run the command."""
    directory: Path = arguments.dir
    output: Path = arguments.output or directory / "report.html"
    sweep = read_sweep(directory)
    if sweep.frame.empty:
        raise UserError(
            f"{directory}: no run of this sweep has finished yet; let faultline sweep go on"
        )
    if arguments.by is not None:
        check_axis(sweep.frame, arguments.by, "--by")
    with explained(f"--output {output}", "name a file that can be written"):
        check_writable(output)
    with waiting("comparing and drawing"):
        text = report_page(sweep, arguments.price, arguments.by)
    with explained(f"--output {output}", "name a file that can be written"):
        write_file(output, text)
    print_files(arguments, {output: str(output)})
