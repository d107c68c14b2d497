"""Who trains soonest: all choices in order, under every condition of the sweep.

A condition is a setting of what a user does not choose (failures, machine, job); a choice is a
scheme with its knobs. Choices are compared with the soonest by pairs of runs that lived through the
same failures (one seed).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from faultline.experiments.analysis.intervals import half_width, mean_over_seeds
from faultline.experiments.analysis.selection import gave_up_rows, knobs_of, varied_axes

METRIC = "time_to_train_ratio"
_BEST_OF_ONE_SCHEME = 5


@dataclass(frozen=True, slots=True)
class Standings:
    """The order of the choices under each condition.

    Attributes
    ----------
    conditions : tuple of str
        Axes that make a condition; may be empty.
    knobs : tuple of str
        Axes that make a choice, besides the scheme.
    choices : DataFrame
        A row a condition and choice, soonest first: the conditions, ``strategy``, the knobs,
        ``place`` (1 is the soonest), ``mean`` (time-to-train ratio; infinite where a run did not
        finish), ``seeds``, ``time_s``, ``goodput``, ``checkpoint_steps`` and ``checkpoint_s`` from
        one checkpoint to the next, ``redundancy``, and against the soonest of the condition
        ``change``, ``low`` and ``high`` (fractions of its ratio, with a 95 % interval; NaN where
        nothing can be said) over ``pairs`` of runs.
    runs : DataFrame
        The runs behind it, with the column ``place``.
    """

    conditions: tuple[str, ...]
    knobs: tuple[str, ...]
    choices: pd.DataFrame
    runs: pd.DataFrame

    def best(self) -> pd.DataFrame:
        """Return each scheme's best choice; where there is one scheme only, its best choices."""
        if self.choices["strategy"].nunique() == 1:
            return self.choices[self.choices["place"] <= _BEST_OF_ONE_SCHEME]
        return self.choices.groupby([*self.conditions, "strategy"], dropna=False, sort=False).head(
            1
        )

    def runs_of_best(self) -> pd.DataFrame:
        """Return the runs behind `best`."""
        keys = [*self.conditions, "place"]
        return self.runs.merge(self.best()[keys], on=keys)


def standings(runs: pd.DataFrame) -> Standings:
    """Put the choices of a sweep in order.

    Parameters
    ----------
    runs : DataFrame
        Successful runs, a row each; at least one.

    Notes
    -----
    A job that gave up has not trained: its ratio counts as infinite. Choices with fewer seeds than
    others of their scheme come last: where runs failed, the mean over the others may flatter.
    """
    knobs = tuple(knobs_of(runs))
    conditions = tuple(
        axis for axis in varied_axes(runs) if axis not in knobs and axis != "strategy.name"
    )
    ended = runs.assign(**{METRIC: runs[METRIC].where(~gave_up_rows(runs), np.inf)})
    placed = _placed(ended, conditions, knobs)
    keys = [*conditions, "strategy", *knobs]
    ended = ended.merge(placed[[*keys, "place"]], on=keys)
    means = ended.groupby([*conditions, "place"], dropna=False, as_index=False).agg(
        time_s=("time_s", "mean"),
        goodput=("goodput", "mean"),
        checkpoint_steps=("checkpoint_interval_steps", "first"),
        checkpoint_s=("checkpoint_interval_s", "mean"),
        redundancy=("redundancy", "first"),
    )
    choices = placed.merge(means, on=[*conditions, "place"])
    choices = choices.merge(_against_the_soonest(ended, conditions), how="left")
    return Standings(conditions, knobs, choices, ended)


def _placed(
    runs: pd.DataFrame, conditions: tuple[str, ...], knobs: tuple[str, ...]
) -> pd.DataFrame:
    means = mean_over_seeds(runs, [*conditions, "strategy", *knobs], METRIC)
    means = means.drop(columns=["low", "high"])
    seeds = means.groupby([*conditions, "strategy"], dropna=False)["seeds"]
    means["lacks_seeds"] = means["seeds"] < seeds.transform("max")
    # Conditions stay in the order in which the sweep has them.
    ordered = runs[list(conditions)].drop_duplicates(ignore_index=True)
    ordered = ordered.assign(condition=ordered.index)
    means = means.merge(ordered, on=list(conditions)) if conditions else means.assign(condition=0)
    by = ["condition", "lacks_seeds", "mean"]
    means = means.sort_values(by, kind="stable", ignore_index=True)
    means["place"] = means.groupby("condition").cumcount() + 1
    return means.drop(columns=["condition", "lacks_seeds"])


def _against_the_soonest(runs: pd.DataFrame, conditions: tuple[str, ...]) -> pd.DataFrame:
    """Compare every choice with the soonest of its condition, by Student's t over paired seeds.

    Unlike in `experiments.analysis.comparison.compare`, the baseline is another one under each
    condition, and choices come by the thousand: one join pairs them all.
    """
    soonest = runs.loc[runs["place"] == 1, [*conditions, "seed", METRIC]]
    pairs = runs.merge(soonest.rename(columns={METRIC: "soonest"}), on=[*conditions, "seed"])
    # Of a job that does not finish nobody knows how much longer it takes.
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
