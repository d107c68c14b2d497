"""What rows and sentences are made of: failed GPUs at one moment, 15 days, the training loop."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pandas as pd
from faultline.experiments.studies.base import Results
from faultline.experiments.studies.data import published_value
from faultline.experiments.studies.ntp.setting import GPUS, PACES, SCHEMES, study_job
from faultline.strategies.nonuniform.replica_plan import (
    Scheme,
    performance,
    performance_within_budget,
    proportional_time,
    replica_plan,
)
from faultline.strategies.nonuniform.throughput import available_fraction

FAILING_REPAIR = "5 days"
"""How long repairs take if spares fail, too."""
_TDP_W = 1200.0
"""Of a GPU of GB200, in watts: a rack is fed for all of its GPUs."""
_SPARES = {"spares": "one by one", "replica_spares": "whole replicas"}
"""How spares come, by the column of `failures.trace_table`."""


def spares_published(scheme: str) -> int:
    """Return the spare domains that a scheme needs as published, repair in 5 days."""
    setting = f"15 days, repair {FAILING_REPAIR}, whole replicas, spares fail too"
    return int(published_value("ntp", "spare_domains", scheme, setting))


def peak_published() -> int:
    """Return the most failed GPUs of the published trace."""
    setting = f"15 days, repair {FAILING_REPAIR}, rate x1"
    return int(published_value("ntp", "peak_gpus", "cluster", setting))


def plan_table() -> pd.DataFrame:
    """Return what each scheme does with failed GPUs in a domain, under every model of pace."""
    plans = [
        (pace, scheme.value, failed, plan.degree, plan.sequences, plan.power)
        for pace, scheme in product(PACES, Scheme)
        for failed, plan in enumerate(study_job(pace=pace).plans(scheme))
    ]
    columns = ["pace", "scheme", "failed_gpus", "degree", "sequences", "power_over_tdp"]
    return pd.DataFrame(plans, columns=columns)


def row_tables(results: Results) -> Results:
    """Return the results, and what ``data/rows.csv`` names beside: with texts, and seeds' means."""
    losses, checks, traces = results["losses"], results["checks"], results["traces"]
    bounded = losses.packed & (losses.failed_fraction == 0.004)
    how = losses.packed.map({True: "packed", False: "not packed"})
    percentile = "95th percentile of placements"
    return {
        **results,
        "availability": whole_domains(results["availability"]),
        "high_tp": results["high_tp"].rename(columns={"loss": "mean", "high": percentile}),
        "losses": losses.assign(how=how + bounded.map({True: ", published: at most", False: ""})),
        "traces_by_seed": traces_by_seed(traces),
        "peak_ratios": peak_ratios(traces),
        "spares": spares_by_seed(traces, results["failing_spares"]),
        "power": power_table(),
        "tried": tried_table(),
        "utilisation": with_paces(results["utilisation"]),
        "checks": checks.assign(
            ratio=checks.time_s / checks.alpha_beta_s, setting="TP32, TP30 and TP28 on SimGrid"
        ),
        "loop": loop_by_seed(results["loop"]),
        "domains": _by_seed(results["domains"], ["domain_gpus", "stages", "strategy"]),
    }


def _by_seed(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    return table.groupby([*keys, "seed"], sort=False).mean(numeric_only=True).reset_index()


def whole_domains(table: pd.DataFrame) -> pd.DataFrame:
    """Return the share of whole domains at 0.1 % failed GPUs, of each seed, and once by formula."""
    mine = table[table.failed_fraction == 0.001]
    drawn = mine.assign(scheme="drawn", value=mine.share)
    formula = mine.assign(scheme="formula", value=mine.formula).drop_duplicates("domain_gpus")
    return pd.concat([drawn, formula]).sort_values("domain_gpus", kind="stable")


def with_paces(utilisation: pd.DataFrame) -> pd.DataFrame:
    """Return utilisations with their model of pace in words."""
    return utilisation.assign(pace=utilisation.pace.map(PACES))


def loop_by_seed(table: pd.DataFrame) -> pd.DataFrame:
    """Return means over the traces of a seed, and how far the placement study is from them."""
    means = _by_seed(table, ["variant"])
    names = [variant.partition(", ") for variant in means.variant]
    return means.assign(
        strategy=[scheme for scheme, _, _ in names],
        how=[comma + how for _, comma, how in names],
        degraded_over_placement_study=means.degraded / means.placed,
    )


def traces_by_seed(table: pd.DataFrame) -> pd.DataFrame:
    """Return what happened in the traces, means over those of a seed, a row a quantity."""
    lost = {f"loss_{scheme}": scheme for scheme in SCHEMES}
    shown = ["share_above", "peak_gpus", "mean_fraction"]
    shown += ["least_availability_tp32", "least_availability_tp64", *lost]
    keys = ["repair", "rate_factor", "seed"]
    long = _by_seed(table, keys[:2]).set_index(keys)[shown].stack()
    found = long.rename_axis([*keys, "quantity"]).rename("value").reset_index()
    is_loss = found.quantity.isin(lost)
    return found.assign(
        scheme=found.quantity.map(lost).fillna("cluster"),
        quantity=found.quantity.mask(is_loss, "lost_throughput"),
        unit=found.quantity.map({"peak_gpus": "GPUs"}).fillna("1"),
        over=is_loss.map({True: ", mean over time", False: ""}),
    )


def peak_ratios(table: pd.DataFrame) -> pd.DataFrame:
    """Return by what three times the rate multiplies the most failed GPUs, a row a seed."""
    means = _by_seed(table, ["repair", "rate_factor"])
    peaks = means.set_index(["repair", "rate_factor", "seed"]).peak_gpus.sort_index()
    repairs, found = list(table.repair.unique()), []
    for repair, other in [*zip(repairs, repairs, strict=True), ("3 days", "5 days")]:
        setting = f"15 days, rate x3 and repair {repair}, over rate x1 and repair {other}"
        found += [(setting, ratio) for ratio in peaks[repair, 3] / peaks[other, 1]]
    return pd.DataFrame(found, columns=["setting", "value"])


def spares_by_seed(table: pd.DataFrame, failing: pd.DataFrame) -> pd.DataFrame:
    """Return spare domains that keep the batch through a trace, a row a seed and statistic.

    If spares never fail, one by one and in whole replicas; and if they do.
    """
    cases: list[tuple[str, str, pd.Series]] = []
    for repair, mine in table[table.rate_factor == 1].groupby("repair", sort=False):
        for scheme, (column, kind) in product(SCHEMES, _SPARES.items()):
            setting = f"15 days, repair {repair}, {kind}, spares never fail"
            cases.append((scheme, setting, mine.set_index("seed")[f"{column}_{scheme}"]))
    setting = f"15 days, repair {FAILING_REPAIR}, whole replicas, spares fail too"
    for name, mine in failing.groupby("scheme", sort=False):
        cases.append((str(name), setting, mine.set_index("seed").spares))
    found: list[tuple[str, str, float]] = []
    for scheme, setting, spares in cases:
        by_seed: Any = spares.groupby("seed")
        for statistic, values in (
            ("mean of traces", by_seed.mean()),
            ("95th percentile", by_seed.quantile(0.95)),
            ("worst trace", by_seed.max()),
        ):
            found += [(scheme, f"{setting}, {statistic}", float(value)) for value in values]
    return pd.DataFrame(found, columns=["scheme", "setting", "value"])


def tried_table() -> pd.DataFrame:
    """Return what would give published numbers that are missed, or not stated in full.

    Shares of hit domains are by the formula (`available_fraction`), failures uniform over GPUs.
    """
    found: list[tuple[str, str, str, float]] = []
    for size in (64, 72):
        gpus = GPUS // size * size
        counts = range(1, gpus // 100)
        needed = next(k for k in counts if available_fraction(gpus, size, k) <= 0.90)
        setting = f"TP{size}, for 10 % of domains hit"
        found.append(("failed_fraction_needed", "cluster", setting, needed / gpus))
    boosted = 1.0 - available_fraction(GPUS, 32, round(0.004 * GPUS))
    found.append(("boosted_domains", "ntp-pw", "domains of 32 GPUs, 0.4% failed", boosted))
    for size, times in product((32, 64), (2, 3)):
        setting = f"domains of {size} GPUs, {times} times the published peak"
        share = available_fraction(GPUS, size, times * peak_published())
        found.append(("available_domains_at_peak", "cluster", setting, share))
    rules = study_job().rules
    for local_batch, degree in product((8, 64), (30, 28)):
        ours = replace(rules, local_batch=local_batch, iteration_s=proportional_time)
        plan = replica_plan(Scheme.NTP, rules.domain_gpus - degree, ours)
        setting = f"TP{degree}, local batch {local_batch}, in proportion to its share of the work"
        found.append(("replica_throughput", "ntp", setting, plan.sequences / local_batch))
    return pd.DataFrame(found, columns=["quantity", "scheme", "setting", "value"])


def power_table() -> pd.DataFrame:
    """Return what more power costs, and what NTP-PW draws."""
    plans = study_job().plans(Scheme.NTP_PW)
    found = []
    for power in (1.1, 1.2):
        setting = f"{power} times TDP (the curve is a fit through this)"
        lost = 1.0 - performance(power) / power
        found.append(("performance_per_watt_lost", setting, "1", lost))
    for plan in (plans[1], plans[3]):
        setting = f"TP{plan.degree}, {plan.sequences} sequences"
        found.append(("power_over_tdp", setting, "1", plan.power))
        # What failed GPUs leave unused is all that a rack can add, fed for 32.
        over = f"TP{plan.degree}, fed for {32 * _TDP_W / 1000:g} kW"
        found.append(("power of a domain", over, "kW", plan.degree * plan.power * _TDP_W / 1000))
        kept = performance_within_budget(plan.degree, 32) * plan.degree / 32
        found.append(("pace within the rack's power", over, "1", kept))
    return pd.DataFrame(found, columns=["quantity", "setting", "unit", "value"])


def placement_sentence(losses: pd.DataFrame, failing: pd.DataFrame) -> str:
    """Say what throughput and spares the schemes come to."""
    packed = losses[losses.packed & (losses.failed_fraction == 0.004)]
    loss = packed.groupby("scheme").loss.mean()
    spares = failing.spares[failing.scheme == "dp-drop"]
    return (
        f"At 0.4 % failed GPUs DP-DROP loses {loss['dp-drop']:.1%} of the throughput, NTP "
        f"{loss['ntp']:.1%}, NTP-PW {loss['ntp-pw']:.1%}. DP-DROP keeps its batch through 15 days "
        f"with {spares.mean():.0f} spare domains that fail, too, {spares.max():.0f} in the worst "
        f"trace (published: {spares_published('dp-drop')})."
    )


def loop_sentence(table: pd.DataFrame) -> str:
    """Say what the schemes come to in the training loop."""
    goodput = table.groupby("variant").goodput.mean()
    return (
        f"Through 15 days with restarts of ten minutes, DP-DROP trains {goodput['dp-drop']:.1%} of "
        f"what a job without failures would, NTP {goodput['ntp']:.1%}, NTP-PW "
        f"{goodput['ntp-pw']:.1%}; new hardware at once for all that breaks would make it "
        f"{goodput['checkpoint']:.1%}."
    )
