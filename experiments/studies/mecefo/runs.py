"""The published setting, and its runs: a system, a model, a failure scenario, and a seed.

MeCeFO (NeurIPS 2025): 4 nodes of 8 A100, four pipelines of eight stages, a GPU a stage. Throughput
without failures is input, and so is the ablation of one pipeline; drops are not.

Drops come from runs of a set time: the share of the batches that would have been trained without
failures and was not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
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
from faultline.experiments.studies.stage import Stage
from faultline.simulator.timeline import Event, EventKind
from faultline.strategies.base import Hit, StrategyOptions
from faultline.strategies.oobleck import Oobleck
from faultline.strategies.stage_work import LayerShape
from faultline.strategies.takeover.node_costs import (
    MICRO_BATCHES,
    NO_FAULT,
    cost_of_other_model,
    measured_cost,
)
from numpy.typing import NDArray

GROUPS, STAGES = 4, 8
GPUS = GROUPS * STAGES
SEQUENCE_TOKENS = 256
SYSTEMS = ("bamboo", "oobleck", "mecefo")

_PUBLISHED_SCENARIOS = ("low", "mid", "high")

_Published = dict[tuple[str, str], tuple[float, float, float]]

DROPS_PERCENT: _Published = {
    ("bamboo", "350M"): (2.09, 3.79, 7.04),
    ("oobleck", "350M"): (4.20, 5.80, 10.14),
    ("mecefo", "350M"): (0.15, 0.50, 1.07),
    ("bamboo", "7B"): (7.73, 13.42, 20.84),
    ("oobleck", "7B"): (14.78, 22.87, 28.09),
    ("mecefo", "7B"): (2.67, 3.08, 4.18),
}
"""Published drops of the throughput by system and model: low, mid, high."""

THOUSAND_TOKENS_PER_S: _Published = {
    ("bamboo", "350M"): (428.90, 421.45, 407.22),
    ("oobleck", "350M"): (674.15, 662.93, 632.40),
    ("mecefo", "350M"): (1197.39, 1193.25, 1186.35),
    ("bamboo", "7B"): (11.45, 10.74, 9.82),
    ("oobleck", "7B"): (57.05, 51.63, 48.14),
    ("mecefo", "7B"): (108.15, 107.70, 106.47),
}
"""Published throughputs, likewise."""


def published(table: _Published, system: str, model: str, scenario: str) -> float | None:
    """Return a published value; None where there is none."""
    known = dict(zip(_PUBLISHED_SCENARIOS, table.get((system, model), ()), strict=False))
    return known.get(scenario)


@dataclass(frozen=True, slots=True)
class Model:
    """A model and how it is trained."""

    shape: LayerShape  # A layer.
    layers: int
    sequences: int  # Sequences of a global batch.
    no_fault_tokens_per_s: dict[str, float]  # Published throughput without failures, by system.
    # Nodes of the shortest pipeline: 8 for 6.7B (published: 16 nodes, two pipelines), and for
    # smaller models as many as their parameters are to those, at least one.
    oobleck_least_nodes: int

    @property
    def parameters(self) -> float:
        """Weights of the layers."""
        hidden, ffn = self.shape.hidden, self.shape.ffn_hidden
        return self.layers * (4.0 * hidden * hidden + 3.0 * hidden * ffn)

    @property
    def batch_tokens(self) -> int:
        """Tokens of a global batch."""
        return self.sequences * SEQUENCE_TOKENS

    @property
    def bamboo_work_share(self) -> float:
        """Share of Bamboo's step that is as long as MeCeFO's, of the same work on the same GPUs.

        What its step has beyond that is not work that nodes share.
        """
        return self.no_fault_tokens_per_s["bamboo"] / self.no_fault_tokens_per_s["mecefo"]

    def step_s(self, system: str) -> float:
        """Return the seconds of a step without failures."""
        return self.batch_tokens / self.no_fault_tokens_per_s[system]


MODELS = {
    name: Model(
        LayerShape(*widths, SEQUENCE_TOKENS), layers, sequences,
        dict(zip(SYSTEMS, no_fault, strict=True)), oobleck_least_nodes,
    )
    for name, widths, layers, sequences, no_fault, oobleck_least_nodes in (
        ("350M", (1024, 2736), 24, 8192, (438_060.0, 703_730.0, 1_199_230.0), 1),
        ("1B", (2048, 5461), 24, 4096, (153_750.0, 291_050.0, 471_190.0), 2),
        ("7B", (4096, 11_008), 32, 1024, (12_410.0, 66_950.0, 111_120.0), 8),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Failures:
    """A failure scenario."""

    mtbf_s: float  # Seconds from one failure of any GPU to the next, on average.
    repair_s: float  # Seconds until a failed GPU is back.
    hours: float  # Hours that a run is long.


SCENARIOS = {
    "low": Failures(7200.0, 14_400.0, 600.0),
    "mid": Failures(3600.0, 10_800.0, 450.0),
    "high": Failures(1800.0, 7200.0, 300.0),
    "higher": Failures(600.0, 2400.0, 100.0),
}


def all_reduce_s(model: Model) -> float:
    """Return the seconds by which four pipelines' step is longer than one pipeline's.

    For 7B: of a quarter of the batch on one pipeline (ablation) against the batch on four. For
    others in proportion to their weights.
    """
    known = MODELS["7B"]
    one_pipeline_s = known.batch_tokens / GROUPS / NO_FAULT.tokens_per_s_256
    return (known.step_s("mecefo") - one_pipeline_s) * model.parameters / known.parameters


def doubled_cost(model: Model) -> float:
    """Return what a node with two stages costs, over one with one.

    Measured for 7B. The feed-forward network's share of another model's time follows from its FLOP
    at the same speed and from that model's throughput without failures.
    """
    known = MODELS["7B"]

    def ffn_over_time(of: Model) -> float:
        return of.shape.forward_flop.ffn * of.layers * of.no_fault_tokens_per_s["mecefo"]

    return cost_of_other_model(measured_cost(), ffn_over_time(model) / ffn_over_time(known))


CALIBRATED = "calibrated"
FLOP = "FLOP model"

OVER_MECEFO = "drop over MeCeFO's"
"""How many times MeCeFO's drop another system's is: the published headline."""

ALL_SHARED = "all of the step shared"
"""Bamboo's nodes share all of its step: of what its slow steps of 7B consist is not published."""

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
    ALL_SHARED: {"strategy.bamboo.spread_share": 1.0},
    "always the node before": {"strategy.mecefo.takes_over": "before"},
    "both neighbours": {"strategy.mecefo.takes_over": "split"},
    "rebalanced with hindsight": {"strategy.mecefo.takes_over": "rebalanced"},
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
    for scenario, model, system in product(SCENARIOS, MODELS, SYSTEMS):
        yield Cell(system, model, scenario)
    for scenario in ("low", "mid", "high"):
        yield Cell("varuna", "7B", scenario)
        yield Cell("bamboo", "7B", scenario, ALL_SHARED)
        of_mecefo = [name for name in _VARIANTS if name not in (CALIBRATED, ALL_SHARED)]
        for variant in of_mecefo if full else [FLOP]:
            yield Cell("mecefo", "7B", scenario, variant)


def drop_table(stage: Stage) -> pd.DataFrame:
    """Run every cell once a seed.

    The records, with `system`, `model`, `scenario`, `variant`, `step_s` (seconds of a step without
    failures) and `drop` (share of the throughput that is lost).
    """
    points = []
    for cell in cells(full=stage.full):
        names = ("system", "model", "scenario_name", "variant")
        labels = tuple(zip(names, astuple(cell), strict=True))
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
    changes = {
        "name": f"{cell.system}-{cell.model}-{cell.scenario}",
        "job.groups": GROUPS,
        "job.gpus": GPUS,
        "job.steps": 1_000_000_000,
        "job.time_limit_s": hours_of(cell) * 3600,
        "times.compute_s": step_s(cell.system, model) - reduce_s,
        "job.parameter_bytes": 2 * model.parameters,
        # 16-bit weights, 32-bit weights and moments.
        "protection.state_bytes": 14.0 * model.parameters,
        "model.layers": model.layers,
        "model.hidden": model.shape.hidden,
        "model.ffn_hidden": model.shape.ffn_hidden,
        "model.micro_batch_sequences": model.sequences // GROUPS // MICRO_BATCHES,
        "model.least_stages": model.oobleck_least_nodes,
        "times.all_reduce_s": reduce_s,
        "failures.mtbf_s": failures.mtbf_s,
        "rejoin.repair_s": failures.repair_s,
        "strategy.name": cell.system,
        **_own_keys(cell.system, model),
        **_VARIANTS[cell.variant],
    }
    return load_scenario("mecefo-7b", changes)


def _own_keys(system: str, model: Model) -> dict[str, object]:
    if system == "mecefo":
        return {"strategy.mecefo.doubled_cost": doubled_cost(model)}
    if system == "bamboo":
        # Constants of Bamboo's public simulator: 5 to 20 s by model, their middle, and 30 s.
        stated = {"times.local_rendezvous_s": 12.5, "times.re_form_s": 30.0}
        return {"strategy.bamboo.spread_share": model.bamboo_work_share, **stated}
    return {"checkpoint.interval_steps": 10} if system == "varuna" else {}


def drop_rows(runs: pd.DataFrame) -> Iterator[Row]:
    """Return drops in percent; variants are quantities of their own."""
    for (system, variant, model, scenario), mine in runs.groupby(_KEYS, sort=False):
        name = "drop" if variant == CALIBRATED else f"drop, {variant}"
        known = published(DROPS_PERCENT, system, model, scenario)
        yield row_of(name, system, f"{model} {scenario}", known, list(100 * mine["drop"]), "%")


def throughput_rows(runs: pd.DataFrame) -> Iterator[Row]:
    """Return throughputs in thousand tokens a second; those without failures are input."""
    unit = "thousand tokens/s"
    for name, system in product(MODELS, SYSTEMS):
        no_fault = MODELS[name].no_fault_tokens_per_s[system] / 1000
        yield row_of("throughput", system, f"{name} no fault", None, [no_fault], unit)
    known = runs[(runs.variant == CALIBRATED) & runs.system.isin(SYSTEMS)]
    for (system, _, name, scenario), mine in known.groupby(_KEYS, sort=False):
        no_fault = MODELS[name].no_fault_tokens_per_s[system] / 1000
        value = published(THOUSAND_TOKENS_PER_S, system, name, scenario)
        throughputs = list(no_fault * (1.0 - mine["drop"]))
        yield row_of("throughput", system, f"{name} {scenario}", value, throughputs, unit)


def resilience_rows(runs: pd.DataFrame) -> Iterator[Row]:
    """Return how many times MeCeFO's drop others' drops are, for 7B and frequent failures.

    The last rows put a published drop in the place of a simulated one, or let Bamboo's nodes share
    all of the step: they part what each drop adds to the distance from the headline.
    """
    mine = runs[(runs.model == "7B") & (runs.scenario_name == "high")]
    means = (100 * mine.groupby(["system", "variant"])["drop"].mean()).to_dict()
    drops = {system: means[system, CALIBRATED] for system in SYSTEMS}
    known = {system: DROPS_PERCENT[system, "7B"][-1] for system in SYSTEMS}
    ours, theirs = drops["mecefo"], known["mecefo"]
    for system in ("bamboo", "oobleck"):
        times = known[system] / theirs
        yield row_of(OVER_MECEFO, system, "7B high", times, [drops[system] / ours], "1")
        of_theirs, by_theirs = [known[system] / ours], [drops[system] / theirs]
        name = f"{OVER_MECEFO}, one drop published"
        yield row_of(name, system, f"7B high, {system}'s published", times, of_theirs, "1")
        yield row_of(name, system, "7B high, mecefo's published", times, by_theirs, "1")
        if shared := means.get((system, ALL_SHARED)):
            name = f"{OVER_MECEFO}, {ALL_SHARED}"
            yield row_of(name, system, "7B high", times, [shared / ours], "1")


def plateau_rows() -> Iterator[Row]:
    """Return what Oobleck's 7B loses while k GPUs are down, reconfigurations apart.

    The mean over all ways to place them; `low` and `high` are the least and the most.
    """
    options = scheme_options(scenario_of(Cell("oobleck", "7B", "high")))
    for down in range(1, _MOST_DOWN + 1):
        drops, ways = [], []
        for lost in product(range(min(down, STAGES) + 1), repeat=GROUPS):
            if sum(lost) == down:
                drops.append(100 * (1 - 1 / _oobleck_pace(options, lost)))
                ways.append(prod(comb(STAGES, stages) for stages in lost))
        mean = fmean(drops, ways)
        setting = f"7B {down} GPUs down"
        yield Row("drop", "oobleck", setting, None, mean, min(drops), max(drops), "%")


def _oobleck_pace(options: StrategyOptions, lost: Sequence[int]) -> float:
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
    """Run a cell for some hours and count its steps.

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
