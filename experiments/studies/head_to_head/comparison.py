"""The head-to-head: all candidates in the same cells, and maps of the best one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import inf
from typing import Any, ClassVar

import pandas as pd
from faultline.experiments.config.errors import UserError
from faultline.experiments.report.tables import Table, wide_table
from faultline.experiments.studies.base import Draw, Results, Row, Study, Tables
from faultline.experiments.studies.head_to_head import setting
from faultline.experiments.studies.head_to_head.cell_runs import (
    CellTask,
    candidate_table,
    simulate_cell,
)
from faultline.experiments.studies.head_to_head.emulation import filled_map
from faultline.experiments.studies.head_to_head.figures import (
    draw_costs,
    draw_maps,
    draw_settings,
    map_sentences,
    name_of,
)
from faultline.experiments.studies.head_to_head.maps import (
    JOBS,
    MAPS_OF,
    SampledMap,
    remaining_candidates,
    sample_map,
)
from faultline.experiments.studies.head_to_head.maps import MAPS as ALL_MAPS
from faultline.experiments.studies.head_to_head.setting import Candidate, MeasuredJob
from faultline.experiments.studies.stage import Stage
from rich.text import Text

LISTS = ("settings", "stalls", "interleaved", "layers", "links")
"""Lists of circumstances (``data/cells.csv``); each becomes a table."""
MAPS = "maps"
"""The name of the maps for ``--only``."""

_FAILURES, _MOST_STEPS = 200, 1_000_000
"""Wanted failures of a sample of a map, and the most steps for them."""

_FIRST_SAMPLES = (4, 16)
"""After these numbers of samples, candidates that do not fit or are hopeless are dropped."""


@dataclass(frozen=True)
class HeadToHead(Study):
    """All candidates in the same cells of lists, and on maps of three jobs.

    The stage's seeds apply to the cells of lists; a sample of a map has one seed.
    """

    samples: int = 64  # Samples of a map.
    jobs: tuple[str, ...] = tuple(JOBS)  # Scenarios of the maps.
    maps: tuple[str, ...] = tuple(ALL_MAPS)  # Names of the maps.
    schemes: tuple[str, ...] = ()  # Schemes or candidates; all by default.
    # ``settings``, ``stalls``, ``interleaved``, ``layers``, ``links`` or ``maps``; all by default.
    only: str | None = None

    float_format: ClassVar[str | None] = "%.5g"

    def simulate(self, stage: Stage) -> Results:
        """Run the cells, or read their stored results."""
        candidates = tuple(setting.all_candidates(self.schemes))
        results: Results = {}
        if self.only != MAPS:
            tasks = self._tasks(candidates, stage.seeds)
            simulated = stage.calls("lists", simulate_cell, tasks, kept_in="cells")
            table = candidate_table([row for of_task in simulated for row in of_task])
            lists = {str(name): rows for name, rows in table.groupby("plane", sort=False)}
            results |= {"table": table, "lists": lists}
        if self.only in (None, MAPS):
            results |= self._mapped(stage, candidates)
        return results

    def _tasks(self, candidates: tuple[Candidate, ...], seeds: int) -> list[CellTask]:
        layered = tuple(one for one in candidates if one.scheme in setting.DEPEND_ON_LAYERS)
        measure = partial(setting.measure_job, {one.protection for one in candidates})
        unchanged = cache(measure)

        @cache
        def measured(name: str, cell_name: str) -> MeasuredJob:
            changes, edits = setting.CHANGES.get(name), setting.EDITS.get(cell_name)
            return measure(changes, edits) if changes or edits else unchanged()

        def listed(name: str) -> list[CellTask]:
            of_list = layered if name == "layers" else candidates
            few = tuple(range(min(seeds, setting.MOST_SEEDS.get(name, seeds))))
            return [
                CellTask(cell, of_list, few, measured(name, cell.name), races=False)
                for cell in (setting.listed_cells(name) if of_list else ())
            ]

        chosen = [task for name in ([self.only] if self.only else LISTS) for task in listed(name)]
        if not chosen:
            raise UserError("--only layers: none of these schemes depends on the number of layers")
        return chosen

    def _mapped(self, stage: Stage, candidates: tuple[Candidate, ...]) -> Results:
        """Return the cells of all maps and the errors of their emulators."""
        filled = list[tuple[SampledMap, pd.DataFrame]]()
        for job in self.jobs:
            measured = setting.measure_job({one.protection for one in candidates}, name=job)
            # A sample has one run; more failures make it depend less on chance.
            measured = replace(measured, failures=_FAILURES, most_steps=_MOST_STEPS)
            for name in (one for one in MAPS_OF[job] if one in self.maps):
                sampled_map = sample_map(job, name, measured, candidates, self.samples)
                rows, remaining, done = list[dict[str, Any]](), candidates, 0
                for end in (*_FIRST_SAMPLES, self.samples):
                    tasks = sampled_map.tasks(remaining, measured, range(done, end))
                    title = f"{job}: {name}"
                    found = stage.calls(title, simulate_cell, tasks, kept_in="cells")
                    rows += [row for of_task in found for row in of_task]
                    remaining = remaining_candidates(
                        pd.DataFrame(rows), remaining, end > _FIRST_SAMPLES[0]
                    )
                    done = end
                filled.append((sampled_map, pd.DataFrame(rows)))
        cells, errors = zip(*stage.calls("emulators", filled_map, filled), strict=True)
        return {
            "maps": pd.concat(cells, ignore_index=True),
            "errors": pd.concat(errors, ignore_index=True),
        }

    def records(self, results: Results, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """Return the rows of the settings' table, without infinite numbers."""
        table = results.get("lists", {}).get("settings")
        if table is None:
            return []
        finite = table.notna() & ~table.isin([inf, -inf])
        found: list[dict[str, Any]] = table.astype(object).where(finite, None).to_dict("records")
        return found

    def tables(self, results: Results) -> Tables:
        """Return a table for each list of circumstances, and those of the maps."""
        of_maps = {name: results[name] for name in ("maps", "errors") if name in results}
        named = {**results.get("lists", {}), **of_maps}
        return {f"head-to-head-{name}": table for name, table in named.items()}

    def figures(self, results: Results) -> Mapping[str, Draw]:
        """Return the settings, the maps of all jobs by time, and those of one job by all costs."""
        drawn = dict[str, Draw]()
        if "settings" in results.get("lists", {}):
            drawn["head-to-head-settings.png"] = partial(draw_settings, results["table"])
        if "maps" in results:
            tables = results["maps"], results["errors"]
            drawn["head-to-head-maps.png"] = partial(draw_maps, *tables)
            drawn["head-to-head-costs.png"] = partial(draw_costs, results["maps"])
        return drawn

    def shown(self, results: Results, rows: Sequence[Row]) -> Iterable[Table | Text | str]:
        """Return the ratios of lists, and the impossible candidates."""
        for name, table in results.get("lists", {}).items():
            yield _shown_ratios(table, name)
            for candidate, cells in table[table["seeds"] == 0].groupby("candidate", sort=False):
                printed = f"{candidate}: left out of {len(cells)} cells; {cells['note'].iloc[0]}"
                yield Text(printed, style="yellow")

    def headline(self, results: Results, rows: Sequence[Row]) -> Sequence[str]:
        """Return the fastest schemes today, and their shares of the maps."""
        settings = results.get("lists", {}).get("settings")
        printed = [] if settings is None else today_sentences(settings)
        return [*printed, *map_sentences(results["maps"])] if "maps" in results else printed


def _shown_ratios(table: pd.DataFrame, plane: str) -> Table:
    """Return the time of each candidate, a column per circumstance of a list."""
    places = {cell.x: cell.name for cell in setting.listed_cells(plane)}
    facts = setting.FACTS if table["y"].nunique() > 1 else ("", "")
    circumstances = [
        f"{places[x]}, {facts[int(y)]}".removesuffix(", ")
        for x, y in zip(table["x"], table["y"], strict=True)
    ]
    title = f"{plane}: time to train over that without failures, mean over seeds"
    rows = {"candidate": "candidate", "scheme": "scheme"}
    named = table.assign(circumstances=circumstances, scheme=table["scheme"].map(name_of))
    return wide_table(title, named, rows, "circumstances", "ratio", "{:.3f}")


_MACHINES = {
    "queue": "machines from the queue of a shared cluster",
    "standbys": "standbys that suffice in 95 % of the time",
}


def today_sentences(settings: pd.DataFrame) -> list[str]:
    """Return the fastest scheme at today's failure rate, by the source of machines."""
    today = settings[settings["x"] == list(setting.SETTINGS).index("today")]
    simulated = today[today["seeds"] > 0].sort_values("ratio")
    return [
        _today(of_fact, _MACHINES[setting.FACTS[int(y)]]) for y, of_fact in simulated.groupby("y")
    ]


def _today(ranked: pd.DataFrame, machines: str) -> str:
    best = ranked.iloc[0]
    text = (
        f"With {machines}, at today's failure rate on 32,768 GPUs ({best['under_repair']:.0f} "
        f"machines under repair on average), {name_of(best['scheme'])} trains soonest, in "
        f"{best['ratio']:.2f} times the time without failures"
    )
    if not best["fits_memory"]:
        text += f", if a GPU had {best['gpu_memory_bytes'] / 1e9:.0f} GB, which it has not"
    plain = ranked[ranked["scheme"] == "checkpoint"]
    if plain.empty or best["scheme"] == "checkpoint":
        return f"{text}."
    ratio = plain["ratio"].iloc[0]
    return f"{text}; checkpoints alone take {ratio:.2f} ({ratio / best['ratio'] - 1:.0%} longer)."
