"""What is told as rows, tables and sentences.

Of failed GPUs at one moment; of failures and repairs through 15 days, and of spares for them; of
the schemes in the training loop, and inside SPARe and replication.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import pandas as pd
from faultline.experiments.analysis.printing import Columns, Printed, columns_of
from faultline.experiments.figures.palette import title_of
from faultline.experiments.studies.base import Row, row_of, rows_by
from faultline.experiments.studies.ntp.loop import REPAIR, variant_name
from faultline.experiments.studies.ntp.setting import (
    GPUS,
    PACES,
    PUBLISHED_AVAILABILITY_TP64,
    PUBLISHED_MOST_LOSS,
    PUBLISHED_PEAK_GPUS,
    PUBLISHED_SPARES,
    study_job,
)
from faultline.strategies.nonuniform.replica_plan import (
    PowerCurve,
    Scheme,
    proportional_time,
    replica_plan,
)
from faultline.strategies.nonuniform.throughput import available_fraction

SCHEMES = {scheme.value: title_of(scheme.value) for scheme in Scheme}

_SHOWN_FRACTIONS = (0.0005, 0.001, 0.002, 0.003, 0.004)
_MOST_FAILED = 8
_TDP_W = 1200.0
"""Of a GPU of GB200, in watts: a rack is fed for all of its GPUs."""


def plan_table() -> pd.DataFrame:
    """Return what each scheme does with failed GPUs in a domain, under every model of pace."""
    plans = [
        (pace, scheme.value, failed, plan.degree, plan.sequences, plan.power)
        for pace in PACES
        for scheme in Scheme
        for failed, plan in enumerate(study_job(pace=pace).plans(scheme))
    ]
    columns = ["pace", "scheme", "failed_gpus", "degree", "sequences", "power_over_tdp"]
    return pd.DataFrame(plans, columns=columns)


lost_rows = partial(
    rows_by, quantities={"loss": "1"}, scheme="{scheme}", names={"loss": "lost_throughput"}
)


def availability_rows(table: pd.DataFrame) -> Iterator[Row]:
    """Yield the share of whole domains, drawn and by formula, at 0.1 % failed GPUs."""
    for size, mine in table[table.failed_fraction == 0.001].groupby("domain_gpus"):
        known = PUBLISHED_AVAILABILITY_TP64 if size == 64 else None
        texts = f"domains of {size} GPUs, 0.1% failed", known
        formula = [float(mine.formula.iloc[0])]
        yield row_of("available_domains", "drawn", *texts, list(mine.share), "1")
        yield row_of("available_domains", "formula", *texts, formula, "1")


def loss_rows(high_tp: pd.DataFrame, losses: pd.DataFrame, paces: pd.DataFrame) -> Iterator[Row]:
    """Yield throughput lost: jobs of high degrees at 0.1 %, all fractions, all models of pace."""
    means = {"loss": "mean", "high": "95th percentile of placements"}
    yield from rows_by(
        high_tp[high_tp.packed & (high_tp.scheme == Scheme.DP_DROP.value)],
        ["degree"],
        dict.fromkeys(means, "1"),
        lambda degree, column: f"TP{degree}, 0.1% failed, packed, {means[column]}",
        Scheme.DP_DROP.value,
        # "Nearly 10 %" for a high-TP job.
        lambda _, degree: 0.10 if degree >= 64 else None,
        dict.fromkeys(means, "lost_throughput"),
    )

    def bound(_: str, failed_fraction: float, packed: bool, scheme: str) -> float | None:
        return PUBLISHED_MOST_LOSS[scheme] if packed and failed_fraction == 0.004 else None

    def setting(failed_fraction: float, packed: bool, **_: str) -> str:
        text = f"{failed_fraction:.3%} failed, {'packed' if packed else 'not packed'}"
        return f"{text}, published: at most" if packed and failed_fraction == 0.004 else text

    keys = ["failed_fraction", "packed", "scheme"]
    yield from lost_rows(losses, keys, setting=setting, published=bound)
    reduced = paces[paces.scheme != Scheme.DP_DROP.value]
    text = "{failed_fraction:.3%} failed, packed, pace {pace}"
    yield from lost_rows(reduced, ["pace", "scheme", "failed_fraction"], setting=text)


def tried_rows() -> Iterator[Row]:
    """Yield what would give published numbers that are missed, or not stated in full.

    Shares of hit domains are by the formula (`available_fraction`), failures uniform over GPUs.
    """
    for size in (64, 72):
        gpus = GPUS // size * size
        counts = range(1, gpus // 100)
        needed = next(k for k in counts if available_fraction(gpus, size, k) <= 0.90)
        setting = f"TP{size}, for 10 % of domains hit"
        yield row_of("failed_fraction_needed", "cluster", setting, 0.001, [needed / gpus], "1")
    boosted = 1.0 - available_fraction(GPUS, 32, round(0.004 * GPUS))
    setting = "domains of 32 GPUs, 0.4% failed"
    yield row_of("boosted_domains", Scheme.NTP_PW.value, setting, 0.12, [boosted], "1")
    for size, times in product((32, 64), (2, 3)):
        failed = times * PUBLISHED_PEAK_GPUS
        setting = f"domains of {size} GPUs, {times} times the published peak"
        share = [available_fraction(GPUS, size, failed)]
        yield row_of("available_domains_at_peak", "cluster", setting, 0.80, share, "1")
    rules = study_job().rules
    for local_batch, degree in product((8, 64), (30, 28)):
        sequences = replica_plan(
            Scheme.NTP,
            rules.domain_gpus - degree,
            replace(rules, local_batch=local_batch, iteration_s=proportional_time),
        ).sequences
        setting = f"TP{degree}, local batch {local_batch}, in proportion to its share of the work"
        kept, functional = [sequences / local_batch], degree / rules.domain_gpus
        yield row_of("replica_throughput", Scheme.NTP.value, setting, functional, kept, "1")


def power_rows() -> Iterator[Row]:
    """Yield what more power costs, and what NTP-PW draws."""
    curve, boosted = PowerCurve(), Scheme.NTP_PW.value
    # Published of TP30, by power over TDP.
    for power, known in ((1.1, 0.028), (1.2, 0.065)):
        setting = f"{power} times TDP (the curve is a fit through this)"
        lost = [1.0 - curve.performance(power) / power]
        yield row_of("performance_per_watt_lost", boosted, setting, known, lost, "1")
    plans = study_job().plans(Scheme.NTP_PW)
    for plan in (plans[1], plans[3]):
        setting = f"TP{plan.degree}, {plan.sequences} sequences"
        yield row_of("power_over_tdp", boosted, setting, None, [plan.power], "1")
        # What failed GPUs leave unused is all that a rack can add, fed for 32.
        watts = plan.degree * plan.power * _TDP_W
        over = f"TP{plan.degree}, fed for {32 * _TDP_W / 1000:g} kW"
        yield row_of("power of a domain", boosted, over, None, [watts / 1000], "kW")
        kept = curve.within_budget(plan.degree, 32) * plan.degree / 32
        yield row_of("pace within the rack's power", boosted, over, None, [kept], "1")


def utilisation_rows(table: pd.DataFrame) -> Iterator[Row]:
    """Yield the share of compute in a step by domain size; published of 32K GPUs, 8K sequences."""
    for one in table.itertuples():
        known = {32: 0.87, 8: 0.68}.get(one.domain) if one.gpus == 32_768 else None
        layout = f"PP{one.stages} DP{one.replicas}, {one.parts} parts a stage"
        setting = f"{one.gpus:,} GPUs, TP{one.domain}, {PACES[one.pace]}; {layout}"
        yield row_of("utilisation", "cluster", setting, known, [one.utilisation], "1")


def charged_rows(losses: pd.DataFrame) -> Iterator[Row]:
    """Yield what is lost if healthy replicas wait for all that they reshard."""
    reduced = losses[losses.packed & (losses.scheme != Scheme.DP_DROP.value)]
    return rows_by(
        reduced,
        ["scheme", "failed_fraction"],
        {"resharded": "1"},
        "{failed_fraction:.3%} failed, packed, resharding charged",
        "{scheme}",
        lambda _, scheme, failed_fraction: (
            PUBLISHED_MOST_LOSS[scheme] if failed_fraction == 0.004 else None
        ),
        {"resharded": "lost_throughput"},
    )


def sync_rows(resharding: pd.DataFrame, checks: pd.DataFrame) -> Iterator[Row]:
    """Yield what resharding costs, and the sums and times of the simulated gradient syncs."""
    ntp, setting = Scheme.NTP.value, "TP32 to TP{degree}, nothing hidden"
    yield from rows_by(
        resharding,
        ["degree"],
        {"backward_slowdown": "1"},
        f"{setting}, published: at most",
        ntp,
        lambda *_, **__: 0.04,
    )
    yield from rows_by(resharding, ["degree"], {"iteration_slowdown": "1"}, setting, ntp)
    setting = "TP32, TP30 and TP28 on SimGrid"
    wrong, ratios = list(checks.wrong.astype(float)), list(checks.time_s / checks.alpha_beta_s)
    yield row_of("wrong_gradient_sums", ntp, setting, 0.0, wrong, "elements")
    yield row_of("sync_time_over_alpha_beta", ntp, setting, None, ratios, "1")


def shown_plans(plans: pd.DataFrame) -> Printed:
    """Show what each scheme does with failed GPUs in a domain of 32."""
    ours = plans[(plans.pace == "1f1b") & (plans.failed_gpus <= _MOST_FAILED)]
    frame = pd.DataFrame({"failed GPUs": range(_MOST_FAILED + 1)})
    degrees = ours[ours.scheme == Scheme.NTP.value].degree
    frame["degree"] = [f"TP{degree}" for degree in degrees]
    for scheme, name in SCHEMES.items():
        mine = ours[ours.scheme == scheme]
        frame[name] = [
            f"{plan.sequences}" + (f" ({plan.power_over_tdp:.2f})" * (plan.power_over_tdp > 1.0))
            for plan in mine.itertuples()
        ]
    title = "A replica with failed GPUs in its worst domain: sequences of 8 (power of TDP)"
    return Printed(title, frame, dict.fromkeys(frame.columns, "{}"))


def shown_losses(losses: pd.DataFrame) -> Printed:
    """Show the loss of each scheme over the failed fraction: packed, resharded, and not packed."""
    means = losses.groupby(["packed", "failed_fraction", "scheme"])[["loss", "resharded"]].mean()
    packed, apart = (means.loc[packing].unstack() for packing in (True, False))
    frame = pd.DataFrame({"failed GPUs": _SHOWN_FRACTIONS})
    for table, column, how in (
        (packed, "loss", "packed"),
        (packed, "resharded", "resharding charged"),
        (apart, "loss", "not packed"),
    ):
        for scheme, name in SCHEMES.items():
            if column == "loss" or scheme != Scheme.DP_DROP.value:
                frame[f"{name}\n{how}"] = list(table[column, scheme].loc[list(_SHOWN_FRACTIONS)])
    title = "Throughput lost: mean over random placements"
    return Printed(title, frame, dict.fromkeys(frame.columns, "{:.2%}"))


def shown_pods(pods: pd.DataFrame) -> Printed:
    """Show what is lost if hit domains are packed within pods of some replicas."""
    means = pods.groupby(["failed_fraction", "pod_replicas", "scheme"], sort=False).loss.mean()
    frame = means.unstack(sort=False).rename(columns=SCHEMES).reset_index()
    frame.columns = ["failed GPUs", "replicas a pod", *SCHEMES.values()]
    formats = {"failed GPUs": "{:.1%}", "replicas a pod": "{}"}
    title = "Throughput lost if hit domains are packed within pods of 256 GPUs a replica"
    return Printed(title, frame, formats | dict.fromkeys(SCHEMES.values(), "{:.2%}"))


FAILING_REPAIR = "5 days"
"""How long repairs take where spares fail, too."""

_PUBLISHED_AT_RATE = {
    1: {"share_above": 0.81, "peak_gpus": PUBLISHED_PEAK_GPUS},
    3: {"least_availability_tp32": 0.80, "least_availability_tp64": 0.80},
}


def course_rows(table: pd.DataFrame) -> Iterator[Row]:
    """Yield what happened in the traces, means of each seed's traces, and what the rate changes."""
    keys = ["repair", "rate_factor"]
    means = table.groupby([*keys, "seed"], sort=False).mean(numeric_only=True).reset_index()
    measured = {
        "share_above": "1",
        "peak_gpus": "GPUs",
        "mean_fraction": "1",
        "least_availability_tp32": "1",
        "least_availability_tp64": "1",
    }
    lost = {f"loss_{scheme}": scheme for scheme in SCHEMES}

    def known(column: str, repair: str, rate_factor: int) -> float | None:
        # The paper says 3 or 5 days; its peak is that of 5.
        return None if repair == "3 days" else _PUBLISHED_AT_RATE[rate_factor].get(column)

    yield from rows_by(
        means,
        keys,
        {**measured, **dict.fromkeys(lost, "1")},
        lambda repair, rate_factor, column: (
            f"15 days, repair {repair}, rate x{rate_factor}"
            + (", mean over time" if column in lost else "")
        ),
        lambda column, **_: lost.get(column, "cluster"),
        known,
        dict.fromkeys(lost, "lost_throughput"),
    )
    peaks = means.set_index([*keys, "seed"]).peak_gpus.sort_index()
    repairs = list(table.repair.unique())
    for repair, other in [*zip(repairs, repairs, strict=True), ("3 days", "5 days")]:
        setting = f"15 days, rate x3 and repair {repair}, over rate x1 and repair {other}"
        ratios = list(peaks[repair, 3] / peaks[other, 1])
        yield row_of("peak_ratio", "cluster", setting, 2.0, ratios, "1")


def spare_rows(table: pd.DataFrame, failing: pd.DataFrame) -> Iterator[Row]:
    """Yield the spare domains that keep the batch through a trace, if they never fail and if so."""
    for repair, mine in table[table.rate_factor == 1].groupby("repair", sort=False):
        by_seed = mine.groupby("seed")
        for scheme in SCHEMES:
            for column, kind in (("spares", "one by one"), ("replica_spares", "whole replicas")):
                compared = repair == "5 days" and column == "replica_spares"
                setting = f"15 days, repair {repair}, {kind}, spares never fail"
                spares = by_seed[f"{column}_{scheme}"]
                yield from _spares_of(scheme, setting, spares, compared)
    for scheme, mine in failing.groupby("scheme", sort=False):
        setting = f"15 days, repair {FAILING_REPAIR}, whole replicas, spares fail too"
        yield from _spares_of(scheme, setting, mine.groupby("seed").spares, True)


def _spares_of(scheme: str, setting: str, by_seed: Any, compared: bool) -> Iterator[Row]:
    known = PUBLISHED_SPARES[scheme] if compared else None
    for name, found in (
        ("mean of traces", by_seed.mean()),
        ("95th percentile", by_seed.quantile(0.95)),
        ("worst trace", by_seed.max()),
    ):
        values = [float(value) for value in found]
        yield row_of("spare_domains", scheme, f"{setting}, {name}", known, values, "domains")


def _spread(values: pd.Series) -> str:
    return f"{values.mean():.0f} / {values.quantile(0.95):.0f} / {values.max():.0f}"


def shown_traces(table: pd.DataFrame) -> Printed:
    """Show what 15 days do, by repair time and failure rate."""
    means = table.groupby(["rate_factor", "repair"], sort=False).mean(numeric_only=True)
    means = means.sort_index(level="rate_factor", sort_remaining=False, kind="stable").reset_index()
    columns: Columns = {
        "repair": "repair",
        "rate_factor": ("rate", "x{}"),
        "share_above": (">0.1%", "{:.0%}"),
        "peak_gpus": ("peak", "{:.0f}"),
        "least_availability_tp32": ("TP32", "{:.1%}"),
        "least_availability_tp64": ("TP64", "{:.1%}"),
        **{f"loss_{scheme}": (name, "{:.2%}") for scheme, name in SCHEMES.items()},
    }
    title = "15 days: time above 0.1 % failed, peak of GPUs, worst availability, mean loss"
    return columns_of(title, means, columns)


def shown_spares(table: pd.DataFrame, failing: pd.DataFrame) -> Printed:
    """Show how many spare domains keep the batch through a trace, if they fail and if not."""
    lines: list[tuple[str, ...]] = []
    for repair, mine in table[table.rate_factor == 1].groupby("repair", sort=False):
        for column, kind in (("spares", "domains"), ("replica_spares", "whole replicas")):
            spreads = (_spread(mine[f"{column}_{scheme}"]) for scheme in SCHEMES)
            lines.append((repair, kind, "never fail", *spreads))
        if repair == FAILING_REPAIR:
            spreads = (_spread(failing.spares[failing.scheme == scheme]) for scheme in SCHEMES)
            lines.append((repair, "whole replicas", "fail too", *spreads))
    known = map(str, PUBLISHED_SPARES.values())
    lines.append(("5 days", "published", "not said", *known))
    return Printed(
        "Spare domains for a fixed batch: mean / 95th percentile / worst of the traces",
        pd.DataFrame(lines, columns=["repair", "in", "spares", *SCHEMES.values()]),
        dict.fromkeys(SCHEMES.values(), "{}"),
    )


def placement_sentence(losses: pd.DataFrame, table: pd.DataFrame, failing: pd.DataFrame) -> str:
    """Say what throughput and spares the schemes come to."""
    packed = losses[losses.packed & (losses.failed_fraction == 0.004)]
    loss = packed.groupby("scheme").loss.mean()
    spares = table[(table.repair == "5 days") & (table.rate_factor == 1)]
    dropped = _spread(spares["replica_spares_dp-drop"])
    if_failing = _spread(failing.spares[failing.scheme == "dp-drop"])
    return (
        f"At 0.4 % failed GPUs DP-DROP loses {loss['dp-drop']:.1%} of the throughput, NTP "
        f"{loss['ntp']:.1%}, NTP-PW {loss['ntp-pw']:.1%}. The spare domains that keep DP-DROP's "
        f"batch through 15 days with repairs of 5 days, mean / 95th percentile / worst of the "
        f"traces: {dropped} if spares never fail, {if_failing} if they do (published: "
        f"{PUBLISHED_SPARES['dp-drop']})."
    )


def goodput_rows(table: pd.DataFrame) -> Iterator[Row]:
    """Yield goodput, time lost to smaller batches, and how far the placement study is from it."""
    means = table.groupby(["variant", "seed"], sort=False).mean(numeric_only=True).reset_index()
    beside = "degraded_over_placement_study"

    def setting(variant: str, **_: str) -> str:
        text = f"15 days in the training loop, repair {REPAIR}"
        how = variant.partition(", ")[2]
        return f"{text}, {how}" if how else text

    return rows_by(
        means.assign(**{beside: means.degraded / means.placed}),
        ["variant"],
        dict.fromkeys(("goodput", "degraded", "restarts", beside), "1"),
        setting,
        lambda variant, **_: variant.partition(", ")[0],
    )


def domain_rows(table: pd.DataFrame) -> Iterator[Row]:
    """Yield goodput and batches a day by the size of scale-up domains."""
    keys = ["domain_gpus", "stages", "strategy"]
    means = table.groupby([*keys, "seed"], sort=False).mean(numeric_only=True).reset_index()
    return rows_by(
        means,
        keys,
        {"goodput": "1", "degraded": "1", "batches_per_day": "1"},
        "15 days in the training loop, TP{domain_gpus} PP{stages}",
    )


_CAUSE_NAMES = {"repeated": "redone", "checkpoint": "saving"}


def shown_loop(table: pd.DataFrame) -> Printed:
    """Show where 15 days go under each scheme."""
    causes = ("degraded", "repeated", "checkpoint", "restart")
    shares = {_CAUSE_NAMES.get(one, one): table[f"{one}_s"] / table.time_s for one in causes}
    frame = pd.DataFrame({"scheme": table.variant.map(variant_name), "goodput": table.goodput})
    means = frame.assign(**shares).groupby("scheme", sort=False).mean().reset_index()
    title = f"15 days in the training loop, repair in {REPAIR}: share of the time"
    return Printed(title, means, dict.fromkeys(means.columns[1:], "{:.2%}"))


def shown_domains(table: pd.DataFrame) -> Iterator[Printed]:
    """Show what each scheme trains on domains of every size: of itself, and of 1,024 sequences."""
    keys = ["domain_gpus", "stages"]
    for column, what, form in (
        ("goodput", "goodput", "{:.1%}"),
        ("batches_per_day", "batches of 1,024 sequences a day", "{:,.0f}"),
    ):
        means = table.pivot_table(index=keys, columns="strategy", values=column, sort=False)
        schemes = means.rename(columns=lambda scheme: variant_name(str(scheme)))
        domains = [f"TP{size} PP{stages}" for size, stages in means.index]
        frame = pd.DataFrame({"domain": domains, **schemes.to_dict("list")})
        title = f"15 days in the training loop by domain size: {what}"
        yield Printed(title, frame, dict.fromkeys(schemes.columns, form) | {"domain": "{}"})


def loop_sentence(table: pd.DataFrame) -> str:
    """Say what the schemes come to in the training loop."""
    goodput = table.groupby("variant").goodput.mean()
    return (
        f"Through 15 days with restarts of ten minutes, DP-DROP trains {goodput['dp-drop']:.1%} of "
        f"what a job without failures would, NTP {goodput['ntp']:.1%}, NTP-PW "
        f"{goodput['ntp-pw']:.1%}; new hardware at once for all that breaks would make it "
        f"{goodput['checkpoint']:.1%}."
    )
