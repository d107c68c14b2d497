"""The head-to-head: all schemes on one platform, and the map of which is best where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from math import inf, isfinite, isnan
from typing import Any, ClassVar

import pandas as pd
from faultline.experiments.config.errors import UserError
from faultline.experiments.report.tables import Table, frame_table
from faultline.experiments.studies.base import Draw, Results, Row, Study, Tables
from faultline.experiments.studies.head_to_head import setting
from faultline.experiments.studies.head_to_head.emulation import Filling, filled_map
from faultline.experiments.studies.head_to_head.figures import (
    draw_costs,
    draw_maps,
    draw_settings,
    map_sentences,
    name_of,
    shown_maps,
)
from faultline.experiments.studies.head_to_head.maps import (
    JOBS,
    MAPS_OF,
    contenders,
    left_out,
    sheet_of,
)
from faultline.experiments.studies.head_to_head.maps import MAPS as ALL_MAPS
from faultline.experiments.studies.head_to_head.matches import (
    Match,
    candidate_table,
    paired_to_best,
    simulate_match,
)
from faultline.experiments.studies.head_to_head.setting import Candidate, Ground
from faultline.experiments.studies.stage import Stage
from rich.text import Text

LISTS = ("settings", "stalls", "interleaved", "layers", "links")
"""Lists of circumstances, which become a table each (``data/cells.csv``)."""
MAPS = "maps"
"""What ``--only`` calls the maps."""

_FAILURES, _MOST_STEPS = 200, 1_000_000
"""Failures of a sample of a map, if that takes no more steps."""

_FIRST_SAMPLES = (4, 16)
"""Samples of a map after which candidates are left out that do not fit, or are hopeless."""


@dataclass(frozen=True)
class HeadToHead(Study):
    """Every candidate in the same cells of lists of circumstances, and on maps of three jobs.

    The stage's seeds are those of a list's cell.
    """

    samples: int = 64  # Samples of a map.
    jobs: tuple[str, ...] = tuple(JOBS)  # Scenarios of the maps.
    maps: tuple[str, ...] = tuple(ALL_MAPS)  # Names of the maps.
    schemes: tuple[str, ...] = ()  # Schemes that take part; all by default.
    # ``settings``, ``stalls``, ``interleaved``, ``layers``, ``links`` or ``maps``; all by default.
    only: str | None = None

    float_format: ClassVar[str | None] = "%.5g"

    def simulate(self, stage: Stage) -> Results:
        """Run the cells, or read what is kept of them."""
        candidates = tuple(setting.all_candidates(self.schemes))
        results: Results = {}
        if self.only != MAPS:
            matches = self._matches(candidates, stage.seeds)
            simulated = stage.calls("lists", simulate_match, matches, kept_in="cells")
            runs = pd.DataFrame([row for of_match in simulated for row in of_match])
            table = candidate_table(runs.to_dict("records"))
            lists = {str(name): mine for name, mine in table.groupby("plane", sort=False)}
            lists = {name: paired_to_best(mine, runs) for name, mine in lists.items()}
            results |= {"table": table, "runs": runs, "lists": lists}
        if self.only in (None, MAPS):
            results |= self._mapped(stage, candidates)
        return results

    def _matches(self, candidates: tuple[Candidate, ...], seeds: int) -> list[Match]:
        layered = tuple(one for one in candidates if one.scheme in setting.DEPEND_ON_LAYERS)
        measured = partial(setting.measured_ground, {one.protection for one in candidates})
        usual = cache(measured)

        @cache
        def ground(name: str, cell_name: str) -> Ground:
            changes, edits = setting.CHANGES.get(name), setting.EDITS.get(cell_name)
            return measured(changes, edits) if changes or edits else usual()

        def listed(name: str) -> list[Match]:
            who = layered if name == "layers" else candidates
            number = min(seeds, setting.MOST_SEEDS.get(name, seeds))
            return [
                Match(cell, who, tuple(range(number)), ground(name, cell.name), races=False)
                for cell in (setting.listed_cells(name) if who else ())
            ]

        # Only the circumstances of these are measured.
        chosen = [match for name in ([self.only] if self.only else LISTS) for match in listed(name)]
        if not chosen:
            raise UserError("--only layers: none of these schemes depends on the number of layers")
        return chosen

    def _mapped(self, stage: Stage, candidates: tuple[Candidate, ...]) -> Results:
        """Return the cells of all maps, the errors of their emulators, and who is left out."""
        filled, notes = list[Filling](), list[dict[str, Any]]()
        for job in self.jobs:
            measured = setting.measured_ground({one.protection for one in candidates}, name=job)
            # A sample has one run, without whose luck emulators predict better.
            ground = replace(measured, failures=_FAILURES, most_steps=_MOST_STEPS)
            for name in (one for one in MAPS_OF[job] if one in self.maps):
                sheet = sheet_of(job, name, ground, candidates, self.samples)
                rows, left, done = list[dict[str, Any]](), candidates, 0
                for until in (*_FIRST_SAMPLES, self.samples):
                    matches = sheet.matches(left, ground, range(done, until))
                    title = f"{job}: {name}"
                    found = stage.calls(title, simulate_match, matches, kept_in="cells")
                    rows += [row for of_match in found for row in of_match]
                    left = contenders(pd.DataFrame(rows), left, until > _FIRST_SAMPLES[0])
                    done = until
                notes += left_out(sheet, pd.DataFrame(rows))
                filled.append(Filling(sheet, pd.DataFrame(rows)))
        maps = stage.calls("emulators", filled_map, filled)
        return {
            "maps": pd.concat([one.cells for one in maps], ignore_index=True),
            "errors": pd.concat([one.errors for one in maps], ignore_index=True),
            "left_out": pd.DataFrame(notes, columns=["job", "map", "candidate", "why"]),
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
        names = ("maps", "errors", "left_out")
        of_maps = {name: results[name] for name in names if name in results}
        named = {**results.get("lists", {}), **of_maps}
        return {f"head-to-head-{name.replace('_', '-')}": table for name, table in named.items()}

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
        """Return the tables of lists, the shares of maps, and who could not take part."""
        lists = results.get("lists", {})
        yield from (_shown_places(table, name) for name, table in lists.items())
        if "maps" in results:
            yield shown_maps(results["maps"], results["errors"])
            for (job, why), mine in results["left_out"].groupby(["job", "why"], sort=False):
                names = ", ".join(mine["candidate"].unique())
                yield Text(f"{job}: not drawn, as {why}: {names}", style="yellow")
        if not lists:
            return
        table = results["table"]
        # Who could not take part, in how many cells, and why.
        for name, mine in table[table["seeds"] == 0].groupby("candidate", sort=False):
            printed = f"{name}: left out of {len(mine)} cells; {mine['note'].iloc[0]}"
            yield Text(printed, style="yellow")
        yield f"{len(results['runs']):,} runs"

    def headline(self, results: Results, rows: Sequence[Row]) -> Sequence[str]:
        """Say who trains soonest today, and on which shares of the maps."""
        printed = [closing_sentence(results["table"])] if "lists" in results else []
        return [*printed, *map_sentences(results["maps"])] if "maps" in results else printed


def _shown_places(table: pd.DataFrame, plane: str) -> Table:
    """Show a list of circumstances, each one's candidates in order of their time."""
    lines = []
    places = {cell.x: cell.name for cell in setting.listed_cells(plane)}
    for (place, place_name), y in product(places.items(), sorted(table["y"].unique())):
        fact = f", {setting.FACTS[int(y)]}" if table["y"].nunique() > 1 else ""
        mine = table[(table["x"] == place) & (table["y"] == y) & (table["seeds"] > 0)]
        mine = mine.sort_values("ratio")
        for number, row in enumerate(mine.itertuples(index=False)):
            held = f"{row.gpu_memory_bytes / 1e9:.0f} GB"
            lines.append(
                {
                    plane: place_name + fact if number == 0 else "",
                    "candidate": row.candidate,
                    "what it is": name_of(row.scheme),
                    "r": f"{row.redundancy:.0f}",
                    "ratio": row.note or _with_half(row.ratio, row.ratio_high - row.ratio),
                    "above the best": (
                        _with_half(row.above_best, row.above_best_half) if number else ""
                    ),
                    "us a token": f"{row.token_us:.4f}" if isfinite(row.token_us) else "",
                    "GPU-hours": f"{row.gpu_hours / 1e6:.3f}M" if isfinite(row.gpu_hours) else "",
                    "spares": f"{row.spare_gpus:,.0f}",
                    "available": f"{row.availability:.1%}",
                    "restarts": f"{row.restarts:.1f}",
                    "a GPU": held if row.fits_memory else f"{held}: too much",
                }
            )
    frame = pd.DataFrame(lines)
    title = "time to train over that without failures, mean and 95 % interval"
    return frame_table(title, frame, dict.fromkeys(frame.columns[4:], "{}"))


def _with_half(value: float, half: float) -> str:
    if not isfinite(value):
        return ""
    return f"{value:.3f}" if isnan(half) else f"{value:.3f} ± {half:.3f}"


def closing_sentence(table: pd.DataFrame) -> str:
    """Return what came out, to be quoted: today's setting, and equal prices."""
    said = []
    planes = set(table["plane"])
    if "settings" in planes:
        today = list(setting.SETTINGS).index("today")
        mine = table[(table["plane"] == "settings") & (table["x"] == today)]
        for y, of_fact in mine.groupby("y"):
            said.append(_today(of_fact, setting.FACTS[int(y)]))
    if "stalls" in planes:
        said.append(_stalls(table[table["plane"] == "stalls"]))
    return " ".join(said)


_MACHINES = {"queue": "machines from a queue", "standbys": "standbys"}


def _today(mine: pd.DataFrame, fact: str) -> str:
    simulated = mine[mine["seeds"] > 0].sort_values("ratio")
    best = simulated.iloc[0]
    said = (
        f"With {_MACHINES[fact]}, at today's failure rate on 32,768 GPUs, "
        f"{name_of(best['scheme'])} trains soonest, in {best['ratio']:.2f} times the time without "
        "failures"
    )
    if not best["fits_memory"]:
        said += f", if a GPU had {best['gpu_memory_bytes'] / 1e9:.0f} GB, which it has not"
    plain = simulated[simulated["scheme"] == "checkpoint"]
    if plain.empty or best["scheme"] == "checkpoint":
        return said + "."
    ratio = plain["ratio"].iloc[0]
    return f"{said}; checkpoints alone take {ratio:.2f} ({ratio / best['ratio'] - 1:.0%} longer)."


def _stalls(mine: pd.DataFrame) -> str:
    best = mine[mine["best_time"]].sort_values("x")
    parts = [
        f"{name_of(row.scheme)} over {row.protection} in {row.ratio:.3f} (each {row.x:g} s)"
        for row in best.itertuples(index=False)
    ]
    return f"Where every event costs everybody the same, the first are {', '.join(parts)}."
