"""Numbers of the pages that come from the rows of studies: take-overs, NTP, operators, NCCL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from faultline.experiments.figures.palette import title_of

PUBLISHED = Path(__file__).resolve().parents[1] / "results" / "published"


def read(name: str) -> pd.DataFrame:
    """Return a table of ``results/published``."""
    return pd.read_csv(PUBLISHED / f"{name}.csv")


def percent(low: float, high: float) -> str:
    """Return two shares in percent, as ``26 to 38``."""
    return f"{100 * low:.0f} to {100 * high:.0f}"


def mecefo() -> Iterator[tuple[str, str]]:
    """Yield published and simulated drops of three systems."""
    rows = read("mecefo-rows").set_index(["quantity", "scheme", "setting"])
    lines = [
        "| throughput lost, %, with a failure every 2 / 1 / 0.5 h "
        "| 7B published | 7B simulated | 350M published | 350M simulated |",
        "| --- | --- | --- | --- | --- |",
    ]
    for scheme in ("mecefo", "bamboo", "oobleck"):
        cells = [
            ", ".join(
                f"{rows.loc[('drop', scheme, f'{model} {rate}'), column]:.1f}" for rate in rates
            )
            for model in ("7B", "350M")
            for column in ("published", "simulated")
            for rates in (("low", "mid", "high"),)
        ]
        lines.append(f"| {title_of(scheme)} | {' | '.join(cells)} |")
    yield "drops", "\n".join(lines)
    over = rows.loc["drop over MeCeFO's"].droplevel("setting").loc[["bamboo", "oobleck"]]
    yield (
        "headline",
        "{:.1f} and {:.1f}, simulated {:.1f} and {:.1f}".format(*over.published, *over.simulated),
    )


def ntp() -> Iterator[tuple[str, str]]:
    """Yield goodput through 15 days of failures, and the spares that these need."""
    rows = read("ntp-rows").set_index(["quantity", "scheme", "setting"]).simulated.sort_index()
    through = "15 days in the training loop, repair 3 or 5 days"
    shares = (100 * rows["goodput", scheme, through] for scheme in ("dp-drop", "ntp", "ntp-pw"))
    yield "goodput", "{:.1f}, {:.1f} and {:.1f} %".format(*shares)
    replaced = 100 * rows["goodput", "checkpoint", through]
    yield "replaced", f"{replaced:.1f} %"
    loose = 100 * rows["goodput", "dp-drop", f"{through}, not packed"]
    yield "not-packed", f"{loose:.1f} %"
    batches = rows["batches_per_day", "ntp"]
    a_day = {
        gpus: batches[f"15 days in the training loop, TP{gpus} PP{stages}"]
        for gpus, stages in ((32, 8), (8, 16))
    }
    yield "domains", f"{a_day[32]:,.0f}, and {a_day[8]:,.0f} in domains of 8"
    lost = rows["lost_throughput", "dp-drop", "0.400% failed, packed, published: at most"]
    yield "dp-drop", f"{100 * lost:.1f} % lost; published: at most 12"
    fail_too = "15 days, repair 5 days, whole replicas, spares fail too, mean of traces"
    needed = (rows["spare_domains", scheme, fail_too] for scheme in ("dp-drop", "ntp", "ntp-pw"))
    yield "spares", "{:.0f}, {:.0f} and {:.0f}".format(*needed)


def operators() -> Iterator[tuple[str, str]]:
    """Yield verdicts on runs of operators, and goodput at scale."""
    rows = read("operators-rows")
    judged = rows[rows.published.notna() & (rows.verdict != "unknown")]
    of_kind = judged.groupby("kind").verdict.value_counts()
    predicted = of_kind["prediction"]
    yield "judged", f"{predicted.sum()}"
    yield "met", f"{predicted['inside']} of {predicted.sum()}"
    first, *others = (f"{count} {verdict}" for verdict, count in predicted.items())
    yield "verdicts", ", ".join([first.replace(" ", " are ", 1), *others])
    others = of_kind["other simulator"]
    yield "simulators", f"{others['inside']} of {others.sum()}"
    values = rows.set_index(["setting", "scheme"]).sort_index()
    yield "rsc", f"{values.loc[('A6 1,024 GPUs', 'checkpoint'), 'simulated']:.0f} h"
    yield "byterobust", f"{100 * values.loc[('D2', 'checkpoint'), 'low']:.0f} %"
    goodput = values[["simulated", "low", "high"]]
    yield "scale", _scale_table(goodput)
    yield "constants", _constants_table(goodput)


def _scale_table(goodput: pd.DataFrame) -> str:
    """Return goodput by size and scheme, in brackets with bursts."""
    schemes = (
        "warm-standby", "replica-drop", "recycle", "mecefo", "spare", "checkpoint", "oobleck",
        "bamboo",
    )  # fmt: skip
    lines = [
        f"| GPUs | {' | '.join(f'`{name}`' for name in schemes)} |",
        f"| --- |{' ---: |' * len(schemes)}",
    ]
    for gpus in ("16,384", "98,304", "600,064"):
        settings = [f"scale {gpus} GPUs Llama 3{more}" for more in ("", " correlated excess")]
        cells = []
        for scheme in schemes:
            known = (settings[0], scheme) in goodput.index
            both = [100 * goodput.simulated[one, scheme] for one in settings if known]
            cells.append("{:.0f} % ({:.0f})".format(*both) if known else "")
        lines.append(f"| {gpus} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _constants_table(goodput: pd.DataFrame) -> str:
    """Return goodput with another value of one constant of the kinds."""
    constants = {
        "": "as shipped",
        ", retry 0.5 s": "links give up after 0.5 s (30)",
        ", recurrence 0.7": "repairs miss the cause with probability 0.7 (0)",
        ", recurrence 0.2": "the same with probability 0.2",
        ", slow GPUs 91": "91 slow GPUs per 1,000 node-days (0.9)",
        ", corruption found in 10 min": "corruption found in 10 min (2 h, median)",
        ", excess within 60 s": "bursts within 60 s (600)",
    }
    schemes = "warm-standby", "replica-drop", "spare", "checkpoint"
    lines = [
        f"| constant (shipped) | {' | '.join(f'`{name}`' for name in schemes)} |",
        f"| --- |{' ---: |' * len(schemes)}",
    ]
    for variant, title in constants.items():
        setting = f"scale 98,304 GPUs Llama 3 correlated excess{variant}"
        mine = [goodput.loc[(setting, scheme)] for scheme in schemes]
        cells = [f"{100 * one.simulated:.0f} %" for one in mine]
        if variant:  # The ends of the shipped ones are those of all recoveries.
            cells = [
                f"{cell} ({percent(one.low, one.high)})"
                for cell, one in zip(cells, mine, strict=True)
            ]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def collectives() -> Iterator[tuple[str, str]]:
    """Yield how well published bus bandwidths are predicted."""
    table = read("collectives")
    predicted = table[table.kind == "prediction"]
    off = predicted.error.abs()
    yield "count", f"{len(predicted)}"
    yield "median", f"{100 * off.median():.1f} %"
    yield "met", f"{(off <= 0.2).sum()}"
    misses = predicted[off > 0.2].itertuples()
    yield (
        "misses",
        " and ".join(f"{one.setting} with {one.size} ({100 * one.error:+.0f} %)" for one in misses),
    )
