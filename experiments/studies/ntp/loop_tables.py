"""What the schemes come to in the training loop, for the screen."""

from __future__ import annotations

import pandas as pd
from faultline.experiments.studies.ntp.loop_study import REPAIR
from faultline.experiments.studies.ntp.tables import new_table
from faultline.experiments.studies.ntp.within_study import CONTROL_REDUNDANCY
from rich.table import Table

NAMES = {
    "checkpoint": "all replaced",
    "dp-drop": "DP-DROP",
    "ntp": "NTP",
    "ntp-pw": "NTP-PW",
    "spare": "SPARe",
    "replication": "replication",
}


WITHOUT_A_RESTART = "NTP without a restart"
"""What a combination is that masks nothing: each of its runs is that with r = 1."""


def combination_name(runs: pd.DataFrame) -> str:
    """Return what the runs of one combination are: its scheme, or no more than NTP."""
    scheme = str(runs.scheme.iloc[0]).removesuffix("-ntp")
    if not runs.without_a_restart.all():
        return NAMES[scheme]
    if (runs.redundancy == CONTROL_REDUNDANCY).all():
        return WITHOUT_A_RESTART
    return f"{NAMES[scheme]} = {WITHOUT_A_RESTART}"


def variant_name(variant: str) -> str:
    """Return a variant of the loop's study in words: "NTP, resharding hidden"."""
    scheme, comma, how = variant.partition(", ")
    return NAMES[scheme] + comma + how


def loop_table(table: pd.DataFrame) -> Table:
    """Show where 15 days go under each scheme."""
    shown = new_table(f"15 days in the training loop, repair in {REPAIR}: share of the time")
    shown.add_column("scheme", no_wrap=True)
    for name in ("goodput", "degraded", "redone", "saving", "restart"):
        shown.add_column(name, justify="right", no_wrap=True)
    for variant, mine in table.groupby("variant", sort=False):
        shares = [
            (mine[f"{cause}_s"] / mine.time_s).mean()
            for cause in ("degraded", "repeated", "checkpoint", "restart")
        ]
        shown.add_row(
            variant_name(str(variant)),
            f"{mine.goodput.mean():.2%}",
            *(f"{share:.2%}" for share in shares),
        )
    return shown


def within_table(table: pd.DataFrame) -> Table:
    """Show what it brings that hit groups work on inside SPARe and replication."""
    shown = new_table("Hit groups work on, 600,000 GPUs: time to train over ideal (stall)")
    shown.add_column("scheme", no_wrap=True)
    shown.add_column("r", justify="right")
    shown.add_column("hit groups", no_wrap=True)
    shown.add_column("ratio", justify="right", no_wrap=True)
    shown.add_column("restarts", justify="right", no_wrap=True)
    keys = ["scheme", "redundancy", "hit_groups"]
    for (_, redundancy, hit_groups), mine in table.groupby(keys, sort=False):
        means = mine.groupby("stall_s").time_to_train_ratio.mean()
        ratios = (f"{means[s]:.2f}" + (f" ({s:g} s)" if s else "") for s in means.index)
        shown.add_row(
            combination_name(mine),
            str(redundancy),
            str(hit_groups).replace("-", " "),
            ", ".join(ratios),
            f"{mine.restarts.mean():.0f}",
        )
    return shown


def closing_sentences(loop: pd.DataFrame, within: pd.DataFrame) -> str:
    """Say what the schemes come to in the loop, and inside others."""
    goodput = loop.groupby("variant").goodput.mean()
    return (
        f"Through 15 days with restarts of ten minutes, DP-DROP trains {goodput['dp-drop']:.1%} of "
        f"what a job without failures would, NTP {goodput['ntp']:.1%}, NTP-PW "
        f"{goodput['ntp-pw']:.1%}; new hardware at once for all that breaks would make it "
        f"{goodput['checkpoint']:.1%}. {closing_sentences_within(within)}"
    )


def closing_sentences_within(within: pd.DataFrame) -> str:
    """Say what NTP brings without a restart, and how much of it the schemes around it add."""
    ratio = within.groupby(["scheme", "redundancy", "hit_groups", "stall_s"])
    ratios = ratio.time_to_train_ratio.mean()
    plain = ratios["spare", 8, "die", 0.0]
    short, long = (ratios["spare-ntp", 1, "slow", stall_s] for stall_s in (10.0, 60.0))
    combined = within[(within.scheme == "spare-ntp") & (within.redundancy > CONTROL_REDUNDANCY)]
    same = int(combined.without_a_restart.sum())
    return (
        f"Where single GPUs of 600,000 fail, NTP without a restart takes {short:.2f} times the "
        f"ideal time if groups change their degree in 10 s, {long:.2f} times in 60 s; SPARe, whose "
        f"hit groups die, {plain:.2f} times. SPARe around NTP masks nothing more: {same} of "
        f"{len(combined)} of its runs are those with r = 1, digit by digit."
    )
