"""What is told of the schemes in the training loop, and inside SPARe and replication."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from faultline.experiments.analysis.printing import Printed
from faultline.experiments.figures.palette import title_of
from faultline.experiments.studies.base import Row, rows_by
from faultline.experiments.studies.ntp import loop
from faultline.experiments.studies.ntp.within import CONTROL_REDUNDANCY

WITHOUT_A_RESTART = "NTP without a restart"
"""What a combination is that masks nothing: each of its runs is that with r = 1."""


def goodput_rows(table: pd.DataFrame) -> Iterator[Row]:
    """Yield goodput, time lost to smaller batches, and how far the placement study is from it."""
    means = table.groupby(["variant", "seed"], sort=False).mean(numeric_only=True).reset_index()
    beside = "degraded_over_placement_study"

    def setting(variant: str, **_: str) -> str:
        text = f"15 days in the training loop, repair {loop.REPAIR}"
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


def within_rows(table: pd.DataFrame) -> Iterator[Row]:
    """Yield what the job takes with and without hit groups that work on."""
    keys = ["scheme", "redundancy", "hit_groups", "stall_s"]
    alone = table.groupby(keys, sort=False).without_a_restart.transform("all")

    def setting(redundancy: int, hit_groups: str, stall_s: float, alone: bool, **_: str) -> str:
        dies = hit_groups == "die"
        what = "hit groups die" if dies else f"{hit_groups}, stalls of {stall_s:g} s"
        text = f"600,000 GPUs, single GPUs fail, r = {redundancy}, {what}"
        control = " (control)" if redundancy == CONTROL_REDUNDANCY else ""
        return f"{text}, {WITHOUT_A_RESTART}{control}" if alone else text

    measured = dict.fromkeys(("time_to_train_ratio", "restarts"), "1")
    return rows_by(table.assign(alone=alone), [*keys, "alone"], measured, setting, "{scheme}")


def shown_loop(table: pd.DataFrame) -> Printed:
    """Show where 15 days go under each scheme."""
    causes = {
        "degraded": "degraded",
        "repeated": "redone",
        "checkpoint": "saving",
        "restart": "restart",
    }
    shares = {name: table[f"{cause}_s"] / table.time_s for cause, name in causes.items()}
    frame = pd.DataFrame({"scheme": table.variant.map(loop.variant_name), "goodput": table.goodput})
    means = frame.assign(**shares).groupby("scheme", sort=False).mean().reset_index()
    title = f"15 days in the training loop, repair in {loop.REPAIR}: share of the time"
    return Printed(title, means, dict.fromkeys(means.columns[1:], "{:.2%}"))


def shown_domains(table: pd.DataFrame) -> Iterator[Printed]:
    """Show what each scheme trains on domains of every size: of itself, and of 1,024 sequences."""
    keys = ["domain_gpus", "stages"]
    for column, what, form in (
        ("goodput", "goodput", "{:.1%}"),
        ("batches_per_day", "batches of 1,024 sequences a day", "{:,.0f}"),
    ):
        means = table.pivot_table(index=keys, columns="strategy", values=column, sort=False)
        schemes = means.rename(columns=lambda scheme: loop.variant_name(str(scheme)))
        domains = [f"TP{size} PP{stages}" for size, stages in means.index]
        frame = pd.DataFrame({"domain": domains, **schemes.to_dict("list")})
        title = f"15 days in the training loop by domain size: {what}"
        yield Printed(title, frame, dict.fromkeys(schemes.columns, form) | {"domain": "{}"})


def combination_name(runs: pd.DataFrame) -> str:
    """Return what the runs of one combination are: its scheme, or no more than NTP."""
    scheme = title_of(str(runs.scheme.iloc[0]).removesuffix("-ntp"))
    if not runs.without_a_restart.all():
        return scheme
    control = (runs.redundancy == CONTROL_REDUNDANCY).all()
    return WITHOUT_A_RESTART if control else f"{scheme} = {WITHOUT_A_RESTART}"


def shown_within(table: pd.DataFrame) -> Printed:
    """Show what it brings that hit groups work on inside SPARe and replication."""
    lines = []
    keys = ["scheme", "redundancy", "hit_groups"]
    for (_, redundancy, hit_groups), mine in table.groupby(keys, sort=False):
        means = mine.groupby("stall_s").time_to_train_ratio.mean()
        ratios = (f"{ratio:.2f}" + (f" ({s:g} s)" if s else "") for s, ratio in means.items())
        cells = redundancy, hit_groups.replace("-", " "), ", ".join(ratios), mine.restarts.mean()
        lines.append((combination_name(mine), *cells))
    return Printed(
        "Hit groups work on, 600,000 GPUs: time to train over ideal (stall)",
        pd.DataFrame(lines, columns=["scheme", "r", "hit groups", "ratio", "restarts"]),
        {"ratio": "{}", "restarts": "{:.0f}"},
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


def within_sentence(within: pd.DataFrame) -> str:
    """Say what NTP brings without a restart, and how much of it the schemes around it add."""
    ratio = within.groupby(["scheme", "redundancy", "hit_groups", "stall_s"])
    ratios = ratio.time_to_train_ratio.mean()
    plain = ratios["spare", 8, "die", 0.0]
    short, long = (ratios["spare-ntp", 1, "slow", stall_s] for stall_s in (10.0, 60.0))
    masking = within.redundancy > CONTROL_REDUNDANCY
    combined = within[(within.scheme == "spare-ntp") & masking]
    same = int(combined.without_a_restart.sum())
    return (
        f"Where single GPUs of 600,000 fail, NTP without a restart takes {short:.2f} times the "
        f"ideal time if groups change their degree in 10 s, {long:.2f} times in 60 s; SPARe, whose "
        f"hit groups die, {plain:.2f} times. SPARe around NTP masks nothing more: {same} of "
        f"{len(combined)} of its runs are those with r = 1, digit by digit."
    )
