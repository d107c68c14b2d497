"""Recoveries measured end to end, compared with the sum of the phases of ``[recovery]``.

Some of these numbers determine prices (role "fitted"); the others are predicted from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.figures.palette import OKABE_ITO
from faultline.experiments.figures.style import legend_below, write_notes, write_title
from faultline.experiments.job.durations import recovery_prices
from faultline.experiments.job.recoveries import ExplainedRecovery, explained_recoveries
from faultline.experiments.studies.base import Headline, Kind, Results, Row, Study, errors_table
from faultline.experiments.studies.data import published_value, read_rows
from faultline.experiments.studies.recovery.standbys import excess_of_few, standbys_for
from faultline.experiments.studies.stage import Stage
from faultline.strategies.interface.recovery import RESTART, SHRINK, rejoining
from faultline.strategies.schemes.warm_standby import TAKEN_ROLE
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

_NEEDED = {
    "restart": RESTART,
    "role": TAKEN_ROLE,
    "planned role": replace(TAKEN_ROLE, is_expected=True),
    "shrink": SHRINK,
    "rejoin": rejoining(()),
}
"""Phases of the table's recoveries; the others are communicators alone, or Oobleck's."""

_DETECTED_S = 5.6
"""Time to detect a lost node (Unicron, arXiv 2401.00134)."""


_TICKS = {"5 s": 5, "15 s": 15, "1 min": 60, "5 min": 300, "15 min": 900, "1 h": 3600}
_MET_WITHIN = 0.15
_SAME_WITHIN = 0.05
"""Modelled times of one event within this relative difference count as one constant, one hit."""
_KINDS: Mapping[str, Kind] = {
    "fitted": "calibrated",
    "repeated": "same constant",
    "predicted": "prediction",
}


def _verdict(off: float) -> str:
    return "inside" if abs(off) <= _MET_WITHIN else "outside"


def with_repeated(table: pd.DataFrame) -> pd.DataFrame:
    """Return recoveries, with the role "repeated" for each hit by a constant that has already hit.

    A hit is a prediction within 15 %. It is repeated if its modelled time is within 5 % of an
    earlier hit, or of a row used to fit a price, for the same event of the same system.
    """
    roles = list(table.role)
    for _, recoveries in table.groupby(["system", "event"], sort=False):
        hits_s: list[float] = []
        for place, row in recoveries.iterrows():
            if row.role != "fitted" and _verdict(row.off) == "outside":
                continue
            repeats = any(abs(row.modelled_s / hit_s - 1.0) < _SAME_WITHIN for hit_s in hits_s)
            if row.role != "fitted" and repeats:
                roles[table.index.get_loc(place)] = "repeated"
            hits_s.append(row.modelled_s)
    return table.assign(role=roles)


def _compared(
    oobleck_s: Mapping[str, float],
    *,
    system: str,
    event: str,
    gpus: int,
    low_s: float,
    high_s: float | None = None,
    recovery: str = "restart",
    role: str = "predicted",
    copy_s: float = 0.0,
    **prices: Any,
) -> dict[str, object]:
    """Return a row of the table: a measured recovery and its modelled time."""
    modelled_s = oobleck_s.get(recovery)
    if modelled_s is None:
        keys = {f"recovery.{key}": value for key, value in {"preset": "stock", **prices}.items()}
        job = {"model.name": "stated", "job.gpus": gpus, "job.groups": min(64, gpus)}
        scenario = load_scenario("head-to-head", {**job, **keys})
        known, needed = recovery_prices(scenario), _NEEDED.get(recovery)
        modelled_s = known.duration_s(needed) + copy_s if needed else known.communicator(gpus)
    high_s = low_s if high_s is None else high_s
    nearest = min(max(modelled_s, low_s), high_s)
    return {
        "system": system,
        "event": event,
        "gpus": gpus,
        "setting": f"{system} {event} {gpus}",
        "published_s": low_s if low_s == high_s else None,
        "published_low_s": low_s,
        "published_high_s": high_s,
        "modelled_s": modelled_s,
        "off": modelled_s / nearest - 1.0 if nearest else 0.0,
        "role": role,
    }


_MACHINES = (128, 256, 512, 1024)
"""Machines of ByteRobust's jobs."""
_STANDBY_S, _RESCHEDULE_S = 768.0 / 10.87, 768.0 / 10.87 * 5.36
_QUANTILE, _PER_MACHINE = 0.99, 1e-6


def _standby_table() -> pd.DataFrame:
    """Return standbys by machines, and the relative excess of recovery times with these standbys.

    The reference is an unlimited number of standbys. The daily failure rate of a machine is
    unpublished: it is the middle of the rates that give all four numbers of standbys. Recovery
    times are ByteRobust's on 1,024 machines ("measured"), and those of the model ("modelled").
    """

    def counts(rate: float) -> list[int]:
        return [standbys_for(n, rate * n, _QUANTILE) for n in _MACHINES]

    known = [
        published_value("recovery", "standbys", "warm-standby", f"ByteRobust {n} machines")
        for n in _MACHINES
    ]
    rates = [number * _PER_MACHINE for number in range(1000, 1500)]
    fitting = [rate for rate in rates if counts(rate) == known]
    rate = (fitting[0] + fitting[-1]) / 2
    job = {"model.name": "stated", "job.gpus": 16_384, "recovery.preset": "standby"}
    prices = recovery_prices(load_scenario("head-to-head", job))
    modelled_s = prices.duration_s(RESTART) - prices.detect_s
    times_s = {
        "measured": (_STANDBY_S, _RESCHEDULE_S),
        "modelled": (modelled_s, modelled_s + prices.without_standby_s),
    }
    rows: list[tuple[str, str, float]] = []
    for n, found in zip(_MACHINES, counts(rate), strict=True):
        setting = f"ByteRobust {n} machines"
        rows.append(("standbys", setting, found))
        for times, seconds in times_s.items():
            excess = excess_of_few(n, rate * n, found, *seconds)
            rows.append(("over unlimited standbys", f"{setting}, {times} times", excess))
    return pd.DataFrame(rows, columns=["quantity", "setting", "value"])


def draw_agreement(table: pd.DataFrame) -> Figure:
    """Draw every recovery's modelled time over its published one; bands as lines."""
    figure, axis = plt.subplots(figsize=(7.2, 5.2))
    highest = table.published_high_s.replace(float("inf"), 0).max()
    ends = (0.8 * table.modelled_s.min(), 1.3 * highest)
    low, high = ([by * end for end in ends] for by in (0.85, 1.15))
    axis.fill_between(ends, low, high, color="#EFEFEF")
    axis.plot(ends, ends, color="#999999", linewidth=1.0)
    for colour, (system, rows) in zip(OKABE_ITO, table.groupby("system", sort=False), strict=False):
        for row in rows.itertuples():
            least, most = max(row.published_low_s, ends[0]), min(row.published_high_s, ends[1])
            axis.plot([least, most], [row.modelled_s] * 2, color=colour, linewidth=1.5)
            fill = "white" if row.role == "fitted" else colour
            axis.plot((least * most) ** 0.5, row.modelled_s, "o", color=colour, mfc=fill, ms=6)
        axis.plot([], [], "o", color=colour, label=system)
    axis.plot([], [], "o", color="#555555", markerfacecolor="white", label="fitted on")
    axis.set(xscale="log", yscale="log", xlim=ends, xlabel="published recovery", ylabel="modelled")
    for one in (axis.xaxis, axis.yaxis):
        one.set_ticks(list(_TICKS.values()), list(_TICKS))
        one.set_ticks([], minor=True)
    legend_below(figure, axis)
    predicted = table[table.role == "predicted"]
    met = int((predicted.off.abs() <= _MET_WITHIN).sum())
    share = f"{met} of {len(predicted)} predicted recoveries"
    write_title(figure, f"{share} are within 15 % of the published ones")
    write_notes(figure, ["Grey: within 15 %. Lines: published as a range."])
    return figure


class RecoveryStudy(Study):
    """Recoveries measured by operators, from the phases of one model."""

    default_seeds = 1
    scaled_by: ClassVar = frozenset()
    within = _MET_WITHIN
    charts: ClassVar = {"recoveries.png": (draw_agreement, "recoveries")}

    def simulate(self, stage: Stage) -> Results:
        """Add up the phases of every measured recovery."""
        # Oobleck's cost of losing and of gaining a machine, for 6.7B on 32 GPUs.
        scenario = load_scenario("mecefo-7b", {"recovery.detect_s": _DETECTED_S})
        oobleck_s = {
            recovery.event: recovery.duration_s
            for recovery in explained_recoveries(scenario, ["oobleck"])
            if isinstance(recovery, ExplainedRecovery)
        }
        rows = [_compared(oobleck_s, **row) for row in read_rows("recovery", "measured")]
        return {"recoveries": with_repeated(pd.DataFrame(rows)), "standbys": _standby_table()}

    def row_tables(self, results: Results) -> Results:
        """Return the results, with the verdict and the kind of each recovery."""
        table = results["recoveries"]
        judged = table.assign(verdict=table.off.map(_verdict), kind=table.role.map(_KINDS))
        return {**results, "recoveries": judged}

    def headline(self, results: Results, rows: Sequence[Row]) -> Headline:
        """Return how many recoveries of each system are predicted within 15 %."""
        table = results["recoveries"]
        predicted = table[table.role == "predicted"]
        yield errors_table(
            f"Predicted recoveries within {self.within:.0%}",
            predicted,
            "system",
            "off",
            self.within,
        )
