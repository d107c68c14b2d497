"""What the schemes come to in the training loop, for the screen."""

from __future__ import annotations

import pandas as pd
from rich.table import Table

from experiments.ntp_study.loop_study import REPAIR
from experiments.ntp_study.tables import new_table

NAMES = {
    "checkpoint": "all replaced",
    "dp-drop": "DP-DROP",
    "ntp": "NTP",
    "ntp-pw": "NTP-PW",
    "spare": "SPARe",
    "replication": "replication",
}


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
    for (scheme, redundancy, hit_groups), mine in table.groupby(keys, sort=False):
        means = mine.groupby("stall_s").time_to_train_ratio.mean()
        ratios = (f"{means[s]:.2f}" + (f" ({s:g} s)" if s else "") for s in means.index)
        shown.add_row(
            NAMES[str(scheme).removesuffix("-ntp")],
            str(redundancy),
            str(hit_groups).replace("-", " "),
            ", ".join(ratios),
            f"{mine.restarts.mean():.0f}",
        )
    return shown


def closing_sentences(loop: pd.DataFrame, within: pd.DataFrame) -> str:
    """Say what the schemes come to in the loop, and inside others."""
    goodput = loop.groupby("variant").goodput.mean()
    ratio = within.groupby(["scheme", "redundancy", "hit_groups", "stall_s"])
    ratios = ratio.time_to_train_ratio.mean()
    plain = ratios["spare", 8, "die", 0.0]
    short, long = (ratios["spare-ntp", 8, "slow", stall_s] for stall_s in (10.0, 60.0))
    return (
        f"Through 15 days with restarts of ten minutes, DP-DROP trains {goodput['dp-drop']:.1%} of "
        f"what a job without failures would, NTP {goodput['ntp']:.1%}, NTP-PW "
        f"{goodput['ntp-pw']:.1%}; new hardware at once for all that breaks would make it "
        f"{goodput['checkpoint']:.1%}. Where single GPUs of 600,000 fail, SPARe whose hit groups "
        f"work on at lower tensor parallelism takes {short:.2f} times the ideal time if they "
        f"change over in 10 s, {long:.2f} times in 60 s, and {plain:.2f} times if they die."
    )
