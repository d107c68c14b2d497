"""What is told of failed GPUs at one moment: rows, tables and a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pandas as pd
from faultline.experiments.analysis.printing import Printed
from faultline.experiments.figures.palette import title_of
from faultline.experiments.studies.base import Row, row_of, rows_by
from faultline.experiments.studies.ntp import published
from faultline.experiments.studies.ntp.setting import PACES, study_job
from faultline.strategies.nonuniform.power import PowerCurve
from faultline.strategies.nonuniform.replica_plan import Scheme

SCHEMES = {scheme.value: title_of(scheme.value) for scheme in Scheme}

_SHOWN_FRACTIONS = (0.0005, 0.001, 0.002, 0.003, 0.004)
_MOST_FAILED = 8


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
        known = published.AVAILABILITY_TP64 if size == 64 else None
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
        lambda _, degree: published.HIGH_TP_LOSS if degree >= 64 else None,
        dict.fromkeys(means, "lost_throughput"),
    )

    def bound(_: str, failed_fraction: float, packed: bool, scheme: str) -> float | None:
        return published.MOST_LOSS[scheme] if packed and failed_fraction == 0.004 else None

    def setting(failed_fraction: float, packed: bool, **_: str) -> str:
        text = f"{failed_fraction:.3%} failed, {'packed' if packed else 'not packed'}"
        return f"{text}, published: at most" if packed and failed_fraction == 0.004 else text

    keys = ["failed_fraction", "packed", "scheme"]
    yield from lost_rows(losses, keys, setting=setting, published=bound)
    reduced = paces[paces.scheme != Scheme.DP_DROP.value]
    text = "{failed_fraction:.3%} failed, packed, pace {pace}"
    yield from lost_rows(reduced, ["pace", "scheme", "failed_fraction"], setting=text)


def power_rows() -> Iterator[Row]:
    """Yield what more power costs, and what NTP-PW draws."""
    curve, boosted = PowerCurve(), Scheme.NTP_PW.value
    for power, known in published.PERFORMANCE_PER_WATT_LOSS.items():
        setting = f"{power} times TDP (the curve is a fit through this)"
        lost = [1.0 - curve.performance(power) / power]
        yield row_of("performance_per_watt_lost", boosted, setting, known, lost, "1")
    plans = study_job().plans(Scheme.NTP_PW)
    for plan in (plans[1], plans[3]):
        setting = f"TP{plan.degree}, {plan.sequences} sequences"
        yield row_of("power_over_tdp", boosted, setting, None, [plan.power], "1")
        # What failed GPUs leave unused is all that a rack can add, fed for 32.
        watts = plan.degree * plan.power * published.TDP_W
        over = f"TP{plan.degree}, fed for {32 * published.TDP_W / 1000:g} kW"
        yield row_of("power of a domain", boosted, over, None, [watts / 1000], "kW")
        kept = curve.within_budget(plan.degree, 32) * plan.degree / 32
        yield row_of("pace within the rack's power", boosted, over, None, [kept], "1")


def utilisation_rows(table: pd.DataFrame) -> Iterator[Row]:
    """Yield the share of compute in a step by domain size; published of 32K GPUs."""
    for one in table.itertuples():
        known = published.UTILISATION.get(one.domain) if one.gpus == 32_768 else None
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
            published.MOST_LOSS[scheme] if failed_fraction == 0.004 else None
        ),
        {"resharded": "lost_throughput"},
    )


def pod_rows(pods: pd.DataFrame) -> Iterator[Row]:
    """Yield what is lost if hit domains are packed within pods."""
    setting = "{failed_fraction:.3%} failed, packed within pods of {pod_replicas} replicas"
    return lost_rows(pods, ["failed_fraction", "pod_replicas", "scheme"], setting=setting)


def sync_rows(resharding: pd.DataFrame, checks: pd.DataFrame) -> Iterator[Row]:
    """Yield what resharding costs, and the sums and times of the simulated gradient syncs."""
    ntp, setting = Scheme.NTP.value, "TP32 to TP{degree}, nothing hidden"
    yield from rows_by(
        resharding,
        ["degree"],
        {"backward_slowdown": "1"},
        f"{setting}, published: at most",
        ntp,
        lambda *_, **__: published.BACKWARD_SLOWDOWN,
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
