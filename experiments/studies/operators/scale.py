"""Goodput of 16k, 100k and 600k GPUs at published rates of failure, by scheme.

The job is that of `faultline head-to-head` with more replicas of 512 GPUs. Its failures are the
shipped mixes of kinds at Llama 3's or RSC-1's rates per GPU: stops, hangs, corruption, stragglers,
flaps, planned work and unavailable storage. FT-HSDP (arXiv 2602.00277) saw 2.8 times as many
failures on 98,304 GPUs as independent nodes explain. This excess is simulated as bursts, on or off.
Recovery times are modelled: with standbys, from the queue, and with stock NCCL. Repairs last as the
mix states, days for hardware. Warm standby has as many standbys as 95 % of the time need; other
schemes get machines from the queue of a shared cluster, or wait for the repair. They and the
intervals over seeds give the band, since corruption is rare and undoes hours. Two comparisons:
as many independent failures that only stop something, and one cell with other constants of the
kinds.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from functools import reduce
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tomlkit
from faultline.experiments.analysis.intervals import half_width, interval_of_mean
from faultline.experiments.config.mix_file import mix_text
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.durations import recovery_prices
from faultline.experiments.job.failure_model import failure_model
from faultline.experiments.job.hardware import breakage_of
from faultline.experiments.job.resolving import resolve
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.data import read_rows, settings_of
from faultline.experiments.studies.operators.incidents import DAY_S
from faultline.experiments.studies.operators.loop import RSC_RATES
from faultline.experiments.studies.stage import Stage
from faultline.platforms.files import write_file
from faultline.strategies.interface.scheme import Continue, Hit
from faultline.strategies.schemes.warm_standby import TAKEN_ROLE
from scipy.stats import poisson

DAYS = {16_384: 12.0, 98_304: 8.0, 600_064: 4.0}
"""Length of a first run by GPUs, in days: one to three mean repairs, as it starts with none."""
_ENOUGH = 0.95
"""Share of the time in which fewer machines are under repair than there are standbys."""
_LEAST_SEEDS = 5
_GROUP = 512
_LABELS = ("rate", "excess", "failing", "label", "prices", "variant")
RATES = {"Llama 3": 419 / 54 / (16_384 / 8), "RSC-1": RSC_RATES["RSC-1"]}
"""Unexpected interruptions per node of 8 GPUs and day: stops, hangs and corruption."""
MIXES = {"Llama 3": "llama3-kinds", "RSC-1": "rsc-1-kinds"}
"""The kinds at these rates."""
EXCESS = 2.8
PRICES = ("standby", "scalable", "stock", "measured")
"""Durations of recoveries, as parts of ``data/settings.csv``."""

_COPY_S = 7.5
"""Time to copy one machine's state: 6 to 9 s at any size (TrainMover, arXiv 2412.12636)."""
TAKE_OVERS = ("recycle", "mecefo", "oobleck", "bamboo")
"""Schemes whose pipelines continue without lost nodes; one rate, one price of recoveries."""
_EACH_STEP_KEPT, _SHRINKS = (
    settings_of("operators", part) for part in ("each step kept", "shrinks")
)
SCHEMES: Mapping[str, Mapping[str, Any]] = {
    "checkpoint": {},
    "checkpoint, just in time": _EACH_STEP_KEPT,
    "replica-drop": {**_EACH_STEP_KEPT, **_SHRINKS},
    "replication": {"strategy.redundancy": 2, **_SHRINKS},
    "spare": {"strategy.redundancy": 3, **_SHRINKS},
    "warm-standby": {**_EACH_STEP_KEPT, "recovery.hardware": "standby"},
    **{name: {**_EACH_STEP_KEPT, **_SHRINKS} for name in TAKE_OVERS},
}


KINDS, FAIL_STOP = "kinds", "fail-stop only"
"""Failures: the mix, or as many independent ones that only stop something."""


_LARGEST_GPUS = 600_064
"""Simulated at one rate, without take-over schemes: thousands of nodes are broken there."""
_VARIED_GPUS, _VARIED_RATE = 98_304, "Llama 3"
_VARIED_SCHEMES = ("checkpoint", "replica-drop", "spare", "warm-standby")
VARIANTS = {str(row["name"]): row for row in read_rows("operators", "variants")}
"""Other constants of the kinds, one at a time (``data/variants.csv``)."""


def scenario_keys(
    gpus: int, rate: str, has_excess: bool, failing: str, label: str, prices: str, days: float
) -> dict[str, Any]:
    """Return the changes of a cell to the job of the head-to-head."""
    job = {
        **settings_of("operators", "scale"),
        "job.groups": gpus // _GROUP,
        "job.gpus": gpus,
        "job.time_limit_s": days * DAY_S,
        "strategy.name": label.partition(",")[0],
        **SCHEMES[label],
        **settings_of("operators", prices),
    }
    excess = EXCESS if has_excess else 1.0
    if failing == FAIL_STOP:
        failures: dict[str, Any] = {"failures.mtbf_s": DAY_S / (RATES[rate] * gpus / 8 * excess)}
    else:
        failures = {
            "failures.model": "mix",
            "failures.mix": MIXES[rate],
            # Llama 3 counts interruptions by switches, of two hosts each.
            "failures.gpus_per_switch": 16,
            "failures.kinds.correlated_excess": excess,
        }
    if "standby" in (job.get("recovery.hardware"), prices):
        job["recovery.standbys"] = _standbys(job | failures)
    if "recovery.hardware" in SCHEMES[label]:
        # Each role needs a standby. Only its own connections are made anew, as measured on up to
        # 1,024 GPUs (TrainMover); the upper bound makes all anew.
        job["recovery.hardware"] = "standby"
        preset = "scalable" if prices == "stock" else "hot-swap"
        role = load_scenario("head-to-head", job | {"recovery.preset": preset})
        priced = recovery_prices(role)
        job["times.take_over_s"] = priced.duration_s(TAKEN_ROLE) + _COPY_S
    if label in TAKE_OVERS:
        job |= _recoveries(job)
    return job | failures


def _standbys(keys: Mapping[str, Any]) -> int:
    """Return the standbys that suffice in 95 % of the time.

    If all failed machines are replaced at once, those under repair are Poisson distributed (Palm
    1943).
    """
    scenario = load_scenario("head-to-head", keys)
    return int(poisson.ppf(_ENOUGH, breakage_of(scenario, failure_model(scenario)).under_repair))


def _recoveries(keys: dict[str, Any]) -> dict[str, float]:
    """Return the costs of losing and readmitting a node: communicators, and copied state."""
    resolved = resolve(load_scenario("head-to-head", keys | {"failures.mtbf_s": DAY_S}))
    scheme, priced = resolved.strategy(), recovery_prices(resolved.scenario)
    hit = Hit(0, 0, 0, _GROUP)
    scheme.on_hit(hit)
    verdict = scheme.on_failures([0])
    needed = [scheme.on_repair(hit), verdict.recovery if isinstance(verdict, Continue) else None]
    return {
        f"times.{one.kind.replace('-', '_')}_s": priced.duration_s(one) + _COPY_S
        for one in needed
        if one is not None
    }


def points(seeds: int, longer: int, folder: Path) -> Iterator[Point]:
    """Yield every run, `longer` times as long as a first run; mixes are written into a folder."""
    excess, shipped = (False, True), ("",)
    cells = [
        cell
        for cell in (
            *product(DAYS, RATES, excess, (KINDS,), SCHEMES, PRICES, shipped),
            *product(DAYS, RATES, excess, (FAIL_STOP,), SCHEMES, ("scalable",), shipped),
        )
        if cell[4] not in TAKE_OVERS
        or (cell[1], cell[3], cell[5]) == (_VARIED_RATE, KINDS, "scalable")
        if cell[0] < _LARGEST_GPUS or (cell[1] == _VARIED_RATE and cell[4] not in TAKE_OVERS)
    ]
    cells += [
        (_VARIED_GPUS, _VARIED_RATE, True, KINDS, label, "scalable", name)
        for name, label in product(VARIANTS, _VARIED_SCHEMES)
    ]
    for cell in cells:
        gpus, rate, has_excess, failing, label, prices, variant = cell
        keys = scenario_keys(gpus, rate, has_excess, failing, label, prices, DAYS[gpus] * longer)
        if variant:
            keys |= _varied(VARIANTS[variant], folder / f"{variant.replace(' ', '-')}.toml")
        scenario = load_scenario("head-to-head", keys)
        labels = tuple(zip(_LABELS, cell[1:], strict=True))
        for seed in range(seeds):
            yield Point(scenario, seed, labels=labels)


def _varied(variant: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Return the keys of a variant; a mix with a changed cause is written to a file."""
    if "cause" not in variant:
        return {variant["key"]: variant["value"]}
    mix = tomlkit.parse(mix_text(MIXES[_VARIED_RATE]))
    (table,) = (one for one in mix["cause"] if one["name"] == variant["cause"])
    *tables, key = variant["key"].split(".")
    for name in tables:
        table = table[name]
    table[key] = variant["value"]
    write_file(file, tomlkit.dumps(mix))
    return {"failures.mix": str(file)}


def simulate(stage: Stage) -> pd.DataFrame:
    """Run every scheme at every scale; a row per run."""
    folder = stage.folder("mixes").resolve()
    seeds = max(_LEAST_SEEDS, stage.seeds)
    runs = stage.runs("scale", points(seeds, stage.pick(1, 10), folder))
    kept = ["gpus", *_LABELS, "seed", "goodput", "events"]
    return runs.assign(gpus=runs.groups * _GROUP)[kept]


def bands(table: pd.DataFrame) -> pd.DataFrame:
    """Return the goodput of every cell with scalable communicators, its ends and its ``setting``.

    The ends are the lowest and highest of the 95 % intervals over seeds and recovery times.
    """
    keys = ["gpus", "rate", "excess", "failing", "variant", "label"]
    means = table.groupby([*keys, "prices"], sort=False).goodput.agg(["mean", "std", "count"])
    half = np.nan_to_num(half_width(means["std"], means["count"]))
    low, high = interval_of_mean(means["mean"], half, share=True)
    ends = means.assign(low=low, high=high).groupby(keys, sort=False)
    known = means["mean"].xs("scalable", level="prices").rename("goodput")
    cells = ends.agg({"low": "min", "high": "max"}).join(known).reset_index()
    texts = (
        "scale " + cells.gpus.map("{:,} GPUs ".format) + cells.rate,
        cells.excess.map({True: " correlated excess", False: ""}),
        cells.failing.map({FAIL_STOP: f", {FAIL_STOP}", KINDS: ""}),
        (", " + cells.variant).where(cells.variant != "", ""),
    )
    return cells.assign(setting=reduce(operator.add, texts))
