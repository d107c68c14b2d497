"""Tables behind rows and sentences: failed GPUs at one moment, 15 days, the training loop."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pandas as pd
from faultline.experiments.studies.base import Results
from faultline.experiments.studies.ntp.failures import DOMAIN_SIZES
from faultline.experiments.studies.ntp.setting import GPUS, study_job
from faultline.experiments.studies.ntp.throughput import available_fraction
from faultline.strategies.schemes.ntp.replica_plan import (
    MOST_POWER,
    Scheme,
    performance,
    pipeline_time,
    replica_plan,
)

_TDP_W = 1200.0
"""Power of a GPU of GB200, in watts: a rack has the supply for all of its GPUs."""
PUBLISHED_PEAK_GPUS = 72
"""The peak of failed GPUs in the published trace."""


def plan_table() -> pd.DataFrame:
    """Return the plan of each scheme for failed GPUs in a domain."""
    plans = [
        (scheme.value, failed, plan.degree, plan.sequences, plan.power)
        for scheme in Scheme
        for failed, plan in enumerate(study_job().plans(scheme))
    ]
    columns = ["scheme", "failed_gpus", "degree", "sequences", "power_over_tdp"]
    return pd.DataFrame(plans, columns=columns)


def row_tables(results: Results) -> Results:
    """Return the results in the form of ``data/rows.csv``: with texts, and means by seed."""
    losses, traces = results["losses"], results["traces"]
    bounded = losses.packed & (losses.failed_fraction == 0.004)
    how = losses.packed.map({True: "packed", False: "not packed"})
    return {
        **results,
        "high_tp": results["high_tp"].rename(
            columns={"loss": "mean", "high": "95th percentile of placements"}
        ),
        "losses": losses.assign(how=how + bounded.map({True: ", published: at most", False: ""})),
        "traces": by_seed(traces, ["repair", "rate_factor"]),
        "peak_ratios": peak_ratios(traces),
        "spares": spares_by_seed(results["spares"]),
        "loop": by_seed(results["loop"], ["strategy", "how"]),
        "domains": by_seed(results["domains"], ["domain_gpus", "stages", "strategy"]),
    }


def by_seed(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return the means over the traces of a seed."""
    return table.groupby([*keys, "seed"], sort=False).mean(numeric_only=True).reset_index()


def availability_table() -> pd.DataFrame:
    """Return the expected share of whole domains at 0.1 % failed GPUs, by the domains' size."""
    sizes = pd.Series(DOMAIN_SIZES, name="domain_gpus")
    shares = sizes.map(
        lambda size: available_fraction(GPUS // size * size, size, round(GPUS * 0.001))
    )
    return pd.DataFrame({"domain_gpus": sizes, "share": shares})


def peak_ratios(table: pd.DataFrame) -> pd.DataFrame:
    """Return the ratio of peaks of failed GPUs at three times the rate, a row per seed."""
    means = by_seed(table, ["repair", "rate_factor"])
    peaks = means.set_index(["repair", "rate_factor", "seed"]).peak_gpus.sort_index()
    repairs, rows = list(table.repair.unique()), []
    for repair, base in [*zip(repairs, repairs, strict=True), ("3 days", "5 days")]:
        setting = f"15 days, rate x3 and repair {repair}, over rate x1 and repair {base}"
        rows += [(setting, ratio) for ratio in peaks[repair, 3] / peaks[base, 1]]
    return pd.DataFrame(rows, columns=["setting", "value"])


def spares_by_seed(table: pd.DataFrame) -> pd.DataFrame:
    """Return spare domains that keep the batch through a trace, a row per seed and statistic."""
    of_seeds = table.groupby(["how", "scheme", "seed"], sort=False).spares
    statistics = {
        "mean of traces": of_seeds.mean(),
        "95th percentile": of_seeds.quantile(0.95),
        "worst trace": of_seeds.max().astype(float),
    }
    return pd.concat(statistics, names=["statistic"]).rename("value").reset_index()


def tried_table() -> pd.DataFrame:
    """Return alternative settings for published numbers that are missed, or not fully stated.

    Shares of hit domains follow the formula (`available_fraction`): failures uniform over GPUs.
    """
    rows: list[tuple[str, str, str, float]] = []
    for size in (64, 72):
        gpus = GPUS // size * size
        counts = range(1, gpus // 100)
        needed = next(k for k in counts if available_fraction(gpus, size, k) <= 0.90)
        setting = f"TP{size}, for 10 % of domains hit"
        rows.append(("failed_fraction_needed", "cluster", setting, needed / gpus))
    boosted = 1.0 - available_fraction(GPUS, 32, round(0.004 * GPUS))
    rows.append(("boosted_domains", "ntp-pw", "domains of 32 GPUs, 0.4% failed", boosted))
    for size, times in product((32, 64), (2, 3)):
        setting = f"domains of {size} GPUs, {times} times the published peak"
        share = available_fraction(GPUS, size, times * PUBLISHED_PEAK_GPUS)
        rows.append(("available_domains_at_peak", "cluster", setting, share))
    rules = study_job().rules
    for local_batch, degree in product((8, 64), (30, 28)):
        changed = replace(rules, local_batch=local_batch, iteration_s=pipeline_time(0.0))
        plan = replica_plan(Scheme.NTP, rules.domain_gpus - degree, changed)
        setting = f"TP{degree}, local batch {local_batch}, in proportion to its share of the work"
        rows.append(("replica_throughput", "ntp", setting, plan.sequences / local_batch))
    return pd.DataFrame(rows, columns=["quantity", "scheme", "setting", "value"])


def power_table() -> pd.DataFrame:
    """Return the cost of more power, and the power of NTP-PW."""
    plans = study_job().plans(Scheme.NTP_PW)
    rows = []
    for power in (1.1, 1.2):
        setting = f"{power} times TDP (the curve is a fit through this)"
        lost = 1.0 - performance(power) / power
        rows.append(("performance_per_watt_lost", setting, "1", lost))
    for plan in (plans[1], plans[3]):
        setting = f"TP{plan.degree}, {plan.sequences} sequences"
        rows.append(("power_over_tdp", setting, "1", plan.power))
        # The unused supply of failed GPUs is all that a rack can add.
        over = f"TP{plan.degree}, fed for {32 * _TDP_W / 1000:g} kW"
        rows.append(("power of a domain", over, "kW", plan.degree * plan.power * _TDP_W / 1000))
        kept = performance_within_budget(plan.degree, 32) * plan.degree / 32
        rows.append(("pace within the rack's power", over, "1", kept))
    return pd.DataFrame(rows, columns=["quantity", "setting", "unit", "value"])


def performance_within_budget(working: int, powered: int) -> float:
    """Return the performance of `working` GPUs that share the rated power of all `powered` ones."""
    return performance(min(MOST_POWER, powered / working))
