"""What 16k, 100k and 600k GPUs come to at published rates of failure, by scheme.

The job of `faultline head-to-head` with more replicas of 512 GPUs; its failures are Llama 3's or
RSC-1's, a GPU. FT-HSDP (arXiv 2602.00277) saw 2.8 times as many failures on 98,304 GPUs as
independent nodes explain: the correlated excess, on or off, whose mechanism nobody has published.
What a recovery takes is modelled: with standbys, from the queue, and with NCCL as it comes. That is
the band.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import pandas as pd
from faultline.experiments.analysis.printing import Printed, wide_table
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.base import Row
from faultline.experiments.studies.operators.loop import DAY_S, EVERY_STEP_KEPT
from faultline.experiments.studies.stage import Stage

DAYS = {16_384: 4.0, 98_304: 1.0, 600_064: 0.25}
"""How long a first look is, by GPUs, in days."""
_GROUP = 512
RATES = {"Llama 3": 419 / 54 / (16_384 / 8), "RSC-1": 6.50e-3}
"""Failures a node of 8 GPUs and day."""
EXCESS = 2.8
PRICES: Mapping[str, Mapping[str, Any]] = {
    "standby": {"recovery.preset": "scalable", "recovery.hardware": "standby"},
    "scalable": {"recovery.preset": "scalable"},
    "stock": {"recovery.preset": "stock"},
}
"""What recoveries take: not known at a scale that nobody has published."""
_STANDBYS = 16

# 5.6e13 bytes of state at the 2 TB/s of Llama 3's storage (arXiv 2407.21783).
_WRITE_S = 28.0

# Other machines are at hand, for those that drop replicas as for those that restart: 10 min until
# they have joined (FT-HSDP).
_SHRINKS: Mapping[str, Any] = {
    "rejoin.when": "at-checkpoint",
    "rejoin.repair_s": 600.0,
    "times.rejoin_s": 20.0,
}
SCHEMES: Mapping[str, Mapping[str, Any]] = {
    "checkpoint": {},
    "checkpoint, just in time": EVERY_STEP_KEPT,
    "replica-drop": {**EVERY_STEP_KEPT, **_SHRINKS},
    "replication": {"strategy.redundancy": 2, **_SHRINKS},
    "spare": {"strategy.redundancy": 3, **_SHRINKS},
}


def _scenario_keys(
    gpus: int, rate: str, has_excess: bool, label: str, prices: str, days: float
) -> dict[str, Any]:
    per_day = RATES[rate] * gpus / 8 * (EXCESS if has_excess else 1.0)
    return {
        "job.groups": gpus // _GROUP,
        "job.gpus": gpus,
        "job.steps": 10**9,
        "job.parameter_bytes": 1e9,
        "job.time_limit_s": days * DAY_S,
        "strategy.name": label.partition(",")[0],
        "failures.mtbf_s": DAY_S / per_day,
        "times.all_reduce_s": 2.0,
        "times.checkpoint_write_s": _WRITE_S,
        "restart.readers": None,
        **PRICES[prices],
        "recovery.standbys": _STANDBYS,
        "protection.state_bytes": None,
        **SCHEMES[label],
    }


def points(seeds: int, longer: int) -> Iterator[Point]:
    """Yield every run, so many times longer than needed for a first look."""
    for gpus, rate, has_excess, label, prices in product(
        DAYS, RATES, (False, True), SCHEMES, PRICES
    ):
        days = DAYS[gpus] * longer
        scenario = load_scenario(
            "head-to-head", _scenario_keys(gpus, rate, has_excess, label, prices, days)
        )
        labels = (("rate", rate), ("excess", has_excess), ("label", label), ("prices", prices))
        for seed in range(seeds):
            yield Point(scenario, seed, labels=labels)


def play(stage: Stage) -> pd.DataFrame:
    """Play every scheme at every scale; a row a run."""
    runs = stage.runs("scale", points(stage.pick(1, stage.seeds), stage.pick(1, 10)))
    gpus = runs.groups * _GROUP
    kept = ["rate", "excess", "label", "prices", "seed", "goodput", "failures"]
    return runs.assign(gpus=gpus)[["gpus", *kept]]


def rows(table: pd.DataFrame) -> Iterator[Row]:
    """Yield the goodput of every cell; its ends are those of the recoveries."""
    keys = ["gpus", "rate", "excess", "label"]
    for (gpus, rate, excess, label), mine in table.groupby(keys, sort=False):
        by_prices = mine.groupby("prices").goodput.mean()
        setting = f"scale {gpus:,} GPUs {rate}" + (" correlated excess" if excess else "")
        ends = float(by_prices.min()), float(by_prices.max())
        yield Row("goodput", label, setting, None, float(by_prices["scalable"]), *ends, "1")


def printed(table: pd.DataFrame) -> Printed:
    """Return goodput by scheme and scale, from stock recoveries to standbys."""
    by = ["rate", "excess", "label", "gpus"]
    means = table.groupby([*by, "prices"], sort=False).goodput.mean()
    ends = means.groupby(by, sort=False).agg(["min", "max"]).reset_index().sort_values(by[:3])
    cells = ends.assign(
        excess=ends.excess.map({True: "on", False: ""}),
        gpus=ends.gpus.map("{:,} GPUs".format),
        text=[f"{low:.0%} to {high:.0%}" for low, high in ends[["min", "max"]].to_numpy()],
    )
    return wide_table("Goodput at scale", cells, by[:3], "gpus", {"label": "scheme"})
