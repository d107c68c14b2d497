"""Runs of the training loop: a system, a model, a failure scenario, and a seed.

Drops come from runs of a set time: the share of the batches that would have been trained without
failures and was not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import comb, prod
from statistics import fmean

import numpy as np
import pandas as pd
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.job_shape import scheme_options
from faultline.experiments.runs.point import Point
from faultline.experiments.runs.single_run import run
from faultline.experiments.studies.base import Row, row_of
from faultline.experiments.studies.mecefo.setting import (
    DROPS_PERCENT,
    GPUS,
    GROUPS,
    MODELS,
    SCENARIOS,
    STAGES,
    SYSTEMS,
    THOUSAND_TOKENS_PER_S,
    Model,
    all_reduce_s,
    doubled_cost,
    published,
    state_bytes,
)
from faultline.experiments.studies.stage import Stage
from faultline.simulator.timeline import Event, EventKind
from faultline.strategies.base import Hit
from faultline.strategies.oobleck import Oobleck, OobleckOptions
from faultline.strategies.takeover.node_costs import MICRO_BATCHES
from numpy.typing import NDArray

CALIBRATED = "calibrated"
FLOP = "FLOP model"
BEFORE = "always the node before"
SPLIT = "both neighbours"
REBALANCED = "rebalanced with hindsight"

OVER_MECEFO = "drop over MeCeFO's"
"""How many times MeCeFO's drop another system's is: the published headline."""

_KEYS = ["system", "variant", "model", "scenario_name"]
_MOST_DOWN = 8
_BIN_S = 300.0

# Short steps make slow runs, and the drops of smaller models and of other systems vary less.
_LENGTHS = {"350M": 0.3, "1B": 0.5, "7B": 1.0}
_LENGTHS_OF_SYSTEMS = {"mecefo": 1.5, "bamboo": 0.5, "oobleck": 0.5, "varuna": 0.2}
_VARIANT_LENGTH = 0.2

_VARIANTS: dict[str, dict[str, object]] = {
    CALIBRATED: {},
    FLOP: {"strategy.mecefo.cost_model": "flop"},
    BEFORE: {"strategy.mecefo.takes_over": "before"},
    SPLIT: {"strategy.mecefo.takes_over": "split"},
    REBALANCED: {"strategy.mecefo.takes_over": "rebalanced"},
}


@dataclass(frozen=True, slots=True)
class Cell:
    """A system on a model under failures."""

    # Which ones, by name.
    system: str
    model: str
    scenario: str
    variant: str = CALIBRATED  # How the system is modelled.


def cells(*, full: bool) -> Iterator[Cell]:
    """Return what is run; all variants of MeCeFO's rule if `full`."""
    for scenario in SCENARIOS:
        for model in MODELS:
            for system in SYSTEMS:
                yield Cell(system, model, scenario)
    for scenario in ("low", "mid", "high"):
        yield Cell("varuna", "7B", scenario)
        for variant in (FLOP, BEFORE, SPLIT, REBALANCED) if full else (FLOP,):
            yield Cell("mecefo", "7B", scenario, variant)


def drop_table(stage: Stage) -> pd.DataFrame:
    """Run every cell once a seed.

    Returns
    -------
    DataFrame
        The records, with `system`, `model`, `scenario`, `variant`, `step_s` (seconds of a step
        without failures) and `drop` (share of the throughput that is lost).
    """
    points = []
    for cell in cells(full=stage.full):
        labels = (
            ("system", cell.system),
            ("model", cell.model),
            ("scenario_name", cell.scenario),
            ("variant", cell.variant),
        )
        scenario = scenario_of(cell)
        points += [Point(scenario, seed, labels=labels) for seed in range(stage.seeds)]
    runs = stage.runs("runs", points)
    runs["step_s"] = [
        step_s(system, MODELS[model]) for system, model in zip(runs.system, runs.model, strict=True)
    ]
    runs["drop"] = 1.0 - runs.completed_steps * runs.step_s / runs.time_s
    return runs


def step_s(system: str, model: Model) -> float:
    """Return the seconds of a step without failures and checkpoints.

    Varuna's is taken to be Oobleck's, whose authors compare the two.
    """
    return model.step_s("oobleck" if system == "varuna" else system)


_STATED_TIMES: dict[str, dict[str, object]] = {
    "bamboo": {"times.local_rendezvous_s": 12.5, "times.re_form_s": 30.0},
}
"""Constants of Bamboo's public simulator: 5 to 20 s by model, their middle, and 30 s."""


def hours_of(cell: Cell) -> float:
    """Return the simulated hours of a run."""
    length = _LENGTHS[cell.model] * _LENGTHS_OF_SYSTEMS[cell.system]
    if cell.variant == FLOP:
        length *= _VARIANT_LENGTH
    return SCENARIOS[cell.scenario].hours * length


def scenario_of(cell: Cell) -> Scenario:
    """Return the scenario that a cell is."""
    model, failures = MODELS[cell.model], SCENARIOS[cell.scenario]
    reduce_s = all_reduce_s(model)
    own = {
        f"strategy.{cell.system}.{key}": value
        for key, value in _own_options(cell.system, model).items()
    }
    changes = {
        "name": f"{cell.system}-{cell.model}-{cell.scenario}",
        "job.groups": GROUPS,
        "job.gpus": GPUS,
        "job.steps": 1_000_000_000,
        "job.time_limit_s": hours_of(cell) * 3600,
        "times.compute_s": step_s(cell.system, model) - reduce_s,
        "job.parameter_bytes": 2 * model.parameters,
        "protection.state_bytes": state_bytes(model),
        "model.layers": model.layers,
        "model.hidden": model.shape.hidden,
        "model.ffn_hidden": model.shape.ffn_hidden,
        "model.micro_batch_sequences": model.sequences // GROUPS // MICRO_BATCHES,
        "model.least_stages": model.oobleck_least_nodes,
        "times.all_reduce_s": reduce_s,
        "failures.mtbf_s": failures.mtbf_s,
        "rejoin.repair_s": failures.repair_s,
        "strategy.name": cell.system,
        **own,
        **_STATED_TIMES.get(cell.system, {}),
        **_VARIANTS[cell.variant],
    }
    if cell.system == "varuna":
        changes["checkpoint.interval_steps"] = 10
    return load_scenario("mecefo-7b", changes)


def _own_options(system: str, model: Model) -> dict[str, float]:
    """Return the options of a system that depend on the model."""
    if system == "mecefo":
        return {"doubled_cost": doubled_cost(model), "rank": model.shape.hidden // 4}
    if system == "bamboo":
        return {"spread_share": model.bamboo_work_share}
    return {}


def drop_rows(runs: pd.DataFrame) -> Iterator[Row]:
    """Return drops in percent; variants are quantities of their own."""
    for (system, variant, model, scenario), mine in runs.groupby(_KEYS, sort=False):
        name = "drop" if variant == CALIBRATED else f"drop, {variant}"
        known = published(DROPS_PERCENT, system, model, scenario)
        yield row_of(name, system, f"{model} {scenario}", known, list(100 * mine["drop"]), "%")


def throughput_rows(runs: pd.DataFrame) -> Iterator[Row]:
    """Return throughputs in thousand tokens a second; those without failures are input."""
    unit = "thousand tokens/s"
    for model in MODELS.values():
        for system in SYSTEMS:
            no_fault = model.no_fault_tokens_per_s[system] / 1000
            yield row_of("throughput", system, f"{model.name} no fault", None, [no_fault], unit)
    known = runs[(runs.variant == CALIBRATED) & runs.system.isin(SYSTEMS)]
    for (system, _, name, scenario), mine in known.groupby(_KEYS, sort=False):
        no_fault = MODELS[name].no_fault_tokens_per_s[system] / 1000
        value = published(THOUSAND_TOKENS_PER_S, system, name, scenario)
        throughputs = list(no_fault * (1.0 - mine["drop"]))
        yield row_of("throughput", system, f"{name} {scenario}", value, throughputs, unit)


def resilience_rows(runs: pd.DataFrame) -> Iterator[Row]:
    """Return how many times MeCeFO's drop others' drops are, for 7B and frequent failures."""
    mine = runs[
        (runs.variant == CALIBRATED) & (runs.model == "7B") & (runs.scenario_name == "high")
    ]
    drops = mine.groupby("system")["drop"].mean()
    known = {system: DROPS_PERCENT[system, "7B"][-1] for system in SYSTEMS}
    for system in ("bamboo", "oobleck"):
        value = float(drops[system] / drops["mecefo"])
        times = known[system] / known["mecefo"]
        yield row_of(OVER_MECEFO, system, "7B high", times, [value], "1")


def plateau_rows() -> Iterator[Row]:
    """Return what Oobleck's 7B loses while k GPUs are down, reconfigurations apart.

    The mean over all ways to place them; `low` and `high` are the least and the most.
    """
    options = scheme_options(scenario_of(Cell("oobleck", "7B", "high")))
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


@dataclass(frozen=True, slots=True)
class Course:
    """A run, in bins of equal length."""

    hours: NDArray[np.float64]  # Middle of each bin (shape (bins,)).
    relative: NDArray[np.float64]  # Throughput over that without failures (shape (bins,)).
    failures_h: NDArray[np.float64]  # When groups were found missing, in hours.


def course_of(cell: Cell, seed: int, hours: float) -> Course:
    """Play a cell for some hours and count its steps.

    A step is dealt out to the bins in proportion to the time that it spent in them.
    """
    events: list[Event] = []
    scenario = scenario_of(cell).with_({"job.time_limit_s": hours * 3600.0})
    run(scenario, seed, record_event=events.append)
    ends_s = [event.time_s for event in events if event.kind is EventKind.STEP]
    edges_s = np.arange(0.0, hours * 3600.0 + _BIN_S / 2, _BIN_S)
    done = np.interp(edges_s, [0.0, *ends_s], np.arange(len(ends_s) + 1.0))
    relative = np.diff(done) * step_s(cell.system, MODELS[cell.model]) / _BIN_S
    failures_s = [event.time_s for event in events if event.kind is EventKind.MISSING]
    middles_s = (edges_s[1:] + edges_s[:-1]) / 2
    return Course(middles_s / 3600.0, relative, np.array(failures_s) / 3600.0)
