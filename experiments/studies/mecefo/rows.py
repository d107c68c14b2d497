"""Every result beside its published value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import comb, prod
from statistics import fmean
from typing import Literal

import pandas as pd
from faultline.experiments.studies.base import Row, row_of
from faultline.experiments.studies.mecefo.numerics.gradient_error import error_table
from faultline.experiments.studies.mecefo.numerics.memory_comparison import MemoryRow
from faultline.experiments.studies.mecefo.published import published_drop, published_throughput
from faultline.experiments.studies.mecefo.runs import CALIBRATED, Cell, scenario_of
from faultline.experiments.studies.mecefo.setting import GROUPS, MODELS, SCENARIOS, SYSTEMS
from faultline.strategies.base import Hit
from faultline.strategies.mecefo import Mecefo
from faultline.strategies.oobleck import Oobleck, OobleckOptions
from faultline.strategies.takeover.mecefo_options import MecefoOptions
from faultline.strategies.takeover.published_ablation import (
    FULL,
    NO_FAULT,
    NO_TECHNIQUE,
    SKIP,
    SKIP_RECOMPUTE,
    STAGES,
)

ABLATION = (
    ("naive doubling", (False, False, False), NO_TECHNIQUE),
    ("skip", (True, False, False), SKIP),
    ("skip + recompute", (True, True, False), SKIP_RECOMPUTE),
    ("full", (True, True, True), FULL),
)
"""Rows of the ablation: name, techniques, what was measured."""

OVER_MECEFO = "drop over MeCeFO's"
"""How many times MeCeFO's drop another system's is: the published headline."""

_COST_MODELS: tuple[Literal["flop", "calibrated"], ...] = ("flop", "calibrated")
_SHOWN_RANK = 8
_MOST_DOWN = 8
_KEYS = ["system", "variant", "model", "scenario_name"]


def drop_rows(runs: pd.DataFrame) -> list[Row]:
    """Return drops in percent; variants are quantities of their own."""
    rows = []
    for (system, variant, model, scenario), mine in runs.groupby(_KEYS, sort=False):
        calibrated = variant == CALIBRATED
        rows.append(
            row_of(
                "drop" if calibrated else f"drop, {variant}",
                system,
                f"{model} {scenario}",
                published_drop(system, model, scenario),
                list(100 * mine["drop"]),
                "%",
            )
        )
    return rows


def throughput_rows(runs: pd.DataFrame) -> Iterator[Row]:
    """Return throughputs in thousand tokens a second; those without failures are input."""
    unit = "thousand tokens/s"
    for model in MODELS.values():
        for system in SYSTEMS:
            no_fault = model.no_fault_tokens_per_s[system] / 1000
            yield row_of("throughput", system, f"{model.name} no fault", None, [no_fault], unit)
    known = runs[(runs.variant == CALIBRATED) & runs.system.isin(SYSTEMS)]
    for (system, _, model, scenario), mine in known.groupby(_KEYS, sort=False):
        no_fault = MODELS[model].no_fault_tokens_per_s[system] / 1000
        published = published_throughput(system, model, scenario)
        values = list(no_fault * (1.0 - mine["drop"]))
        yield row_of("throughput", system, f"{model} {scenario}", published, values, unit)


def resilience_rows(runs: pd.DataFrame) -> Iterator[Row]:
    """Return how many times MeCeFO's drop others' drops are, for 7B and frequent failures."""
    mine = runs[
        (runs.variant == CALIBRATED) & (runs.model == "7B") & (runs.scenario_name == "high")
    ]
    drops = mine.groupby("system")["drop"].mean()
    for system in ("bamboo", "oobleck"):
        published = _ratio(
            published_drop(system, "7B", "high"), published_drop("mecefo", "7B", "high")
        )
        value = float(drops[system] / drops["mecefo"])
        yield row_of(OVER_MECEFO, system, "7B high", published, [value], "1")


def plateau_rows() -> Iterator[Row]:
    """Return what Oobleck's 7B loses while k GPUs are down, reconfigurations apart.

    The mean over all ways to place them; `low` and `high` are the least and the most.
    """
    options = scenario_of(Cell("oobleck", "7B", "high")).strategy.options()
    assert isinstance(options, OobleckOptions)
    for down in range(1, _MOST_DOWN + 1):
        drops, ways = [], []
        for lost in product(range(min(down, STAGES) + 1), repeat=GROUPS):
            if sum(lost) == down:
                drops.append(100 * (1 - 1 / _oobleck_pace(options, lost)))
                ways.append(prod(comb(STAGES, stages) for stages in lost))
        mean = fmean(drops, ways)
        setting = f"7B {down} GPUs down"
        yield Row("drop", "oobleck", setting, None, mean, min(drops), max(drops), "%")


def _oobleck_pace(options: OobleckOptions, lost: Sequence[int]) -> float:
    """Return the time of a step over that with all nodes, with so many lost in each pipeline."""
    scheme = Oobleck(len(lost), 1, options)
    for group, stages in enumerate(lost):
        for stage in range(stages):
            scheme.on_hit(Hit(group, stage, stage, STAGES))
    return scheme.plan().pace


def ablation_rows() -> Iterator[Row]:
    """Return how much one failed stage slows its pipeline, by FLOP and calibrated."""
    for name, used, measured in ABLATION:
        published = NO_FAULT.tokens_per_s_256 / measured.tokens_per_s_256
        for model in _COST_MODELS:
            skip, recompute, low_rank = used
            options = MecefoOptions(
                cost_model=model,
                skip_attention=skip,
                recompute_ffn=recompute,
                low_rank=low_rank,
            )
            label = "slowdown by FLOP" if model == "flop" else "slowdown, calibrated"
            value = pace_with_one_lost(options)
            yield row_of(label, "mecefo", f"7B {name}", published, [value], "1")


def pace_with_one_lost(options: MecefoOptions) -> float:
    """Return the time of a step with one lost stage over that with none."""
    scheme = Mecefo(1, 1, options)
    scheme.on_hit(Hit(0, 3, 3, STAGES))
    scheme.on_failures([0])
    return scheme.plan().pace


def memory_rows_of(memory: Iterable[MemoryRow]) -> Iterator[Row]:
    """Return the memory of a node, in GB."""
    for row in memory:
        measured = None if row.measured is None else row.measured / 1e9
        yield Row(
            "memory",
            "mecefo",
            f"7B {row.technique}, {row.batch} sequences",
            measured,
            row.predicted / 1e9,
            row.least / 1e9,
            row.most / 1e9,
            "GB",
        )


def numerics_rows(errors: pd.DataFrame) -> Iterator[Row]:
    """Return the angle of approximate gradients, and errors of the mean over ranks."""
    table = error_table(errors)
    shown = table[(table.low_rank == _SHOWN_RANK) & (table.source == "weight")]
    for row in shown.itertuples():
        setting = f"{row.part}, r = {_SHOWN_RANK} of 32, one of {row.ranks} ranks"
        if row.part == "ffn" and row.ranks == shown.ranks.min():
            angle = [float(row.local_angle_deg)]
            yield row_of("angle to the exact gradient", "mecefo", setting, None, angle, "degrees")
        error = [100 * float(row.mean_error)]
        yield row_of("error of the mean gradient", "mecefo", setting, None, error, "%")


def drops_within(rows: Iterable[Row]) -> dict[str, tuple[float, float]]:
    """Return by system the largest error of its drops: in points, and as a factor."""
    worst: dict[str, tuple[float, float]] = {}
    for row in rows:
        if row.quantity == "drop" and row.published is not None:
            points, factor = worst.get(row.scheme, (0.0, 1.0))
            off = abs(row.simulated - row.published)
            ratio = max(row.simulated / row.published, row.published / row.simulated)
            worst[row.scheme] = max(points, off), max(factor, ratio)
    return worst


def scenarios_of(rows: Iterable[Row], system: str, model: str) -> dict[str, Row]:
    """Return the drops of a system on a model, by scenario."""
    return {
        scenario: row
        for row in rows
        for scenario in SCENARIOS
        if (row.quantity, row.scheme, row.setting) == ("drop", system, f"{model} {scenario}")
    }


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or below is None else above / below
