"""The published setting, and its runs: a system, a model, a failure scenario, and a seed.

MeCeFO (NeurIPS 2025): 4 nodes of 8 A100, four pipelines of eight stages, one GPU per stage.
Throughput without failures and the ablation of one pipeline are inputs; drops are not.

Runs have a fixed length. A drop is the share of the batches that were not trained, of those that
would have been trained without failures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import comb, prod
from statistics import fmean
from typing import NamedTuple

import pandas as pd
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.job_shape import job_shape
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.data import published_value
from faultline.experiments.studies.stage import Stage
from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.scheme import Hit, StrategyOptions
from faultline.strategies.interface.stage_work import LayerShape
from faultline.strategies.schemes.mecefo.node_costs import MICRO_BATCHES, NO_FAULT, measured_cost
from faultline.strategies.schemes.oobleck import Oobleck

GROUPS, STAGES = 4, 8
GPUS = GROUPS * STAGES
SEQUENCE_TOKENS = 256
SYSTEMS = ("bamboo", "oobleck", "mecefo")


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """A model and how it is trained."""

    shape: LayerShape  # A layer.
    layers: int
    sequences: int  # Sequences of a global batch.
    no_fault_tokens_per_s: dict[str, float]  # Published throughput without failures, by system.
    # Nodes of the shortest pipeline: 8 for 6.7B (published: 16 nodes, two pipelines); smaller
    # models need fewer, in proportion to their parameters, at least one.
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
        """Bamboo's share of a step that equals MeCeFO's step: same work on the same GPUs.

        Nodes cannot share the remaining time of its step.
        """
        return self.no_fault_tokens_per_s["bamboo"] / self.no_fault_tokens_per_s["mecefo"]

    def step_s(self, system: str) -> float:
        """Return the seconds of a step without failures."""
        return self.batch_tokens / self.no_fault_tokens_per_s[system]


MODELS = {
    name: TrainedModel(
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

    mtbf_s: float  # Mean time between failures of any GPU, in seconds.
    repair_s: float  # Seconds until a failed GPU returns.
    hours: float  # Length of a run, in hours.


SCENARIOS = {
    "low": Failures(7200.0, 14_400.0, 600.0),
    "mid": Failures(3600.0, 10_800.0, 450.0),
    "high": Failures(1800.0, 7200.0, 300.0),
    "higher": Failures(600.0, 2400.0, 100.0),
}


def all_reduce_s(model: TrainedModel) -> float:
    """Return the seconds by which a step of four pipelines is longer than that of one.

    For 7B this compares the batch on four pipelines with a quarter of it on one (ablation). Other
    models are in proportion to their weights.
    """
    known = MODELS["7B"]
    one_pipeline_s = known.batch_tokens / GROUPS / NO_FAULT.tokens_per_s_256
    return (known.step_s("mecefo") - one_pipeline_s) * model.parameters / known.parameters


def doubled_cost(model: TrainedModel) -> float:
    """Return the cost of a node with two stages, relative to one with one.

    Measured for 7B. The feed-forward network's share of another model's time follows from its FLOP
    at the same speed and from that model's throughput without failures.
    """
    known = MODELS["7B"]

    def ffn_over_time(of: TrainedModel) -> float:
        return of.shape.forward_flop.ffn * of.layers * of.no_fault_tokens_per_s["mecefo"]

    return cost_of_other_model(measured_cost(), ffn_over_time(model) / ffn_over_time(known))


CALIBRATED = "calibrated"
FLOP = "FLOP model"
ALL_SHARED = "all of the step shared"
"""Bamboo's nodes share all of its step: the paper does not explain its slow steps of 7B."""

_VARIANTS: dict[str, dict[str, object]] = {
    CALIBRATED: {},
    FLOP: {"strategy.mecefo.cost_model": "flop"},
    ALL_SHARED: {"strategy.bamboo.spread_share": 1.0},
}
_MOST_DOWN = 8

# Short steps make runs slow to simulate; drops of smaller models and other systems vary less.
_LENGTHS = {"350M": 0.3, "1B": 0.5, "7B": 1.0}
_LENGTHS_OF_SYSTEMS = {"mecefo": 1.5, "bamboo": 0.5, "oobleck": 0.5}
_LENGTHS_OF_VARIANTS = {FLOP: 0.2}


class ThroughputCell(NamedTuple):
    """A system on a model under failures."""

    system: str
    model: str
    scenario_name: str
    variant: str = CALIBRATED  # Model of the system.


def cells() -> Iterator[ThroughputCell]:
    """Return all simulated cells."""
    for scenario, model, system in product(SCENARIOS, MODELS, SYSTEMS):
        yield ThroughputCell(system, model, scenario)
    for scenario in ("low", "mid", "high"):
        yield ThroughputCell("bamboo", "7B", scenario, ALL_SHARED)
        yield ThroughputCell("mecefo", "7B", scenario, FLOP)


def drop_table(stage: Stage) -> pd.DataFrame:
    """Run every cell once per seed; see `with_drops`."""
    points = [
        Point(scenario_of(cell), seed, labels=tuple(cell._asdict().items()))
        for cell in cells()
        for seed in range(stage.seeds)
    ]
    runs = stage.runs("runs", points)
    of_cells = zip(runs.system, runs.model, strict=True)
    steps_s = [MODELS[model].step_s(system) for system, model in of_cells]
    return with_drops(runs.assign(drop=1.0 - runs.completed_steps * steps_s / runs.time_s))


def with_drops(runs: pd.DataFrame) -> pd.DataFrame:
    """Return runs with ``drop``, the lost share of the throughput, and its compared values.

    These are ``quantity`` (each variant has its own), ``drop_percent``, and ``throughput`` in
    thousand tokens per second, for published systems as they are modelled.
    """
    no_fault = no_fault_table().set_index(["model", "system"]).throughput
    whole = no_fault.reindex(pd.MultiIndex.from_frame(runs[["model", "system"]])).to_numpy()
    plain = runs.variant.eq(CALIBRATED)
    throughput = pd.Series(whole, runs.index) * (1.0 - runs["drop"])
    return runs.assign(
        quantity=("drop, " + runs.variant).where(~plain, "drop"),
        drop_percent=100 * runs["drop"],
        throughput=throughput.where(plain),
    )


def no_fault_table() -> pd.DataFrame:
    """Return throughputs without failures, which are inputs, in thousand tokens per second."""
    return pd.DataFrame(
        {"model": name, "system": system, "throughput": tokens_per_s / 1000}
        for name, model in MODELS.items()
        for system, tokens_per_s in model.no_fault_tokens_per_s.items()
    )


def hours_of(cell: ThroughputCell) -> float:
    """Return the simulated hours of a run."""
    length = _LENGTHS[cell.model] * _LENGTHS_OF_SYSTEMS[cell.system]
    length *= _LENGTHS_OF_VARIANTS.get(cell.variant, 1.0)
    return SCENARIOS[cell.scenario_name].hours * length


def scenario_of(cell: ThroughputCell) -> Scenario:
    """Return the scenario of a cell."""
    model, failures = MODELS[cell.model], SCENARIOS[cell.scenario_name]
    reduce_s = all_reduce_s(model)
    changes = {
        "name": f"{cell.system}-{cell.model}-{cell.scenario_name}",
        "job.groups": GROUPS,
        "job.gpus": GPUS,
        "job.steps": 1_000_000_000,
        "job.time_limit_s": hours_of(cell) * 3600,
        "times.compute_s": model.step_s(cell.system) - reduce_s,
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


def _own_keys(system: str, model: TrainedModel) -> dict[str, object]:
    if system == "mecefo":
        return {"strategy.mecefo.doubled_cost": doubled_cost(model)}
    if system == "bamboo":
        # Constants of Bamboo's public simulator: 5 to 20 s by model, their middle, and 30 s.
        stated = {"times.local_rendezvous_s": 12.5, "times.re_form_s": 30.0}
        return {"strategy.bamboo.spread_share": model.bamboo_work_share, **stated}
    return {}


def resilience_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the ratios of other systems' drops to MeCeFO's, for 7B and frequent failures.

    ``drop over MeCeFO's`` is the published headline. The other quantities replace one simulated
    drop by the published one, or let Bamboo's nodes share all of the step. They separate the
    contributions of the drops to the difference from the headline.
    """
    mine = runs[(runs.model == "7B") & (runs.scenario_name == "high")]
    means = (100 * mine.groupby(["system", "variant"])["drop"].mean()).to_dict()
    known = {system: published_value("mecefo", "drop", system, "7B high") for system in SYSTEMS}
    ours, theirs = means["mecefo", CALIBRATED], known["mecefo"]
    one_published = "drop over MeCeFO's, one drop published"
    rows = []
    for system in ("bamboo", "oobleck"):
        found, published = means[system, CALIBRATED], known[system]
        times = [
            ("drop over MeCeFO's", "7B high", found / ours),
            (one_published, f"7B high, {system}'s published", published / ours),
            (one_published, "7B high, mecefo's published", found / theirs),
        ]
        if shared := means.get((system, ALL_SHARED)):
            times.append((f"drop over MeCeFO's, {ALL_SHARED}", "7B high", shared / ours))
        rows += [(system, published / theirs, *one) for one in times]
    columns = ["system", "published", "quantity", "setting", "times"]
    return pd.DataFrame(rows, columns=columns)


def plateau_table() -> pd.DataFrame:
    """Return the loss of Oobleck's 7B while some GPUs are ``down``, in per cent.

    Reconfigurations are excluded. ``drop`` is the mean over all placements of these GPUs; ``low``
    and ``high`` are the extremes.
    """
    shape = job_shape(scenario_of(ThroughputCell("oobleck", "7B", "high")))
    rows = []
    for down in range(1, _MOST_DOWN + 1):
        drops, ways = [], []
        for lost in product(range(min(down, STAGES) + 1), repeat=GROUPS):
            if sum(lost) == down:
                drops.append(100 * (1 - 1 / _oobleck_pace(shape, lost)))
                ways.append(prod(comb(STAGES, stages) for stages in lost))
        rows.append((down, fmean(drops, ways), min(drops), max(drops)))
    return pd.DataFrame(rows, columns=["down", "drop", "low", "high"])


def _oobleck_pace(shape: JobShape, lost: Sequence[int]) -> float:
    """Return the time of a step, relative to all nodes, with `lost` nodes missing per pipeline."""
    scheme = Oobleck(len(lost), 1, StrategyOptions(), shape)
    for group, stages in enumerate(lost):
        for stage in range(stages):
            scheme.on_hit(Hit(group, stage, stage, STAGES))
    return scheme.plan().pace


def cost_of_other_model(measured: float, ffn_share_ratio: float) -> float:
    """Return the cost of a node with two tasks for another model than the measured one.

    With all techniques a task omits attention's backward pass, two thirds of its time, so that
    ``x = 2/3 (1 + s phi)``, where phi is the feed-forward network's share of a normal task's time
    and s is a constant of the techniques. The x of the `measured` model (above 2/3) gives s phi.
    `ffn_share_ratio` is the other model's phi over the measured model's.
    """
    return 2.0 / 3.0 * (1.0 + (1.5 * measured - 1.0) * ffn_share_ratio)
