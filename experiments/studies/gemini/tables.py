"""The tables of the study, for the screen."""

from __future__ import annotations

import pandas as pd
from faultline.experiments.studies.gemini.rows import PUBLISHED_RECOVERY
from faultline.experiments.studies.gemini.setting import PLACEMENTS, SCHEMES
from faultline.strategies.in_memory.node_groups import Placement
from rich.box import SIMPLE_HEAD
from rich.table import Table

_SHOWN_LOSSES = (2, 3, 4, 8, 16)
_SHOWN_SHARES = (0.0, 0.1, 0.2)


def recovery_table(table: pd.DataFrame) -> Table:
    """Show GEMINI's recovery probability: published, bound, exact and drawn."""
    shown = _table("Recovery from memory after k of N machines are lost, m replicas (GEMINI)")
    for name in ("N", "m", "k", "published", "bound", "exact", "Monte Carlo, 95 %"):
        shown.add_column(name, justify="right", no_wrap=True)
    for cell in table[table.lost.isin(_SHOWN_LOSSES)].itertuples():
        known = PUBLISHED_RECOVERY.get((cell.machines, cell.replicas, cell.lost))
        shown.add_row(
            str(cell.machines),
            str(cell.replicas),
            str(cell.lost),
            "" if known is None else f"{known:g}%",
            f"{cell.bound:.2%}",
            f"{cell.exact:.2%}",
            f"{cell.low:.2%} to {cell.high:.2%}",
        )
    return shown


def window_table(table: pd.DataFrame, mix: str, hours: int) -> Table:
    """Show the survival through a window over the share of failures that take a domain."""
    shown = _table(
        f"State in memory survives {hours} h, nothing rebuilt: {mix}, 16,384 GPUs,\n"
        "by the share of failures that take a domain of 8 hosts, and by placement"
    )
    shown.add_column("scheme", no_wrap=True)
    columns: list[tuple[float, Placement]] = [(0.0, "across-domains")]
    shown.add_column("0%\neither", justify="right", no_wrap=True)
    for share in _SHOWN_SHARES[1:]:
        for placement in PLACEMENTS:
            heading = f"{share:.0%}\n{placement.split('-')[0]}"
            shown.add_column(heading, justify="right", no_wrap=True)
            columns.append((share, placement))
    mine = table[(table.mix == mix) & (table.window_h == hours)]
    exact = mine.set_index(["scheme", "domain_share", "placement"]).exact
    for name, scheme in SCHEMES.items():
        shown.add_row(scheme.label, *(f"{exact[(name, *column)]:.2%}" for column in columns))
    return shown


def wasted_table(wasted: pd.DataFrame, placed: pd.DataFrame) -> Table:
    """Show what a failure wastes, by where checkpoints are and by placement."""
    shown = _table("Wasted time a failure: t_ckpt + 1/(2f) + t_retrieval")
    shown.add_column("checkpoints")
    shown.add_column("minutes", justify="right", no_wrap=True)
    for way in wasted.itertuples():
        shown.add_row(way.checkpoints, f"{way.wasted_s / 60:.1f}")
    for cell in placed[placed.domain_share.isin(_SHOWN_SHARES[1:])].itertuples():
        shown.add_row(
            f"memory, {cell.placement}, {cell.domain_share:.0%} of failures take a domain",
            f"{cell.wasted_s / 60:.1f}",
        )
    return shown


def agreement_sentence(windows: pd.DataFrame, domains: pd.DataFrame, recovery: pd.DataFrame) -> str:
    """Say how often the closed forms lie within the intervals of the draws."""
    inside = total = 0
    for table in (windows, domains, recovery):
        inside += int(((table.exact >= table.low) & (table.exact <= table.high)).sum())
        total += len(table)
    return (
        f"Closed forms within the 95 % interval of the draws: {inside} of {total} cells (cells "
        "share draws)."
    )


def closing_sentence(windows: pd.DataFrame, placed: pd.DataFrame) -> str:
    """Say what the study comes to."""
    day = windows[
        (windows.mix == "llama3")
        & (windows.window_h == 24)
        & (windows.domain_share == 0.1)
        & (windows.scheme == "gemini-2")
    ].set_index("placement")
    tenth = placed[placed.domain_share == 0.1].set_index("placement").wasted_s / 60
    return (
        "If 10 % of the failures take a whole scale-up domain, two replicas across domains survive "
        "24 h of Llama 3's failures, nothing rebuilt, with a probability of "
        f"{day.exact['across-domains']:.1%}, neighbours with {day.exact['neighbours']:.1%}; a "
        f"failure wastes {tenth['across-domains']:.1f} minutes on average instead of "
        f"{tenth['neighbours']:.1f}."
    )


def _table(title: str) -> Table:
    return Table(
        title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False
    )
