"""Recoveries that were measured, end to end, beside what the phases of ``[recovery]`` come to.

Prices rest on some of these numbers (role "fitted"); the others are predicted from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import pandas as pd
from faultline.experiments.analysis.printing import Printed
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.durations import recovery_prices
from faultline.experiments.job.recoveries import ExplainedRecovery, explained_recoveries
from faultline.experiments.studies.base import Draw, Results, Row, Study, row_of
from faultline.experiments.studies.recovery import figures
from faultline.experiments.studies.recovery.published import (
    MEASURED,
    OOBLECK_GAINS_S,
    OOBLECK_LOSES_S,
    Measured,
)
from faultline.experiments.studies.stage import Stage
from faultline.strategies.recovery import RESTART

_DETECTED_S = 5.6
"""Until a lost node is noticed (Unicron, arXiv 2401.00134)."""


class RecoveryStudy(Study):
    """Recoveries that operators have measured, from the phases of one model."""

    default_seeds = 1

    def play(self, stage: Stage) -> Results:
        """Add up the phases of every measured recovery."""
        rows = [_as_row(one, _modelled_s(one)) for one in MEASURED]
        rows += _oobleck()
        return {"recoveries": pd.DataFrame(rows)}

    def rows(self, results: Results) -> Iterator[Row]:
        """Return each recovery's seconds; a published band has no single value."""
        for one in results["recoveries"].itertuples():
            low, high = one.published_low_s, one.published_high_s
            known = low if low == high else None
            setting = f"{one.system} {one.event} {one.gpus}"
            yield row_of("recovery", one.system, setting, known, [one.modelled_s], "s")

    def figures(self, results: Results) -> Mapping[str, Draw]:
        """Return modelled against published times."""
        return {"recoveries.png": partial(figures.draw_agreement, results["recoveries"])}

    def shown(self, results: Results, rows: Sequence[Row]) -> Iterable[Printed]:
        """Show every recovery."""
        table = results["recoveries"]
        published = [
            f"{low:,.4g}" if low == high else f"{low:,.4g} to {high:,.4g}"
            for low, high in zip(table.published_low_s, table.published_high_s, strict=True)
        ]
        shown = table.assign(published=published)[
            ["system", "event", "gpus", "published", "modelled_s", "off", "role"]
        ]
        yield Printed(
            "Recoveries, s",
            shown,
            {"gpus": "{:,}", "modelled_s": "{:,.1f}", "off": "{:+.0%}"},
            {"gpus": "GPUs", "modelled_s": "modelled"},
            "fitted: a price was derived from it; off: beyond the published value or band",
        )

    def headline(self, results: Results, rows: Sequence[Row]) -> Sequence[str]:
        """Say how many predictions are within 15 %, and which are not."""
        table = results["recoveries"]
        predicted = table[table.role == "predicted"]
        off = predicted[predicted.off.abs() > 0.15]
        missed = "; ".join(
            f"{one.system}, {one.event} on {one.gpus:,} GPUs by {one.off:+.0%}"
            for one in off.itertuples()
        )
        within = len(predicted) - len(off)
        return [f"{within} of {len(predicted)} predictions are within 15 %. Off are: {missed}."]


def _modelled_s(measured: Measured) -> float:
    prices = {"preset": "stock", **measured.prices}
    changes: dict[str, object] = {f"recovery.{key}": value for key, value in prices.items()}
    scenario = load_scenario("head-to-head", {"job.gpus": measured.gpus, **changes})
    known = recovery_prices(scenario)
    if measured.recovery == "communicators":
        return known.communicator(measured.gpus)
    return known.duration_s(RESTART, scenario.job.groups)


def _oobleck() -> Iterator[dict[str, object]]:
    """Yield what Oobleck needs to lose a machine, and to gain one, of 6.7B on 32 GPUs."""
    scenario = load_scenario("mecefo-7b", {"recovery.detect_s": _DETECTED_S})
    found = list(explained_recoveries(scenario, ["oobleck"]))
    times_s = {one.event: one.duration_s for one in found if isinstance(one, ExplainedRecovery)}
    for event, happened, band in (
        ("loses a machine", "a GPU fails", OOBLECK_LOSES_S),
        ("gains a machine", "it is repaired", (OOBLECK_GAINS_S, float("inf"))),
    ):
        yield _as_row(Measured("Oobleck 6.7B", event, 32, band), times_s[happened])


def _as_row(measured: Measured, modelled_s: float) -> dict[str, object]:
    low, high = measured.band_s
    nearest = min(max(modelled_s, low), high)
    return {
        "system": measured.system,
        "event": measured.event,
        "gpus": measured.gpus,
        "published_low_s": low,
        "published_high_s": high,
        "modelled_s": modelled_s,
        "off": modelled_s / nearest - 1.0 if nearest else 0.0,
        "role": measured.role,
    }
