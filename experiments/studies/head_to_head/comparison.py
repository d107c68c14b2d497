"""The head-to-head from beginning to end: play, tabulate, draw, and say what came out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import pandas as pd
from faultline.experiments.config.errors import UserError
from faultline.experiments.studies.head_to_head.candidates import (
    APPROXIMATE,
    Candidate,
    all_candidates,
)
from faultline.experiments.studies.head_to_head.cells import (
    domain_plane,
    layer_cells,
    restart_plane,
    setting_cells,
    stall_cells,
)
from faultline.experiments.studies.head_to_head.figures import draw_phase_diagram, draw_settings
from faultline.experiments.studies.head_to_head.playing import Match
from faultline.experiments.studies.head_to_head.report import (
    PLACES,
    closing_sentence,
    left_out,
    places_table,
)
from faultline.experiments.studies.head_to_head.setting import Ground, measured_ground
from faultline.experiments.studies.head_to_head.store import play_all
from faultline.experiments.studies.head_to_head.tables import (
    candidate_table,
    paired_to_best,
    restricted,
)
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@dataclass(frozen=True, slots=True)
class Options:
    """What is to be played.

    Attributes
    ----------
    side : int
        Cells on a side of a plane.
    seeds, setting_seeds : int
        Seeds of a cell of a plane, and of a setting of the table.
    schemes : tuple of str
        Who takes part; all by default.
    only : str or None
        ``settings``, ``stalls``, ``layers``, ``restart`` or ``domains``; all by default.
    workers : int or None
        Processes; one a core by default.
    directory : Path
        Where everything goes.
    console : Console
        Where to print.
    """

    side: int
    seeds: int
    setting_seeds: int
    schemes: tuple[str, ...]
    only: str | None
    workers: int | None
    directory: Path
    console: Console


def run_head_to_head(options: Options) -> list[dict[str, Any]]:
    """Run the comparison; returns the rows of the settings' table, without infinite numbers."""
    candidates = tuple(all_candidates(options.schemes))
    ground = measured_ground(one.protection for one in candidates)
    matches = _matches(options, candidates, ground)
    started_s = perf_counter()
    rows = _played(matches, options)
    spent_s = perf_counter() - started_s
    table, runs = candidate_table(rows), pd.DataFrame(rows)
    found: list[dict[str, Any]] = []
    console, directory = options.console, options.directory
    for plane in table["plane"].unique():
        mine = table[table["plane"] == plane]
        if plane in PLACES:
            mine = paired_to_best(mine, runs)
            console.print(places_table(mine, plane))
        if plane == "settings":
            found = mine.astype(object).where(_is_finite(mine), None).to_dict(orient="records")
        path = directory / f"head-to-head-{plane}.csv"
        mine.to_csv(path, index=False, float_format="%.5g")
    for line in left_out(table):
        console.print(line, style="yellow")
    _draw(table, runs, directory)
    console.print(f"{len(rows):,} runs in {spent_s:,.0f} s; tables and figures: {directory}")
    console.print(closing_sentence(table), style="bold")
    return found


def _matches(options: Options, candidates: tuple[Candidate, ...], ground: Ground) -> list[Match]:
    seeds, setting_seeds = tuple(range(options.seeds)), tuple(range(options.setting_seeds))
    layered = tuple(one for one in candidates if "layers" in one.options)
    planes = {
        "settings": [
            Match(cell, candidates, setting_seeds, ground, races=False) for cell in setting_cells()
        ],
        "stalls": [
            Match(cell, candidates, setting_seeds, ground, races=False) for cell in stall_cells()
        ],
        "layers": [
            Match(cell, layered, setting_seeds, ground, races=False) for cell in layer_cells()
        ]
        if layered
        else [],
        # What takes longest comes last: there is no shorter time between failures, no larger job.
        "restart": [
            Match(cell, candidates, seeds, ground) for cell in reversed(restart_plane(options.side))
        ],
        "domains": [Match(cell, candidates, seeds, ground) for cell in domain_plane(options.side)],
    }
    chosen = planes if options.only is None else {options.only: planes[options.only]}
    if not any(chosen.values()):
        raise UserError("--only layers: none of these schemes depends on the number of layers")
    return [match for matches in chosen.values() for match in matches]


def _played(matches: Sequence[Match], options: Options) -> list[dict[str, Any]]:
    columns = (TextColumn("cells"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=options.console, transient=True) as progress:
        task = progress.add_task("cells", total=len(matches))
        return play_all(
            matches, options.directory / "cells", options.workers, lambda: progress.advance(task)
        )


def _draw(table: pd.DataFrame, runs: pd.DataFrame, directory: Path) -> None:
    planes = set(table["plane"])
    if "settings" in planes:
        draw_settings(table, directory / "head-to-head-settings.png")
    if {"restart", "domains"} <= planes:
        draw_phase_diagram(table, directory / "head-to-head-phases.png")
        exact = [name for name in table["scheme"].unique() if name not in APPROXIMATE]
        fewer = restricted(table, runs, exact)
        draw_phase_diagram(fewer, directory / "head-to-head-phases-exact.png")


def _is_finite(table: pd.DataFrame) -> pd.DataFrame:
    return table.notna() & ~table.isin([float("inf"), float("-inf")])
