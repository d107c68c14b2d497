"""The soonest choice under each condition of the sweep, and the result in one sentence.

A condition is a setting that users do not choose (failures, machine, job). A choice is a scheme
with its knobs. Choices are compared with the soonest by pairs of runs with the same seed, and so
with the same failures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from faultline.experiments.analysis.intervals import half_width, mean_over_seeds
from faultline.experiments.analysis.quantities import fixed, steps_text, time_unit
from faultline.experiments.analysis.selection import gave_up_rows, knobs_of, varied_axes
from faultline.experiments.figures.palette import look_of
from faultline.experiments.report.tables import Mapped, choice_name

METRIC = "time_to_train_ratio"
_BEST_OF_ONE_SCHEME = 5


@dataclass(frozen=True, slots=True)
class Standings:
    """The order of the choices under each condition."""

    conditions: tuple[str, ...]  # Axes of a condition; may be empty.
    knobs: tuple[str, ...]  # Axes of a choice, besides the scheme.
    # A row per condition and choice, soonest first: the conditions, ``strategy``, the knobs,
    # ``place`` (1 is the soonest), ``mean`` (time-to-train ratio; infinite if a run did not
    # finish), ``seeds``, ``time_s``, ``goodput``, ``mfu``, ``gpu_hours``, ``checkpoint_steps`` and
    # ``checkpoint_s`` between checkpoints, ``redundancy``, and the difference to the soonest:
    # ``change``, ``low`` and ``high`` (fractions of its ratio, with a 95 % interval; NaN if
    # unknown) over ``pairs`` of runs.
    choices: pd.DataFrame

    def best(self) -> pd.DataFrame:
        """Return each scheme's best choice; of a single scheme, its best choices."""
        if self.choices["strategy"].nunique() == 1:
            return self.choices[self.choices["place"] <= _BEST_OF_ONE_SCHEME]
        return self.choices.groupby([*self.conditions, "strategy"], dropna=False, sort=False).head(
            1
        )


def standings(runs: pd.DataFrame) -> Standings:
    """Rank the choices of a sweep.

    The ratio of a job that gave up is infinite. Choices with fewer seeds than others of their
    scheme come last: if runs failed, the mean over the others may be too good.
    """
    knobs = tuple(knobs_of(runs))
    conditions = tuple(
        axis for axis in varied_axes(runs) if axis not in knobs and axis != "strategy.name"
    )
    ratios = runs[METRIC].where(~gave_up_rows(runs), np.inf)
    ended = runs.assign(**{METRIC: ratios, "mfu": pd.to_numeric(runs["mfu"])})
    placed = _placed(ended, conditions, knobs)
    keys = [*conditions, "strategy", *knobs]
    ended = ended.merge(placed[[*keys, "place"]], on=keys)
    means = ended.groupby([*conditions, "place"], dropna=False, as_index=False).agg(
        time_s=("time_s", "mean"),
        goodput=("goodput", "mean"),
        mfu=("mfu", "mean"),
        gpu_hours=("gpu_hours", "mean"),
        checkpoint_steps=("checkpoint_interval_steps", "first"),
        checkpoint_s=("checkpoint_interval_s", "mean"),
        redundancy=("redundancy", "first"),
    )
    choices = placed.merge(means, on=[*conditions, "place"])
    choices = choices.merge(_against_the_soonest(ended, conditions), how="left")
    return Standings(conditions, knobs, choices)


def _placed(
    runs: pd.DataFrame, conditions: tuple[str, ...], knobs: tuple[str, ...]
) -> pd.DataFrame:
    means = mean_over_seeds(runs, [*conditions, "strategy", *knobs], METRIC)
    means = means.drop(columns=["low", "high"])
    seeds = means.groupby([*conditions, "strategy"], dropna=False)["seeds"]
    means["lacks_seeds"] = means["seeds"] < seeds.transform("max")
    # Conditions keep the order of the sweep.
    ordered = runs[list(conditions)].drop_duplicates(ignore_index=True)
    ordered = ordered.assign(condition=ordered.index)
    means = means.merge(ordered, on=list(conditions)) if conditions else means.assign(condition=0)
    by = ["condition", "lacks_seeds", "mean"]
    means = means.sort_values(by, kind="stable", ignore_index=True)
    means["place"] = means.groupby("condition").cumcount() + 1
    return means.drop(columns=["condition", "lacks_seeds"])


def _against_the_soonest(runs: pd.DataFrame, conditions: tuple[str, ...]) -> pd.DataFrame:
    """Compare each choice with the soonest of its condition, by Student's t over paired seeds.

    Unlike in `compare`, the baseline depends on the condition. One join pairs thousands of choices.
    """
    soonest = runs.loc[runs["place"] == 1, [*conditions, "seed", METRIC]]
    pairs = runs.merge(soonest.rename(columns={METRIC: "soonest"}), on=[*conditions, "seed"])
    # The delay of a job that does not finish is unknown.
    difference = (pairs[METRIC] - pairs["soonest"]).replace([np.inf, -np.inf], np.nan)
    table = (
        pairs.assign(difference=difference)
        .groupby([*conditions, "place"], dropna=False, as_index=False)
        .agg(
            change=("difference", "mean"),
            deviation=("difference", "std"),
            soonest=("soonest", "mean"),
            pairs=("difference", "count"),
        )
    )
    half = half_width(table["deviation"], table["pairs"])
    table["low"] = (table["change"] - half) / table["soonest"]
    table["high"] = (table["change"] + half) / table["soonest"]
    table["change"] /= table["soonest"]
    return table[[*conditions, "place", "change", "low", "high", "pairs"]]


_ALONE = "The sweep has no other choice to compare it with."
_ONE_SEED = "There is only one seed, so the significance is unknown."


@dataclass(frozen=True, slots=True)
class Answer:
    """The choice that trains soonest."""

    sentence: str
    confidence: str = ""  # Statistical confidence; may be empty.


def answer(order: Standings) -> Answer:
    """Return the soonest choice, from the order of the choices under each condition."""
    best = order.best()
    if order.conditions:
        return _under_many_conditions(best, order.conditions)
    return _under_one_condition(best, order.knobs)


def interval_text(row: Mapped) -> str:
    """Return the interval of a difference in percent: ``38.2 to 39.8 %``."""
    return f"{fixed(100 * row['low'], 1)} to {fixed(100 * row['high'], 1)} %"


def _under_one_condition(best: pd.DataFrame, knobs: tuple[str, ...]) -> Answer:
    soonest, *others = best.to_dict(orient="records")
    if math.isinf(soonest["mean"]):
        return Answer("No setting finishes: in each a job gave up before its last step.")
    name = choice_name(soonest, knobs)
    unit = time_unit([soonest["time_s"]])
    time = (
        f"{fixed(soonest['time_s'] / unit.seconds, 1)} {unit.name} at a goodput of "
        f"{fixed(100 * soonest['goodput'], 1)} %, with a checkpoint every "
        f"{steps_text(int(soonest['checkpoint_steps']), soonest['checkpoint_s'])}: "
        f"{fixed(soonest['mean'], 2)} times as long as an undisturbed job."
    )
    if not others:
        return Answer(f"{name} takes {time}", _ALONE)
    sentence = f"{name} {_verb(is_clear(others[0]))} soonest: in {time}"
    return Answer(sentence, _lead(others[0], knobs))


def is_clear(later: Mapped) -> bool:
    """Return whether a choice is significantly later than the soonest."""
    return bool(math.isinf(later["mean"]) or later["low"] > 0)


def _verb(clear: bool) -> str:
    return "trains" if clear else "looks"


def _lead(next_best: Mapped, knobs: tuple[str, ...]) -> str:
    other = f"The next best, {choice_name(next_best, knobs)}"
    if math.isinf(next_best["mean"]):
        return f"{other}, does not finish."
    if math.isnan(next_best["change"]):
        return f"{other}, has no run with the same seed to compare."
    later = f"{other}, takes {fixed(100 * next_best['change'], 1)} % longer"
    if math.isnan(next_best["low"]):
        return f"{later}. {_ONE_SEED}"
    interval = f"95 % interval {interval_text(next_best)}, {int(next_best['pairs'])} paired seeds"
    doubt = "" if next_best["low"] > 0 else " That is not significant: run more seeds."
    return f"{later} ({interval}).{doubt}"


def _under_many_conditions(best: pd.DataFrame, conditions: tuple[str, ...]) -> Answer:
    firsts = best[best["place"] == 1]
    total = f"{len(firsts):,} conditions"
    wins = firsts.loc[np.isfinite(firsts["mean"]), "strategy"].value_counts()
    if wins.empty:
        return Answer(f"No choice finishes: under each of {total} a job gave up before its end.")
    seconds = best[best["place"] > 1].groupby(list(conditions), dropna=False).head(1)
    if seconds.empty:
        labels = ", ".join(look_of(scheme).label for scheme in wins.index)
        return Answer(f"{labels}: one choice under each of {total}.", _ALONE)
    clear = sum(is_clear(row) for row in seconds.to_dict(orient="records"))
    (first, count), *others = wins.items()
    verb = _verb(clear == len(seconds))
    sentence = f"{look_of(str(first)).label} {verb} soonest under {count:,} of {total}"
    sentence += "".join(f", {look_of(str(one)).label} under {times:,}" for one, times in others)
    if seconds["pairs"].max() < 2:
        return Answer(f"{sentence}.", _ONE_SEED)
    doubt = "" if clear == len(seconds) else " Run more seeds."
    return Answer(
        f"{sentence}.",
        f"The lead over the next best is significant under {clear:,} of {len(seconds):,} "
        f"conditions (paired 95 % intervals).{doubt}",
    )
