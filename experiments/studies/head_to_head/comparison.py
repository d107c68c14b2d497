"""The head-to-head: plans of one job in listed circumstances, and of two jobs on maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import pandas as pd
from faultline.experiments.analysis.quantities import counted
from faultline.experiments.config.errors import UserError, did_you_mean
from faultline.experiments.job.failure_model import failure_model
from faultline.experiments.job.hardware import breakage_of
from faultline.experiments.planner.planning import Effort, answer_plan
from faultline.experiments.planner.situation import read_situation
from faultline.experiments.report.tables import Table, wide_table
from faultline.experiments.studies.base import Draw, Headline, Results, Row, Study, Tables
from faultline.experiments.studies.head_to_head.figures import (
    draw_settings,
    map_figures,
    map_sentences,
    name_of,
)
from faultline.experiments.studies.head_to_head.grids import (
    FACTS,
    LISTS,
    MAPS_OF,
    Cell,
    every_other,
    listed_cells,
    map_cells,
)
from faultline.experiments.studies.stage import Stage
from faultline.strategies.plugins.registry import all_strategies

MAPS = "maps"
"""The name of the maps for ``--only``."""

_OF_LAYERS = "oobleck"
"""The scheme that divides its pipelines anew by whole layers: the list ``layers`` is its own."""

_CELL = ["plane", "job", "x", "y"]
_MAP_COLUMNS = [
    "job", "plane", "x", "y", "scheme", "ties", "probability", "ratio", "regret", "plain_cost",
]  # fmt: skip

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CellPlan:
    """A plan to make: its cell, its schemes (all if none), and how much to simulate."""

    cell: Cell
    schemes: tuple[str, ...]
    worlds: int
    failures: int  # Failures of a run, if the job has so many.


def plan_cell(task: CellPlan) -> list[Record]:
    """Return the answer of a cell: a row per scheme, the advised one first, then those left out.

    Times are ratios to the time without failures. Columns: the cell and its circumstances; the
    scheme with its protection, redundancy and steps between snapshots; ``worlds`` in which it was
    simulated; ``ratio``, its expected time, with the 80 % band of one run (``ratio_low``,
    ``ratio_high``); ``probability`` of being the best; ``best`` for the least expected time,
    ``tied`` if the worlds do not separate a scheme from that one; ``regret``, the expected excess
    over the soonest in hindsight; ``capped``, the share of worlds in which a run counts as the cap;
    ``note``, why a scheme is left out.
    """
    cell = task.cell
    situation = read_situation(cell.job, cell.settings, cell.gpus)
    steps = max(1, round(task.failures * situation.mtbf_s / situation.ideal_step_s))
    effort = Effort(task.worlds, steps=steps)
    at_values = cell.grid in LISTS
    answer = answer_plan(situation, task.schemes or None, effort=effort, at_values=at_values)
    scenario, ideal_s = situation.scenario, situation.ideal_s
    circumstances = {
        "plane": cell.grid,
        "job": cell.job,
        "x": cell.x,
        "y": cell.y,
        "name": cell.name,
        "mtbf_s": situation.mtbf_s,
        "restart_s": situation.restart_s,
        "gpus": scenario.job.all_gpus,
        "gpus_paid": situation.gpus,
        "under_repair": breakage_of(scenario, failure_model(scenario)).under_repair,
        "steps": answer.steps,
        "step_s": situation.ideal_step_s,
    }
    ties = {row.choice.scheme for row in answer.ties}
    rows = [
        {
            **circumstances,
            "scheme": (choice := row.choice).scheme,
            "protection": choice.protection,
            "redundancy": choice.redundancy,
            "interval_steps": choice.interval_steps,
            "worlds": row.worlds,
            "ratio": (bands := row.judgement.bands).mean / ideal_s,
            "ratio_low": bands.low / ideal_s,
            "ratio_high": bands.high / ideal_s,
            "probability": row.judgement.best.mean,
            "best": place == 0,
            "tied": choice.scheme in ties,
            "regret": row.judgement.regret.mean / ideal_s,
            "capped": row.judgement.capped,
            "note": "; ".join(row.endings),
        }
        for place, row in enumerate(answer.rows)
    ]
    reasons = {one.scheme: one.reason for one in reversed(answer.left_out)}
    simulated = {row.choice.scheme for row in answer.rows}
    return rows + [
        {**circumstances, "scheme": scheme, "worlds": 0, "best": False, "tied": False, "note": why}
        for scheme, why in reasons.items()
        if scheme not in simulated
    ]


def map_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row per cell of the maps, with the scheme of the least expected time.

    Columns: ``job``, ``map``, ``x``, ``y``; ``best``; ``ties``, the schemes that tie with it,
    separated by spaces; ``probability`` that it is the best; ``cost``, its ratio; ``regret``;
    ``plain_cost``, that of checkpoints alone.
    """
    simulated = rows[rows["worlds"] > 0]
    table = simulated[simulated["best"]].set_index(_CELL)
    tied = simulated[simulated["tied"]]
    plain = simulated[simulated["scheme"] == "checkpoint"].set_index(_CELL)
    table["ties"] = tied.groupby(_CELL)["scheme"].agg(" ".join)
    table["plain_cost"] = plain["ratio"]
    shown = table.reset_index().fillna({"ties": ""})[_MAP_COLUMNS]
    return shown.rename(columns={"plane": "map", "scheme": "best", "ratio": "cost"})


@dataclass(frozen=True)
class HeadToHead(Study):
    """Plans in the cells of lists, and on the maps of two jobs."""

    worlds: int = 8
    schemes: tuple[str, ...] = ()  # All by default.
    only: str | None = None  # One of `LISTS`, or `MAPS`; all by default.
    quick: bool = False  # The first list and map, at every other value of their axes; short runs.

    float_format: ClassVar[str | None] = "%.5g"

    def simulate(self, stage: Stage) -> Results:
        """Make the plans, or read their stored answers."""
        known = list(all_strategies())
        for name in self.schemes:
            if name not in known:
                raise UserError(f"--schemes {name}: no such scheme; {did_you_mean(name, known)}")
        rows = list[Record]()
        for title, cells in self._grids():
            tasks = [self.plan(cell) for cell in cells]
            answers = stage.calls(title, plan_cell, tasks, kept_in="cells")
            rows += [row for of_cell in answers for row in of_cell]
        if not rows:
            raise UserError(f"--only layers: none of these schemes depends on layers: {_OF_LAYERS}")
        table = pd.DataFrame(rows)
        is_listed = table["plane"].isin(LISTS)
        lists: Results = dict(iter(table[is_listed].groupby("plane", sort=False)))
        return lists if is_listed.all() else {**lists, MAPS: map_table(table[~is_listed])}

    def plan(self, cell: Cell) -> CellPlan:
        """Return what to plan in a cell."""
        schemes = (_OF_LAYERS,) if cell.grid == "layers" else self.schemes
        # The neighbours of a cell on a map have the same worlds: shorter runs suffice.
        failures = 25 if self.quick else 100 if cell.grid in LISTS else 50
        return CellPlan(cell, schemes, self.worlds, failures)

    def _grids(self) -> list[tuple[str, list[Cell]]]:
        """Return the title and the cells of each grid."""
        lists = [name for name in LISTS if self.only in (None, name)]
        if self.schemes and _OF_LAYERS not in self.schemes:
            lists = [name for name in lists if name != "layers"]
        maps = [(job, name) for job, names in MAPS_OF.items() for name in names]
        if self.only not in (None, MAPS):
            maps = []
        first = slice(1 if self.quick else None)
        found = [(name, listed_cells(name)) for name in lists[first]]
        found += [(f"{job}: {name}", map_cells(job, name)) for job, name in maps[first]]
        return [(title, every_other(cells)) for title, cells in found] if self.quick else found

    def records(self, results: Results, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """Return the rows of the settings' table, with None for unknown values."""
        table = results.get("settings", pd.DataFrame())
        found: list[dict[str, Any]] = (
            table.astype(object).where(table.notna(), None).to_dict("records")
        )
        return found

    def tables(self, results: Results) -> Tables:
        """Return a table for each list, and that of the maps."""
        return {f"head-to-head-{name}": table for name, table in results.items()}

    def figures(self, results: Results) -> Mapping[str, Draw]:
        """Return the times of all schemes in the settings, and the maps."""
        drawn: dict[str, Draw] = {}
        if "settings" in results:
            drawn["head-to-head-settings.png"] = partial(draw_settings, results["settings"])
        return drawn | (map_figures(results[MAPS]) if MAPS in results else {})

    def headline(self, results: Results, rows: Sequence[Row]) -> Headline:
        """Return the ratios of each list, in the settings today's, and the shares of the maps."""
        for name in (name for name in LISTS if name in results):
            table = results[name]
            today = table[table["name"] == "today"]
            yield _shown_ratios(table if today.empty else today, name)
            for scheme, cells in table[table["worlds"] == 0].groupby("scheme", sort=False):
                note = cells["note"].iloc[0]
                yield f"{name_of(scheme)}: left out of {counted(len(cells), 'cell')}; {note}"
        yield from map_sentences(results[MAPS]) if MAPS in results else ()


def _shown_ratios(table: pd.DataFrame, plane: str) -> Table:
    """Return the time of each scheme, a column per circumstance of a list."""
    facts = FACTS if table["y"].nunique() > 1 else ("", "")
    circumstances = [
        f"{name}, {facts[int(y)]}".removesuffix(", ")
        for name, y in zip(table["name"], table["y"], strict=True)
    ]
    title = f"{plane}: expected time to train over that without failures"
    simulated = table.assign(
        circumstances=circumstances, named=table["scheme"].map(name_of)
    ).dropna(subset="ratio")
    return wide_table(title, simulated, {"named": "scheme"}, "circumstances", "ratio", "{:.3f}")
