"""The tables of the study, for the screen."""

from __future__ import annotations

from typing import Any

import pandas as pd
from faultline.experiments.figures.style import SCHEME_NAMES
from faultline.experiments.studies.adaptive.variants import VARIANTS
from rich.box import SIMPLE_HEAD
from rich.table import Table

_SHOWN = {"spare": (2, 3, 9), "replication": (2, 3, 4)}
_NAME_WIDTH = 24


def changes_table(changes: pd.DataFrame, groups: int, scheme: str) -> Table:
    """Show how much time each variant saves at each redundancy, with paired intervals."""
    mine = changes[
        (changes.groups == groups)
        & (changes.strategy == scheme)
        & (changes.metric == "time_to_train_ratio")
    ]
    shown = [r for r in _SHOWN[scheme] if r in set(mine.redundancy)]
    table = _table(f"{SCHEME_NAMES[scheme]}, N = {groups}: time to train against plain, in %")
    table.add_column("at r =", min_width=_NAME_WIDTH)
    for redundancy in shown:
        table.add_column(str(redundancy), justify="right", no_wrap=True)
    for variant in VARIANTS[1:]:
        cells = mine[mine.variant == variant.name].set_index("redundancy")
        table.add_row(variant.name, *(_change(cells.loc[r]) for r in shown))
    return table


def best_table(best: pd.DataFrame, groups: int) -> Table:
    """Show each variant at its best redundancy, in time and in GPU-hours."""
    table = _table(
        f"Each at its best redundancy, N = {groups}; change of GPU-hours against plain, in %"
    )
    table.add_column("scheme")
    table.add_column("variant", min_width=_NAME_WIDTH)
    for name in ("r", "time", "GPU-hours", "change"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in best[best.groups == groups].itertuples():
        against = "" if pd.isna(row.best_change) else _change(row, "best_change")
        table.add_row(
            str(row.strategy),
            str(row.variant),
            str(row.redundancy),
            f"{row.time_to_train_ratio:.2f}",
            f"{row.gpu_hours_ratio:.2f}",
            against,
        )
    return table


def dynamic_sentence(changes: pd.DataFrame, groups: int) -> str:
    """Say what dynamic checkpoints are worth at low redundancy."""

    def at(scheme: str, redundancy: int) -> str:
        row = _row(changes, "time_to_train_ratio", "dynamic", scheme, groups)
        return f"{_change(row[row.redundancy == redundancy].iloc[0])} %"

    return (
        f"Checkpoints that follow the hazard change SPARe's time to train at N = {groups} by "
        f"{at('spare', 2)} at r = 2, {at('spare', 3)} at r = 3 and {at('spare', 9)} at r = 9 "
        f"(replication at r = 3: {at('replication', 3)}); changes with paired 95 % intervals."
    )


def rejoin_sentence(best: pd.DataFrame, groups: int) -> str:
    """Say what rejoining groups and spares are worth, each variant at its best redundancy."""
    mine = best[(best.groups == groups) & (best.strategy == "spare")].set_index("variant")

    def at(variant: str) -> str:
        row = mine.loc[variant]
        return f"{row.time_to_train_ratio:.2f} (r = {row.redundancy})"

    spares = mine.loc["rejoin 3 h + 20 % spares"]
    hours, plain = spares.gpu_hours_ratio, mine.loc["plain"].gpu_hours_ratio
    return (
        f"Groups that rejoin at checkpoints after a repair of 3 h bring SPARe's best time-to-train "
        f"ratio at N = {groups} from {at('plain')} to {at('rejoin 3 h')}, after one of 1 h "
        f"to {at('rejoin 1 h')}; 20 % spare groups on top of 3 h bring it to "
        f"{at('rejoin 3 h + 20 % spares')}, which is {hours:.2f} against {plain:.2f} in "
        "GPU-hours."
    )


def _row(
    changes: pd.DataFrame, metric: str, variant: str, scheme: str, groups: int
) -> pd.DataFrame:
    return changes[
        (changes.metric == metric)
        & (changes.variant == variant)
        & (changes.strategy == scheme)
        & (changes.groups == groups)
    ]


def _change(row: Any, name: str = "change") -> str:
    """Return a change in per cent with half the width of its interval."""
    change, high = getattr(row, name), getattr(row, f"{name}_high")
    text = f"{100 * change:+.1f}"
    return text if pd.isna(high) else f"{text} ± {100 * (high - change):.1f}"


def _table(title: str) -> Table:
    return Table(
        title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False
    )
