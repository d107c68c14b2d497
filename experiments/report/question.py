"""The question of a sweep: the keys of its scenario, versions, hashes, caveats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import tomlkit
from faultline.experiments.analysis.quantities import is_missing, with_unit
from faultline.experiments.analysis.selection import caveats, machines_notes
from faultline.experiments.config.distribution import own_version
from faultline.experiments.config.keys import schema_keys
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.report.tables import Table, table_of, text
from faultline.experiments.runs.store import Plan
from faultline.experiments.runs.table import Sweep

_NOT_OF_THE_QUESTION = ("version", "name", "description")


def axes_table(sweep: Sweep) -> Table:
    """Return the varied keys with their values and meanings."""
    return _keys_table("axes-table", "What the sweep varies", sweep.axes)


def scenario_table(sweep: Sweep) -> Table:
    """Return the keys that all runs share, with their values and meanings."""
    others = {*_NOT_OF_THE_QUESTION, *sweep.axes}
    fixed = sweep.plan.fixed
    stated = {key: [value] for key, value in fixed.items() if key not in others}
    return _keys_table("scenario-table", "The keys that all runs share", stated)


def _keys_table(name: str, caption: str, stated: Mapping[str, Sequence[Any]]) -> Table:
    """Return a row per key in the order of the schema; unknown keys are last, without meaning."""
    references = {one.dotted: one for one in schema_keys(Scenario).values()}
    order = list(references)
    rows = []
    for key in sorted(stated, key=lambda key: order.index(key) if key in order else len(order)):
        known = references.get(key)
        unit, meaning = (known.unit, known.meaning) if known else (None, "")
        values = ("left open" if is_missing(one) else with_unit(one, unit) for one in stated[key])
        rows.append({"key": key, "values": ", ".join(values), "meaning": meaning})
    columns = (
        text("key", "key"),
        text("values", "values", "prose"),
        text("meaning", "meaning", "prose"),
    )
    return table_of(name, caption, columns, rows)


def grid_text(grid: Mapping[str, Any]) -> str:
    """Return the grid file of a sweep, from the ``grid`` of its plan."""
    stated = {key: value for key, value in grid.items() if key != "cases" and value != {}}
    cases = [dict(case) for case in grid.get("cases", []) if case]
    return tomlkit.dumps({**stated, **({"cases": cases} if cases else {})}).strip() + "\n"


def provenance_table(frame: pd.DataFrame, plan: Plan) -> Table:
    """Return versions, seeds, engine, the digest of the code, and the source of machines."""
    rows = {
        "Sweep planned by": f"Faultline {plan.faultline}",
        "Runs simulated by": f"Faultline {_values(frame, 'version') or 'unknown'}; "
        f"digest of its code: {_values(frame, 'code')}",
        "Page written by": f"Faultline {own_version()}",
        "Engine": plan.engine,
        "Seeds": ", ".join(map(str, plan.seeds)),
        "Failed machines": " ".join(machines_notes(frame)) or "unknown",
    }
    return table_of(
        "provenance-table",
        "Versions, seeds and machines",
        (text("name", "name"), text("value", "value", "prose")),
        [{"name": name, "value": value} for name, value in rows.items()],
    )


def _values(frame: pd.DataFrame, column: str) -> str:
    values = frame[column].dropna().unique() if column in frame else []
    return ", ".join(map(str, values))


def notices(sweep: Sweep) -> tuple[str, ...]:
    """Return warnings about the runs, a sentence each."""
    sentences = []
    there = len(sweep.frame)
    if there < sweep.planned:
        sentences.append(
            f"This sweep is not finished: {there:,} of {sweep.planned:,} runs are there. Repeat "
            "the faultline sweep command to execute the others."
        )
    if sweep.frame["code"].nunique() > 1:
        sentences.append("These runs were simulated by different versions of Faultline's code.")
    return (*sentences, *caveats(sweep.frame))
