"""Where the time went: the share of each cause, a row a choice and condition."""

from __future__ import annotations

import pandas as pd
from faultline.experiments.analysis.numbers import decimals_for
from faultline.experiments.analysis.time_units import time_unit
from faultline.experiments.report.comparison_table import condition_kind
from faultline.experiments.report.naming import axis_title, axis_value, choice_name
from faultline.experiments.report.standings import Standings
from faultline.experiments.report.tables import Column, Row, Table, number_cell, text_cell
from faultline.simulator.badput import CAUSES, MEANINGS, USEFUL

MOST_ROWS = 100


def shares(order: Standings) -> pd.DataFrame:
    """Return the mean share of each cause in the simulated time, over the seeds of each choice.

    Returns
    -------
    DataFrame
        A row a condition and place, as in the standings, with ``time_s`` and a column for each
        cause (``restart_share``) and for the useful ones together (``useful_share``); the shares of
        all causes sum to 1.
    """
    columns = [f"{cause}_s" for cause in CAUSES]
    keys = [*order.conditions, "place"]
    means = order.runs_of_best().groupby(keys, dropna=False, as_index=False)[columns].mean()
    total_s = means[columns].sum(axis="columns")
    for cause in CAUSES:
        means[f"{cause}_share"] = means[f"{cause}_s"] / total_s
    means["useful_share"] = means[[f"{cause}_share" for cause in USEFUL]].sum(axis="columns")
    names = [*keys, "strategy", *order.knobs, "redundancy", "time_s"]
    return order.best()[names].merge(means.drop(columns=columns), on=keys)


def badput_table(order: Standings) -> Table:
    """Return the shares as percentages; causes that took no time anywhere are left out."""
    table = shares(order)
    unit = time_unit(table["time_s"])
    causes = [cause for cause in CAUSES if (table[f"{cause}_share"].abs() >= 5e-4).any()]
    columns = (
        Column("scheme and setting", "text"),
        *(Column(axis_title(axis), condition_kind(order, axis)) for axis in order.conditions),
        Column(f"time ({unit.name})"),
        Column("useful in all"),
        *(Column(MEANINGS[cause]) for cause in causes),
    )
    decimals = decimals_for(table["time_s"] / unit.seconds)
    rows = tuple(
        Row(
            (
                text_cell(choice_name(row, order.knobs)),
                *(text_cell(axis_value(axis, row[axis])) for axis in order.conditions),
                number_cell(row["time_s"] / unit.seconds, decimals),
                number_cell(100 * row["useful_share"], 1, " %"),
                *(number_cell(100 * row[f"{cause}_share"], 1, " %") for cause in causes),
            )
        )
        for row in table.head(MOST_ROWS).to_dict(orient="records")
    )
    caption = "Share of the simulated time by cause, mean over seeds"
    if len(table) > MOST_ROWS:
        caption += f" (the first {MOST_ROWS} of {len(table):,} rows)"
    return Table("badput-table", caption, columns, rows)
