"""Plans of several scenarios side by side: what another cluster brings, in days and in money."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from faultline.experiments.analysis.quantities import MISSING
from faultline.experiments.config.model_numbers import tokens_of_step
from faultline.experiments.planner.answer import Answer
from faultline.experiments.planner.choice_texts import pair_name
from faultline.experiments.planner.situation import DAY_S
from faultline.experiments.report.tables import Mapped, TableColumn, on_screen, table_of, text
from rich.console import Console


@dataclass(frozen=True, slots=True)
class Summary:
    """The answer to one scenario; None if no scheme finishes."""

    scenario: str
    gpus: int  # Those that are paid for.
    tokens: float | None  # Of the whole training; None without a named model.
    scheme: str | None = None
    days: float | None = None  # Expected time to train.
    band_days: tuple[float, float] | None = None  # 80 % band of one run.
    gpu_hours: float | None = None
    cost: float | None = None  # None without a price.
    is_least: bool = False  # Days, hours and cost are lower bounds: runs count at the cap.


def summary_of(answer: Answer, price_per_gpu_hour: float | None) -> Summary:
    """Return the answer to one scenario as a row."""
    situation = answer.situation
    scenario = situation.scenario
    job, model = scenario.job, scenario.model
    tokens = None if model.name == "stated" else job.steps * tokens_of_step(job.groups, model)
    if not answer.finishes:
        return Summary(scenario.name, situation.gpus, tokens)
    first, price = answer.rows[0], price_per_gpu_hour
    bands = first.judgement.bands
    hours = situation.gpu_hours(bands.mean)
    return Summary(
        scenario.name,
        situation.gpus,
        tokens,
        pair_name(first.choice.scheme, first.choice.protection),
        bands.mean / DAY_S,
        (bands.low / DAY_S, bands.high / DAY_S),
        hours,
        None if price is None else hours * price,
        first.judgement.capped > 0.0,
    )


def print_comparison(console: Console, summaries: Sequence[Summary]) -> None:
    """Print a row per scenario, and which of them is the soonest and the cheapest."""
    rows = [asdict(one) for one in summaries]
    columns = [
        text("scenario", "scenario", "prose"),
        TableColumn("GPUs", lambda row: f"{row['gpus']:,}"),
        TableColumn("scheme", lambda row: row["scheme"] or "none finishes", "prose"),
        TableColumn("days", lambda row: _least(row, "days", 1.0, 1)),
        TableColumn("80 % band", _band),
        TableColumn("M GPU-hours", lambda row: _least(row, "gpu_hours", 1e-6, 3)),
    ]
    if any(one.cost is not None for one in summaries):
        columns.append(TableColumn("M cost", lambda row: _least(row, "cost", 1e-6, 3)))
    console.print(on_screen(table_of("comparison", "", columns, rows)))
    for sentence in comparison_texts(summaries):
        console.print(sentence, style="bold", soft_wrap=True)


def _least(row: Mapped, key: str, factor: float, decimals: int) -> str:
    """Return a number of a row, marked if it is a lower bound."""
    if row[key] is None:
        return MISSING
    return f"{'≥ ' if row['is_least'] else ''}{factor * row[key]:,.{decimals}f}"


def _band(row: Mapped) -> str:
    band = row["band_days"]
    return MISSING if band is None else "{:,.1f} to {:,.1f}".format(*band)


def comparison_texts(summaries: Sequence[Summary]) -> list[str]:
    """Return sentences: which scenario is the soonest, which the cheapest, and what differs."""
    finished = [(one.days, one) for one in summaries if one.days is not None]
    texts = []
    if len({one.tokens for one in summaries}) > 1:
        tokens = ", ".join(
            f"{one.scenario} {'unknown' if one.tokens is None else format(one.tokens, '.3g')}"
            for one in summaries
        )
        texts.append(
            f"The scenarios train on different numbers of tokens ({tokens}): their days do not "
            "compare. State job.tokens in each."
        )
    elif bounds := [one.scenario for one in summaries if one.is_least]:
        texts.append(
            f"Days of {', '.join(bounds)} are lower bounds, because runs did not end: which "
            "scenario is the soonest is open."
        )
    elif len(finished) > 1:
        (days, soonest), (later_days, later) = sorted(finished, key=lambda pair: pair[0])[:2]
        texts.append(
            f"Soonest: {soonest.scenario} in {days:,.1f} days, {later_days - days:,.1f} days "
            f"before {later.scenario}{_bands_meet(soonest, later)}."
        )
        costs = [(one.cost, one) for one in summaries if one.cost is not None]
        if len(costs) > 1:
            (cost, cheapest), (more, dearer) = sorted(costs, key=lambda pair: pair[0])[:2]
            texts.append(
                f"Cheapest: {cheapest.scenario} for {cost:,.0f}, {more - cost:,.0f} less than "
                f"{dearer.scenario}."
            )
    return texts


def _bands_meet(soonest: Summary, later: Summary) -> str:
    if soonest.band_days is None or later.band_days is None:
        return ""
    return "; their bands overlap" if soonest.band_days[1] >= later.band_days[0] else ""
