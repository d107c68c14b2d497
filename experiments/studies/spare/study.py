"""The simulation study of Lee et al. 2026 (SPARe, ICML 2026, arXiv 2603.00357).

SPARe against replication, both with checkpoints, on 600,000 GPUs in N = 200, 600, 1000 groups with
a failure every 300 s: once under the rules of the published simulator, once under sound ones. Then
both schemes and checkpoints alone, with mean times between failures from a minute to a day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pandas as pd
from faultline.experiments.report.tables import Columns, columns_of
from faultline.experiments.studies.base import Headline, Results, Row, Study, row_of
from faultline.experiments.studies.spare import cells, figures, rates
from faultline.experiments.studies.spare.cells import rows_with
from faultline.experiments.studies.stage import Stage

_RATIO = "time_to_train_ratio"
SAVED = "time saved over replication"


class SpareStudy(Study):
    """SPARe against replication, at the published and at other failure rates."""

    charts: ClassVar = {
        "headline.png": (figures.draw_headline, "headline", "savings"),
        "study-weibull.png": (figures.draw_curves, "runs"),
        "failure-rates.png": (figures.draw_rates, "failure-rates", "failure-rates-crossings"),
    }

    def simulate(self, stage: Stage) -> Results:
        """Run the cells, the shortcuts, the assumptions of the sound rules, and the rates."""
        platforms = [(groups, stage.folder("platforms")) for groups in cells.GROUPS]
        measured = stage.calls("measuring the fabric", cells.measure_fabric, platforms)
        chosen = stage.pick(cells.default_cells(), cells.full_cells())
        runs = stage.runs("runs", cells.cell_points(chosen, stage.seeds))
        shortcuts, sensitivity, alone = (
            stage.runs(title, cells.cell_points(cells.variants(part), stage.seeds, part))
            for title, part in (
                ("shortcuts", "shortcut"),
                ("sensitivity", "assumption"),
                ("checkpoint-only", "setting"),
            )
        )
        seeds = range(stage.seeds)
        reorderings = stage.calls("reorderings", cells.count_reorderings, seeds)
        rate_runs, curves = rates.sweep(stage, rates.settings())
        head = headline_of(runs)
        results: Results = {}
        if stage.full:
            # One seed: 10,000 steps of 200 ranks, with some 6,600 failures, take a few minutes.
            best = cells.cell_points([cells.cell_of("spare-study", "spare", 200, 9)], 1)
            points = [replace(point, engine="simgrid") for point in best]
            results["on_simgrid"] = with_published(stage.runs("on SimGrid", points))
        return results | {
            "runs": with_published(runs),
            "shortcuts": shortcuts,
            "at_best": best_of(sensitivity, "assumption", "strategy"),
            "sound_sensitivity": best_of_sensitivity(sensitivity),
            "checkpoint_only": alone.assign(completed_fraction=alone.completed_steps / alone.steps),
            "fabric": pd.DataFrame(measured),
            "reorderings": pd.DataFrame(reorderings),
            "headline": head,
            "savings": savings_of(runs, head),
            "failure-rates-runs": rate_runs,
            "failure-rates": curves,
            "failure-rates-crossings": rates.crossings(rates.best_runs(rate_runs), curves),
        }

    def row_tables(self, results: Results) -> Mapping[str, Any]:
        """Return the results, and 0 ``crossings`` if the lead never changes."""
        changes = results["failure-rates-crossings"]
        never = changes[changes.mtbf_s.isna()].assign(crossings=0.0)
        return {**results, "never": never}

    def headline(self, results: Results, rows: Sequence[Row]) -> Headline:
        """Return the time that SPARe saves over replication, a row per number of groups."""
        savings = results["savings"].set_index(["rules", "groups"])
        study, sound = (savings.loc[rules] for rules in cells.RULES)
        ranges = (
            (100 * sound[["low", "high"]]).round().astype(int).astype(str).agg(" to ".join, axis=1)
        )
        frame = study[["published", "saved"]].assign(sound=sound.saved, between=ranges)
        columns: Columns = {
            "groups": ("groups", "{:,}"),
            "published": ("published", "{:.0%}"),
            "saved": ("same rules", "{:.0%}"),
            "sound": ("sound rules", "{:.0%}"),
            "between": ("95 %", str),
        }
        yield columns_of(
            "Time that SPARe saves over replication, each at its best redundancy",
            frame.reset_index(),
            columns,
        )


def with_published(runs: pd.DataFrame) -> pd.DataFrame:
    """Return runs beside published values, which have the study's rules and Weibull failures."""
    return runs.merge(cells.published_cells(), how="left")


def best_of(runs: pd.DataFrame, *keys: str) -> pd.DataFrame:
    """Return the runs of each setting and scheme (`keys`) at the best redundancy."""
    return rates.best_runs(runs, keys, ["redundancy"])


def headline_of(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the headline: a row per scheme and N, published beside simulated.

    `study` and `sound` are at the published redundancy, `sound_best` at the redundancy of the least
    mean ratio. The columns `_low` and `_high` are the ends of the 95 % interval over seeds.
    """
    rows = []
    weibull = rows_with(runs, distribution="weibull")
    for cell in cells.headline().sort_values(["groups", "scheme"]).itertuples():
        simulated = rows_with(weibull, strategy=cell.scheme, groups=cell.groups)
        study, sound = (rows_with(simulated, rules=rules) for rules in cells.RULES)
        best = best_of(sound, "strategy")
        row = {
            "groups": cell.groups,
            "scheme": cell.scheme,
            "redundancy": cell.redundancy,
            "published": cell.time_to_train_ratio,
            "published_availability": cell.availability,
            "sound_best_redundancy": best.redundancy.iloc[0],
        }
        for name, chosen in (
            ("study", rows_with(study, redundancy=cell.redundancy)),
            ("sound", rows_with(sound, redundancy=cell.redundancy)),
            ("sound_best", best),
        ):
            ratio = row_of(_RATIO, cell.scheme, name, None, list(chosen[_RATIO]), "1")
            row |= {name: ratio.simulated, f"{name}_low": ratio.low, f"{name}_high": ratio.high}
            row[f"{name}_availability"] = chosen.availability.mean()
        rows.append(row)
    return pd.DataFrame(rows)


def savings_of(runs: pd.DataFrame, head: pd.DataFrame) -> pd.DataFrame:
    """Return the share of replication's time that SPARe saves; runs of the same seed are a pair.

    A row per N and rules: under the rules of the study each scheme has its published redundancy,
    under sound rules its best one. `low` and `high` are the ends of the 95 % interval over
    seeds.
    """
    rows: list[dict[str, Any]] = []
    for groups, schemes in head.groupby("groups"):
        by_scheme = schemes.set_index("scheme")
        simulated = rows_with(runs, groups=groups, distribution="weibull")
        for rules, column in zip(cells.RULES, ("redundancy", "sound_best_redundancy"), strict=True):
            spare, replication = (
                rows_with(
                    simulated, rules=rules, strategy=scheme, redundancy=by_scheme[column][scheme]
                )
                for scheme in ("spare", "replication")
            )
            ratios = spare.set_index("seed")[_RATIO] / replication.set_index("seed")[_RATIO]
            shares = row_of(SAVED, "spare", rules, None, list(1 - ratios), "1")
            row = {"groups": groups, "rules": rules, "redundancy": by_scheme[column]["spare"]}
            row["replication_redundancy"] = by_scheme[column]["replication"]
            if rules == "spare-study":
                published = by_scheme.published
                row["published"] = 1 - published["spare"] / published["replication"]
            row |= {"saved": shares.simulated, "low": shares.low, "high": shares.high}
            rows.append(row)
    return pd.DataFrame(rows)


def best_of_sensitivity(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a row per assumption and scheme, each at the redundancy of the least mean ratio."""
    best, rows = best_of(runs, "assumption", "strategy"), []
    for (assumption, scheme), at_best in best.groupby(["assumption", "strategy"], sort=False):
        ratio = row_of(_RATIO, scheme, assumption, None, list(at_best[_RATIO]), "1")
        chosen = at_best.redundancy.iloc[0], at_best.checkpoint_interval_steps.iloc[0]
        means = ratio.simulated, ratio.low, ratio.high, at_best.availability.mean()
        rows.append((assumption, scheme, *chosen, *means, len(at_best)))
    columns = ["assumption", "scheme", "redundancy", "interval_steps", _RATIO, "low", "high"]
    return pd.DataFrame(rows, columns=[*columns, "availability", "seeds"])
