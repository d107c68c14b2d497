"""The simulation study of Lee et al. 2026 (SPARe, ICML 2026, arXiv 2603.00357).

SPARe against replication, both with checkpoints, on 600,000 GPUs in N = 200, 600, 1000 groups with
a failure every 300 s: once under the rules of the published simulator, once under sound ones. Then
both and checkpoints alone with a failure every minute to every day.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd
from faultline.experiments.analysis.printing import Columns, Printed, columns_of
from faultline.experiments.studies.base import (
    Draw,
    Results,
    Row,
    Study,
    Tables,
    listed_rows,
    row_of,
    rows_by,
)
from faultline.experiments.studies.spare import cells, figures, rates
from faultline.experiments.studies.spare.crossings import (
    crossing_rows,
    crossing_sentence,
    crossings,
    printed_crossings,
)
from faultline.experiments.studies.stage import Stage

_RATIO = "time_to_train_ratio"
SAVED = "time saved over replication"
_SETTING = "N={groups} r={redundancy} {distribution} {rules}"
_ON_SIMGRID = f"{_SETTING}, every step on SimGrid"
_CELL = ["rules", "strategy", "groups", "redundancy", "distribution"]
_FABRIC = (
    "The study takes all-reduce times as constants: 2, 6, 10 s. spare-600k is a star whose "
    "bandwidth was chosen because it explains them: 2(N-1)/N of a rank's share at half a 12.5 GB/s "
    "NIC (2:1 oversubscribed core), plus 2(N-1) latencies. That the fabric gives them is no "
    "evidence for them.\n"
)


class SpareStudy(Study):
    """SPARe against replication, and what becomes of both at other failure rates."""

    def simulate(self, stage: Stage) -> Results:
        """Run the cells, the shortcuts, what sound rules lean on, and the failure rates."""
        fabric = [(groups, stage.folder("platforms")) for groups in cells.GROUPS]
        measured = stage.calls("measuring the fabric", cells.measure_fabric, fabric)
        engines = stage.calls("both engines", cells.compare_engines, cells.SMALL_JOBS)
        chosen = stage.pick(cells.default_cells(), cells.full_cells())
        runs = stage.runs("runs", cells.cell_points(chosen, stage.seeds))
        shortcuts = stage.runs("shortcuts", cells.shortcut_points(stage.seeds))
        sensitivity = stage.runs("sensitivity", cells.sensitivity_points(stage.seeds))
        alone = stage.runs("checkpoint-only", cells.checkpoint_points(stage.seeds))
        rate_runs, curves = rates.sweep(stage, rates.settings(stage.full))
        head = headline_of(runs)
        results: Results = {}
        if stage.full:
            results["on_simgrid"] = stage.runs("on SimGrid", cells.simgrid_points())
        return results | {
            "runs": runs,
            "shortcuts": shortcuts,
            "sound_sensitivity": sensitivity,
            "checkpoint_only": alone.assign(completed_fraction=alone.completed_steps / alone.steps),
            "fabric": pd.DataFrame(measured),
            "engines": pd.DataFrame(engines),
            "headline": head,
            "savings": savings_of(runs, head),
            "failure-rates-runs": rate_runs,
            "failure-rates": curves,
            "failure-rates-crossings": crossings(rates.best_runs(rate_runs), curves),
        }

    def tables(self, results: Results) -> Tables:
        """Return the results; of some runs only what they come to."""
        return {
            **results,
            "cells": summary_of(results["runs"]),
            "shortcuts": shortcuts_of(results["shortcuts"]),
            "sound_sensitivity": best_of_sensitivity(results["sound_sensitivity"]),
            "checkpoint_only": results["checkpoint_only"]
            .rename(columns={"completed_fraction": "done"})
            .groupby(["setting", "strategy"], sort=False)[["done", _RATIO]]
            .mean()
            .reset_index(),
        }

    def rows(self, results: Results) -> Iterator[Row]:
        """Return every cell beside its published value, the fabric, the shortcuts and the rest."""
        yield from cell_rows(results["runs"])
        events = results["engines"].same_events.map({True: "same", False: "OTHER"})
        listed = {**results, "engines": results["engines"].assign(whose=events)}
        yield from listed_rows("spare", listed, ["savings", "fabric", "engines", "shortcuts"])
        yield from (row for row, _ in at_best(results["sound_sensitivity"]))
        if "on_simgrid" in results:
            yield from cell_rows(results["on_simgrid"], _ON_SIMGRID)
        yield from listed_rows("spare", results, ["checkpoint_only"])
        yield from crossing_rows(results["failure-rates-crossings"])

    def figures(self, results: Results) -> Mapping[str, Draw]:
        """Return the headline, the curves, and who trains soonest at which failure rate."""
        runs = results["runs"]
        drawn: dict[str, Draw] = {
            "headline.png": partial(figures.draw_headline, results["headline"], results["savings"])
        }
        for (rules, distribution), _ in runs.groupby(["rules", "distribution"], sort=False):
            name = f"{rules.removeprefix('spare-')}-{distribution}.png"
            drawn[name] = partial(figures.draw_curves, runs, rules, distribution)
        found = results["failure-rates"], results["failure-rates-crossings"]
        return {**drawn, **figures.rate_figures(*found)}

    def shown(self, results: Results, rows: Sequence[Row]) -> Iterable[Printed | str]:
        """Return the tables, the headline after what it rests on."""
        made = self.tables(results)
        fabric: Columns = {
            "groups": "groups",
            "all_reduce_s": ("all-reduce", "{:.2f} s"),
            "study_all_reduce_s": ("study", "{:.0f} s"),
            "save_s": ("write", "{:.2f} s"),
            "study_save_s": ("study", "{:.1f} s"),
            "load_s": ("load", "{:.2f} s"),
        }
        yield columns_of("Fabric: measured in SimGrid on spare-600k", made["fabric"], fabric)
        yield _FABRIC
        engines: Columns = {
            "rules": "rules",
            "scheme": "scheme",
            "events": "events",
            "same_events": ("same events", lambda same: "yes" if same else "NO"),
            "largest_difference": ("times differ", "{:.0e}"),
            "failures": "failures",
        }
        title = "Engines: 24 groups, 100 steps, no jitter; SimGrid against replay"
        yield columns_of(title, made["engines"], engines)
        if "on_simgrid" in made:
            alike: Columns = {
                "strategy": "scheme",
                "redundancy": "r",
                _RATIO: ("time-to-train ratio", "{:.3f}"),
                "availability": ("availability", "{:.1%}"),
                "failures": "failures",
            }
            title = "The study's headline cell at N = 200, every step on SimGrid"
            yield columns_of(title, made["on_simgrid"], alike)
        yield printed_shortcuts(made["shortcuts"])
        alone: Columns = {
            "setting": "setting",
            "strategy": "scheme",
            "done": ("steps done", "{:.2%}"),
            _RATIO: ("time-to-train ratio", lambda each: f"{each:.2f}" if each < 1e300 else "-"),
        }
        yield columns_of("Checkpoint and restart only", made["checkpoint_only"], alone)
        yield rates.printed_curves(made["failure-rates"])
        yield printed_crossings(made["failure-rates-crossings"])
        yield printed_cells(made["cells"])
        yield from printed_headline(made["headline"])
        yield printed_sensitivity(made["sound_sensitivity"])

    def headline(self, results: Results, rows: Sequence[Row]) -> Sequence[str]:
        """Say where checkpoints overtake SPARe, and what the published gain comes to."""
        found = results["failure-rates-crossings"]
        return crossing_sentence(found), closing_sentence(results["savings"])


def cell_rows(runs: pd.DataFrame, setting: str = _SETTING) -> Iterator[Row]:
    """Yield the rows of every cell, published beside simulated."""

    def known(column: str, rules: str, distribution: str, **cell: Any) -> float | None:
        comparable = rules == "spare-study" and distribution == "weibull"
        asked = column, cell["strategy"], cell["groups"], cell["redundancy"]
        return cells.published(*asked) if comparable else None

    quantities = {_RATIO: "1", "availability": "1", "mean_stacks": "stacks"}
    return rows_by(runs, _CELL, quantities, setting, published=known)


def summary_of(runs: pd.DataFrame) -> pd.DataFrame:
    """Return mean and standard deviation over seeds of the study's quantities, a row a cell."""
    quantities = [_RATIO, "availability", "mean_stacks", "restarts", "failures"]
    grouped = runs.groupby(_CELL, sort=False)[quantities].agg(["mean", "std"])
    grouped.columns = [f"{name}_{kind}".removesuffix("_mean") for name, kind in grouped.columns]
    return grouped.reset_index()


def printed_cells(table: pd.DataFrame) -> Printed:
    """Return the best of the redundancies that were simulated; cells.csv has all of them."""
    rows = []
    for (rules, failures, groups, scheme), mine in table.groupby(
        ["rules", "distribution", "groups", "strategy"], sort=False
    ):
        best = mine.loc[mine[_RATIO].idxmin()]
        span = f"{mine.redundancy.min()} to {mine.redundancy.max()}"
        job = str(rules).removeprefix("spare-"), failures, groups, scheme
        rows.append((*job, span, best.redundancy, best[_RATIO], best.availability))
    columns = ["rules", "failures", "N", "scheme", "r simulated", "best r", "ratio", "availability"]
    return Printed(
        "Redundancies: time-to-train ratio at the best",
        pd.DataFrame(rows, columns=columns),
        {"ratio": "{:.2f}", "availability": "{:.1%}"},
    )


def _of(runs: pd.DataFrame, **cell: Any) -> pd.DataFrame:
    """Return the runs with some values of columns."""
    for column, value in cell.items():
        runs = runs[runs[column] == value]
    return runs


def _best_redundancy(runs: pd.DataFrame) -> int:
    """Return the redundancy of the least mean ratio."""
    return int(runs.groupby("redundancy")[_RATIO].mean().idxmin())


def headline_of(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the headline: a row a scheme and N, published beside simulated.

    `study` and `sound` are at the published redundancy, `sound_best` at the redundancy of the least
    mean ratio. The columns `_low` and `_high` are the ends of the 95 % interval over seeds.
    """
    rows = []
    for known in cells.headline().sort_values(["groups", "scheme"]).itertuples():
        scheme, groups = known.scheme, known.groups
        here = _of(runs, distribution="weibull", strategy=scheme, groups=groups)
        best = _best_redundancy(_of(here, rules="spare-sound"))
        row = {
            "groups": groups,
            "scheme": scheme,
            "redundancy": known.redundancy,
            "published": known.time_to_train_ratio,
            "published_availability": known.availability,
            "sound_best_redundancy": best,
        }
        for name, rules, redundancy in (
            ("study", "spare-study", known.redundancy),
            ("sound", "spare-sound", known.redundancy),
            ("sound_best", "spare-sound", best),
        ):
            mine = _of(here, rules=rules, redundancy=redundancy)
            ratio = row_of(_RATIO, scheme, rules, None, list(mine[_RATIO]), "1")
            row |= {name: ratio.simulated, f"{name}_low": ratio.low, f"{name}_high": ratio.high}
            row[f"{name}_availability"] = mine.availability.mean()
        rows.append(row)
    return pd.DataFrame(rows)


def savings_of(runs: pd.DataFrame, head: pd.DataFrame) -> pd.DataFrame:
    """Return the share of replication's time that SPARe saves; runs of the same seed are a pair.

    A row a N and rules: under the rules of the study each scheme has its published redundancy,
    under sound rules the one that is best there. `low` and `high` are the ends of the 95 % interval
    over seeds.
    """
    rows: list[dict[str, Any]] = []
    for groups, mine in head.groupby("groups"):
        of = mine.set_index("scheme")
        for rules, column in (("study", "redundancy"), ("sound", "sound_best_redundancy")):
            chosen, cell = of[column], {"groups": groups, "rules": f"spare-{rules}"}
            ratios = {
                scheme: _of(
                    runs, distribution="weibull", strategy=scheme, redundancy=redundancy, **cell
                ).set_index("seed")[_RATIO]
                for scheme, redundancy in chosen.items()
            }
            saved = list(1 - ratios["spare"] / ratios["replication"])
            shares = row_of(SAVED, "spare", rules, None, saved, "1")
            row = {**cell, "redundancy": chosen["spare"]}
            row["replication_redundancy"] = chosen["replication"]
            if rules == "study":
                row["published"] = 1 - of.published["spare"] / of.published["replication"]
            row |= {"saved": shares.simulated, "low": shares.low, "high": shares.high}
            rows.append(row)
    return pd.DataFrame(rows)


def closing_sentence(savings: pd.DataFrame) -> str:
    """Say what the study's headline comes to, here and under sound rules."""

    def saved(rules: str, column: str = "saved") -> str:
        shares = sorted(savings[savings.rules == rules][column])
        return f"{shares[0]:.0%} to {shares[-1]:.0%}"

    each = "; ".join(
        f"N = {row.groups}: {share_text(row)}"
        for row in savings[savings.rules == "spare-sound"].itertuples()
    )
    return (
        f"SPARe trains sooner than replication by {saved('spare-study')} under the rules of the "
        f"study (published: {saved('spare-study', 'published')}), and by {saved('spare-sound')} "
        f"under sound ones, each scheme at its best redundancy ({each})."
    )


def share_text(saving: Any) -> str:
    """Write a row of `savings_of` in per cent, with its interval over seeds."""
    return f"{saving.saved:.0%} ({100 * saving.low:.0f} to {100 * saving.high:.0f})"


def shortcuts_of(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a row a shortcut and scheme: mean ratio beside that of the published simulator."""
    found = [
        (*simulated, ratios.mean(), ratios.std(), cells.published_shortcut(*simulated))
        for simulated, ratios in runs.groupby(["shortcut", "strategy"], sort=False)[_RATIO]
    ]
    columns = ["shortcut", "scheme", "simulated", "standard_deviation", "published"]
    return pd.DataFrame(found, columns=columns)


def at_best(runs: pd.DataFrame) -> Iterator[tuple[Row, pd.DataFrame]]:
    """Yield the row and the runs of each assumption and scheme at its best redundancy."""
    for (assumption, scheme), mine in runs.groupby(["assumption", "strategy"], sort=False):
        best = _best_redundancy(mine)
        chosen = _of(mine, redundancy=best)
        setting = f"N=200 r={best} weibull spare-sound, {assumption}"
        yield row_of(_RATIO, str(scheme), setting, None, list(chosen[_RATIO]), "1"), chosen


def best_of_sensitivity(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a row an assumption and scheme, each at the redundancy of the least mean ratio."""
    found = []
    for row, mine in at_best(runs):
        first = mine.iloc[0]
        simulated = first.assumption, row.scheme, first.redundancy, first.checkpoint_interval_steps
        ratio = row.simulated, row.low, row.high
        found.append((*simulated, *ratio, mine.availability.mean(), len(mine)))
    columns = ["assumption", "scheme", "redundancy", "interval_steps", _RATIO, "low", "high"]
    return pd.DataFrame(found, columns=[*columns, "availability", "seeds"])


def printed_headline(head: pd.DataFrame) -> Iterator[Printed]:
    """Yield the headline's ratios and availabilities beside the published ones."""
    change = head.study / head.published - 1
    best = [
        f"{row.sound_best:.2f} ({row.sound_best_low:.2f} to {row.sound_best_high:.2f}), "
        f"r={row.sound_best_redundancy}"
        for row in head.itertuples()
    ]
    shown = ["groups", "scheme", "redundancy", "published", "study", "change", "sound", "best"]
    names = {"groups": "N", "redundancy": "r", "study": "simulated", "best": "at best r"}
    ratios = dict.fromkeys(("published", "study", "sound"), "{:.2f}")
    yield Printed(
        "Headline: time-to-train ratio",
        head.assign(change=change, best=best)[shown],
        {**ratios, "change": "{:+.1%}", "best": str},
        names,
    )
    frame = head[["groups", "scheme", "redundancy"]].assign(
        published=head.published_availability,
        study=head.study_availability,
        difference=100 * (head.study_availability - head.published_availability),
        sound=head.sound_availability,
    )
    shares = dict.fromkeys(("published", "study", "sound"), "{:.1%}")
    formats = {**shares, "difference": "{:+.1f} points"}
    yield Printed("Headline: availability", frame, formats, names)


def printed_shortcuts(shortcuts: pd.DataFrame) -> Printed:
    """Return what each shortcut of the published simulator is worth."""
    columns = {"change": shortcuts.shortcut.unique()}
    for scheme in ("spare", "replication"):
        mine = shortcuts[shortcuts.scheme == scheme].set_index("shortcut")
        for column in ("simulated", "published"):
            columns[f"{scheme} {column}"] = mine[column].reindex(columns["change"]).to_numpy()
    names = {"spare simulated": "SPARe r=9", "replication simulated": "replication r=3"}
    return Printed(
        "Shortcuts undone one at a time: time-to-train ratio at N = 200",
        pd.DataFrame(columns),
        dict.fromkeys(list(columns)[1:], "{:.3f}"),
        {**dict.fromkeys(list(columns)[1:], "published"), **names},
    )


def printed_sensitivity(best: pd.DataFrame) -> Printed:
    """Return what each assumption of the sound rules is worth, both schemes at their best r."""
    rows = []
    for assumption, mine in best.groupby("assumption", sort=False):
        ratios = mine.set_index("scheme")[_RATIO]
        text = {row.scheme: f"{row.time_to_train_ratio:.2f} (r={row.redundancy})"
                for row in mine.itertuples()}  # fmt: skip
        less = 1 - ratios["spare"] / ratios["replication"]
        rows.append((assumption, text["spare"], text["replication"], less))
    return Printed(
        "Sound rules, one assumption replaced: time-to-train ratio, N = 200, best r",
        pd.DataFrame(rows, columns=["assumption", "SPARe", "replication", "less"]),
        {"SPARe": str, "replication": str, "less": "{:.0%}"},
    )
