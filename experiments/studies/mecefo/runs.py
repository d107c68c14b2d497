"""Runs of the training loop: a system, a model, a failure scenario, and a seed.

Drops come from runs of a set time: the share of the batches that would have been trained without
failures and was not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pandas as pd
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.runs.player import play
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.mecefo.setting import (
    GROUPS,
    MODELS,
    SCENARIOS,
    STAGES,
    SYSTEMS,
    Failures,
    Model,
    all_reduce_s,
    doubled_cost,
    state_bytes,
)

CALIBRATED = "calibrated"
FLOP = "FLOP model"
BEFORE = "always the node before"
SPLIT = "both neighbours"
REBALANCED = "rebalanced with hindsight"
EXCESS_KEPT = "excess not shared"
"""Bamboo's 7B as its smaller models: what its step has beyond MeCeFO's is not shared by nodes."""

# Short steps make slow runs, and the drops of smaller models and of other systems vary less.
_LENGTHS = {"350M": 0.3, "1B": 0.5, "7B": 1.0}
_LENGTHS_OF_SYSTEMS = {"mecefo": 1.5, "bamboo": 0.5, "oobleck": 0.5, "varuna": 0.2}
_VARIANT_LENGTH = 0.2

_VARIANTS: dict[str, tuple[str, ...]] = {
    EXCESS_KEPT: (f"strategy.bamboo.spread_share={MODELS['7B'].bamboo_work_share!r}",),
    CALIBRATED: (),
    FLOP: ("strategy.mecefo.cost_model=flop",),
    BEFORE: ("strategy.mecefo.takes_over=before",),
    SPLIT: ("strategy.mecefo.takes_over=split",),
    REBALANCED: ("strategy.mecefo.takes_over=rebalanced",),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """A system on a model under failures.

    Attributes
    ----------
    system, model, scenario : str
        Which ones, by name.
    variant : str
        How the system is modelled.
    """

    system: str
    model: str
    scenario: str
    variant: str = CALIBRATED


def cells(*, full: bool) -> Iterator[Cell]:
    """Return what is run; all variants of MeCeFO's rule if `full`."""
    for scenario in SCENARIOS:
        for model in MODELS:
            for system in SYSTEMS:
                yield Cell(system, model, scenario)
    for scenario in ("low", "mid", "high"):
        yield Cell("varuna", "7B", scenario)
        yield Cell("bamboo", "7B", scenario, EXCESS_KEPT)
        for variant in (FLOP, BEFORE, SPLIT, REBALANCED) if full else (FLOP,):
            yield Cell("mecefo", "7B", scenario, variant)


def drop_table(
    seeds: Sequence[int],
    workers: int | None,
    on_done: Callable[[], None] | None = None,
    *,
    full: bool = False,
) -> pd.DataFrame:
    """Run every cell once a seed.

    Returns
    -------
    DataFrame
        The records, with `system`, `model`, `scenario`, `variant`, `step_s` (seconds of a step
        without failures) and `drop` (share of the throughput that is lost).
    """
    tasks = [
        Point.of(
            resolve(scenario_of(cell)),
            seed,
            (
                ("system", cell.system),
                ("model", cell.model),
                ("scenario_name", cell.scenario),
                ("variant", cell.variant),
            ),
        )
        for cell in cells(full=full)
        for seed in seeds
    ]
    runs = pd.DataFrame(play(tasks, workers=workers, on_done=on_done))
    runs["step_s"] = [
        step_s(system, MODELS[model]) for system, model in zip(runs.system, runs.model, strict=True)
    ]
    runs["drop"] = 1.0 - runs.completed_steps * runs.step_s / runs.time_s
    return runs


def number_of_runs(seeds: int, *, full: bool) -> int:
    """Return the number of runs that `drop_table` makes."""
    return seeds * sum(1 for _ in cells(full=full))


def step_s(system: str, model: Model) -> float:
    """Return the seconds of a step without failures and checkpoints.

    Varuna's is taken to be Oobleck's, whose authors compare the two.
    """
    return model.step_s("oobleck" if system == "varuna" else system)


def hours_of(cell: Cell) -> float:
    """Return the simulated hours of a run."""
    length = _LENGTHS[cell.model] * _LENGTHS_OF_SYSTEMS[cell.system]
    if cell.variant == FLOP:
        length *= _VARIANT_LENGTH
    return SCENARIOS[cell.scenario].hours * length


def scenario_of(cell: Cell) -> Scenario:
    """Return the scenario that a cell is."""
    model, failures = MODELS[cell.model], SCENARIOS[cell.scenario]
    return load_scenario("mecefo-7b", [*_settings(cell, model, failures), *_VARIANTS[cell.variant]])


def _settings(cell: Cell, model: Model, failures: Failures) -> list[str]:
    reduce_s = all_reduce_s(model)
    settings = [
        f"name={cell.system}-{cell.model}-{cell.scenario}",
        f"job.groups={GROUPS}",
        f"job.gpus={GROUPS * STAGES}",
        "job.steps=1_000_000_000",
        f"job.time_limit_s={hours_of(cell) * 3600}",
        f"job.compute_s={step_s(cell.system, model) - reduce_s!r}",
        f"job.parameter_bytes={2 * model.parameters!r}",
        f"all_reduce.time_s={reduce_s!r}",
        f"failures.mtbf_s={failures.mtbf_s}",
        f"rejoin.repair_s={failures.repair_s}",
        f"strategy.name={cell.system}",
    ]
    own = _own_settings(cell.system, model)
    settings += [f"strategy.{cell.system}.{key}={value}" for key, value in own.items()]
    if cell.system == "varuna":
        settings.append("checkpoint.interval_steps=10")
    return settings


def _own_settings(system: str, model: Model) -> dict[str, float]:
    """Return the options of a system that depend on the model."""
    if system == "mecefo":
        return {
            "doubled_cost": doubled_cost(model),
            "state_bytes": state_bytes(model),
            "hidden": model.shape.hidden,
            "ffn_hidden": model.shape.ffn_hidden,
            "rank": model.shape.hidden // 4,
        }
    if system == "bamboo":
        return {"spread_share": model.bamboo_spread_share}
    if system == "oobleck":
        return {
            "reconfiguration_s": model.oobleck_reconfiguration_s,
            "layers": model.layers,
            "least_nodes": model.oobleck_least_nodes,
        }
    return {}
