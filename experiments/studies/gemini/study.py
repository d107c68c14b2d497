"""Checkpoints in the host memory of peers (GEMINI, Wang et al. 2023, SOSP).

Whether memory still holds all state after lost machines: the published probabilities, their lower
bound, the exact value and random sets. And what the paper does not study: failures that take a
whole scale-up domain, on 16,384 GPUs with the shipped mixes of causes, for GEMINI and REFT.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from faultline.experiments.studies.base import Options, Reproduction, Row
from faultline.experiments.studies.gemini import figures, rows, tables
from faultline.experiments.studies.gemini.recovery import domain_table, recovery_table
from faultline.experiments.studies.gemini.setting import MIXES
from faultline.experiments.studies.gemini.wasted import placement_table, wasted_table
from faultline.experiments.studies.gemini.window_table import curve_table, window_table
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

_SETS, _FULL_SETS = 20_000, 200_000
_DAYS, _FULL_DAYS = 2_000, 20_000
_SHOWN_MIX = "llama3"


def reproduce(options: Options) -> list[Row]:
    """Reproduce the study: tables and figures into the directory, the headline on the console.

    Returns
    -------
    list of Row
        Every result beside its published value, where one is printed.
    """
    seeds = range(options.seeds)
    sets = _FULL_SETS if options.full else _SETS
    days = _FULL_DAYS if options.full else _DAYS
    with _progress(options) as progress:
        bar = progress.add_task("lost machines", total=3 + len(MIXES))
        recovery = recovery_table(seeds, sets)
        progress.update(bar, advance=1, description="lost domains")
        domains = domain_table(seeds, sets)
        progress.advance(bar)
        parts = []
        for mix in MIXES:
            progress.update(bar, description=f"failures of {mix}")
            parts.append(window_table(mix, seeds, days))
            progress.advance(bar)
        progress.update(bar, description="closed forms")
        curves = curve_table(_SHOWN_MIX)
        progress.advance(bar)
    windows = pd.concat(parts, ignore_index=True)
    wasted, placed = wasted_table(), placement_table()

    results = [
        *rows.recovery_rows(recovery),
        *rows.domain_rows(domains),
        *rows.window_rows(windows),
        *rows.wasted_rows(wasted, placed),
    ]
    _write_tables(
        options.directory,
        rows=pd.DataFrame([row.as_dict() for row in results]),
        recovery=recovery,
        domains=domains,
        windows=windows,
        curves=curves,
        wasted=wasted,
        placement=placed,
    )
    drawn = [
        figures.draw_recovery(recovery, options.directory / "recovery.png"),
        figures.draw_survival(windows, curves, _SHOWN_MIX, options.directory / "survival.png"),
    ]
    show = options.console.print
    show(tables.recovery_table(recovery))
    show(tables.window_table(windows, _SHOWN_MIX, 24))
    show(tables.wasted_table(wasted, placed))
    show(tables.agreement_sentence(windows, domains, recovery))
    show(f"Tables: {options.directory}/*.csv; figures: {', '.join(str(f) for f in drawn)}")
    show(tables.closing_sentence(windows, placed), style="bold")
    return results


REPRODUCTION = Reproduction(
    "gemini",
    "checkpoints in peers' memory, and lost scale-up domains (Wang et al. 2023)",
    reproduce,
)


def _write_tables(directory: Path, **contents: pd.DataFrame) -> None:
    for name, content in contents.items():
        content.to_csv(directory / f"{name}.csv", index=False)


def _progress(options: Options) -> Progress:
    return Progress(
        TextColumn("{task.description:22}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=options.console,
    )
