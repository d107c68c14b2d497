"""The head-to-head: all schemes on one platform, and the map of which is best where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from math import inf, isfinite, isnan
from typing import Any, ClassVar

import pandas as pd
from faultline.experiments.analysis.printing import Printed
from faultline.experiments.config.errors import UserError
from faultline.experiments.studies.base import Draw, Results, Row, Study, Tables
from faultline.experiments.studies.head_to_head import setting
from faultline.experiments.studies.head_to_head.figures import (
    draw_phase_diagram,
    draw_settings,
    name_of,
)
from faultline.experiments.studies.head_to_head.matches import (
    Match,
    candidate_table,
    paired_to_best,
    restricted,
    simulate_match,
    winners,
)
from faultline.experiments.studies.head_to_head.setting import Ground
from faultline.experiments.studies.stage import Stage
from rich.text import Text

LISTS = ("settings", "stalls", "interleaved", "layers", "links")
"""Lists of circumstances, which become a table each (``data/cells.csv``)."""
PLANES = {
    "restart": "On 32,768 GPUs, over failures from every minute to every day and restarts of 10 s "
    "to 2 h, the first by cells",
    "domains": "From 1,000 to 600,000 GPUs, whatever share of failures takes a scale-up domain",
}
"""Planes of circumstances, which become a map, and what is said of them."""


@dataclass(frozen=True)
class HeadToHead(Study):
    """Every candidate in the same cells: lists of circumstances, and two planes.

    The stage's seeds are those of a cell of a plane.
    """

    side: int  # Cells on a side of a plane.
    setting_seeds: int  # Seeds of a setting of the tables.
    schemes: tuple[str, ...] = ()  # Who takes part; all by default.
    # ``settings``, ``stalls``, ``interleaved``, ``layers``, ``links``, ``restart`` or ``domains``;
    # all by default.
    only: str | None = None

    float_format: ClassVar[str | None] = "%.5g"

    def simulate(self, stage: Stage) -> Results:
        """Run the cells, or read what is kept of them."""
        matches = self._matches(stage.seeds)
        simulated = stage.calls("cells", simulate_match, matches, kept_in="cells")
        rows = [row for of_match in simulated for row in of_match]
        table, runs = candidate_table(rows), pd.DataFrame(rows)
        planes = {str(name): mine for name, mine in table.groupby("plane", sort=False)}
        for name in set(LISTS) & planes.keys():
            planes[name] = paired_to_best(planes[name], runs)
        return {"table": table, "runs": runs, "planes": planes}

    def _matches(self, seeds: int) -> list[Match]:
        candidates = tuple(setting.all_candidates(self.schemes))
        layered = tuple(one for one in candidates if one.scheme in setting.DEPEND_ON_LAYERS)
        measured = partial(setting.measured_ground, {one.protection for one in candidates})
        usual = cache(measured)

        @cache
        def ground(plane: str, name: str) -> Ground:
            changes, edits = setting.CHANGES.get(plane), setting.EDITS.get(name)
            return measured(changes, edits) if changes or edits else usual()

        def listed(plane: str) -> list[Match]:
            who = layered if plane == "layers" else candidates
            number = min(self.setting_seeds, setting.MOST_SEEDS.get(plane, self.setting_seeds))
            return [
                Match(cell, who, tuple(range(number)), ground(plane, cell.name), races=False)
                for cell in (setting.listed_cells(plane) if who else ())
            ]

        def raced(plane: str) -> list[Match]:
            # What takes longest comes last: there is no shorter time between failures, no larger
            # job.
            if plane == "restart":
                cells = setting.restart_plane(self.side)[::-1]
            else:
                cells = setting.domain_plane(self.side)
            return [Match(cell, candidates, tuple(range(seeds)), usual()) for cell in cells]

        # Only the circumstances of these are measured.
        planes = [self.only] if self.only else [*LISTS, *PLANES]
        chosen = [
            match for plane in planes for match in (listed if plane in LISTS else raced)(plane)
        ]
        if not chosen:
            raise UserError("--only layers: none of these schemes depends on the number of layers")
        return chosen

    def records(self, results: Results, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """Return the rows of the settings' table, without infinite numbers."""
        if "settings" not in results["planes"]:
            return []
        table = results["planes"]["settings"]
        finite = table.notna() & ~table.isin([inf, -inf])
        found: list[dict[str, Any]] = table.astype(object).where(finite, None).to_dict("records")
        return found

    def tables(self, results: Results) -> Tables:
        """Return a table for each list of circumstances, and for each plane."""
        return {f"head-to-head-{name}": table for name, table in results["planes"].items()}

    def figures(self, results: Results) -> Mapping[str, Draw]:
        """Return the settings, and the map, with and without approximate schemes."""
        table, drawn = results["table"], dict[str, Draw]()
        if "settings" in results["planes"]:
            drawn["head-to-head-settings.png"] = partial(draw_settings, table)
        if set(PLANES) <= results["planes"].keys():
            exact = [name for name in table["scheme"].unique() if name not in setting.APPROXIMATE]
            fewer = restricted(table, results["runs"], exact)
            drawn["head-to-head-phases.png"] = partial(draw_phase_diagram, table)
            drawn["head-to-head-phases-exact.png"] = partial(draw_phase_diagram, fewer)
        return drawn

    def shown(self, results: Results, rows: Sequence[Row]) -> Iterable[Printed | Text | str]:
        """Return the tables of lists, and who could not take part."""
        planes = results["planes"]
        yield from (_shown_places(table, name) for name, table in planes.items() if name in LISTS)
        table = results["table"]
        # Who could not take part, in how many cells, and why.
        for name, mine in table[table["seeds"] == 0].groupby("candidate", sort=False):
            printed = f"{name}: left out of {len(mine)} cells; {mine['note'].iloc[0]}"
            yield Text(printed, style="yellow")
        yield f"{len(results['runs']):,} runs"

    def headline(self, results: Results, rows: Sequence[Row]) -> Sequence[str]:
        """Say who trains soonest today, and in which shares of the planes' cells."""
        return [closing_sentence(results["table"])]


def _shown_places(table: pd.DataFrame, plane: str) -> Printed:
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
    return Printed(title, frame, dict.fromkeys(frame.columns[4:], "{}"))


def _with_half(value: float, half: float) -> str:
    if not isfinite(value):
        return ""
    return f"{value:.3f}" if isnan(half) else f"{value:.3f} ± {half:.3f}"


def closing_sentence(table: pd.DataFrame) -> str:
    """Return what came out, to be quoted: today's setting, and shares of the planes' cells."""
    said = []
    planes = set(table["plane"])
    if "settings" in planes:
        today = list(setting.SETTINGS).index("today")
        mine = table[(table["plane"] == "settings") & (table["x"] == today)]
        for y, of_fact in mine.groupby("y"):
            said.append(_today(of_fact, setting.FACTS[int(y)]))
    if "stalls" in planes:
        said.append(_stalls(table[table["plane"] == "stalls"]))
    for plane in (one for one in PLANES if one in planes):
        shares = [_shares(table, plane, name) for name in ("time", "gpu_hours")]
        said.append(f"{PLANES[plane]}: {shares[0]}; with the fewest GPU-hours: {shares[1]}.")
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


def _shares(table: pd.DataFrame, plane: str, name: str) -> str:
    shares = winners(table, plane, name)["scheme"].value_counts(normalize=True)
    return ", ".join(f"{name_of(str(name))} {share:.0%}" for name, share in shares.items())
