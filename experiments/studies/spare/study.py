"""The simulation study of Lee et al. 2026 (SPARe, ICML 2026, arXiv 2603.00357).

SPARe against replication, both with checkpoints, on 600,000 GPUs in N = 200, 600, 1000 groups with
a failure every 300 s: once under the rules of the published simulator, once under sound ones. Then
both and checkpoints alone with a failure every minute to every day.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from faultline.experiments.studies.base import Options, Reproduction, Row, row_of
from faultline.experiments.studies.failure_rates.settings import settings
from faultline.experiments.studies.failure_rates.sweep import sweep
from faultline.experiments.studies.failure_rates.tables import (
    crossing_rows,
    crossing_sentence,
    crossing_table,
    rates_table,
)
from faultline.experiments.studies.spare import cells as study
from faultline.experiments.studies.spare.fabric import (
    COMPARISONS,
    Agreement,
    compare_engines,
    measure_fabric,
)
from faultline.experiments.studies.spare.figures import draw_curves, draw_headline
from faultline.experiments.studies.spare.published import GROUPS, headline, published, table
from faultline.experiments.studies.spare.sensitivity import (
    at_best,
    number_of_runs,
    run_sensitivity,
    sensitivity_rows,
)
from faultline.experiments.studies.spare.tables import (
    agreement_table,
    availability_table,
    checkpoint_table,
    fabric_table,
    headline_table,
    sensitivity_table,
    shortcut_table,
)
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


def reproduce(options: Options) -> list[Row]:
    """Reproduce the study: tables and figures into the directory, the headline on the console.

    Returns
    -------
    list of Row
        Every cell beside its published value, the fabric, the shortcuts, checkpoint-only.
    """
    cells = study.full_cells() if options.full else study.default_cells()
    with _progress(options) as progress:
        bar = progress.add_task("measuring the fabric", total=len(GROUPS))
        measured = measure_fabric(options, lambda: progress.advance(bar))
        bar = progress.add_task("both engines", total=COMPARISONS)
        agreements = compare_engines(lambda: progress.advance(bar))
        bar = progress.add_task("runs", total=len(cells) * options.seeds)
        runs = study.run_cells(cells, options.seeds, options.workers, lambda: progress.advance(bar))
        bar = progress.add_task("shortcuts", total=study.runs_of_shortcuts(options.seeds))
        shortcut_runs = study.run_shortcuts(
            options.seeds, options.workers, lambda: progress.advance(bar)
        )
        bar = progress.add_task("sensitivity", total=number_of_runs(options.seeds))
        sensitivity_runs = run_sensitivity(
            options.seeds, options.workers, lambda: progress.advance(bar)
        )
        bar = progress.add_task("checkpoint-only", total=1)
        checkpoint_runs = study.checkpoint_only(options.seeds, options.workers)
        progress.advance(bar)

        def begin(what: str, parts: int) -> Callable[[], None]:
            begun = progress.add_task(what, total=parts)
            return lambda: progress.advance(begun)

        rates = sweep(settings(options.full), options.seeds, options.full, options.workers, begin)

    head = headline_rows(runs)
    shortcuts = shortcut_rows(shortcut_runs)
    sensitivity = at_best(sensitivity_runs)
    checkpoint = checkpoint_rows(checkpoint_runs)
    _write_tables(
        options.directory,
        runs=runs,
        cells=study.summary(runs, ["rules", "strategy", "groups", "redundancy", "distribution"]),
        headline=head,
        shortcuts=shortcuts,
        sound_sensitivity=sensitivity,
        checkpoint_only=checkpoint,
        fabric=measured,
        engines=pd.DataFrame(
            [{name: getattr(a, name) for name in Agreement.__slots__} for a in agreements]
        ),
    )
    figures = [*_draw(options.directory, runs, head), *rates.write(options.directory)]
    show = options.console.print
    show(fabric_table(measured))
    show(
        "The study takes all-reduce times as constants: 2, 6, 10 s. spare-600k is a star whose "
        "bandwidth was chosen because it explains them: 2(N-1)/N of a rank's share at half a 12.5 "
        "GB/s NIC (2:1 oversubscribed core), plus 2(N-1) latencies. That the fabric gives them is "
        "no evidence for them.\n"
    )
    show(agreement_table(agreements))
    show(shortcut_table(shortcuts))
    show(checkpoint_table(checkpoint))
    show(rates_table(rates.curves))
    show(crossing_table(rates.crossings))
    show(headline_table(head))
    show(availability_table(head))
    show(sensitivity_table(sensitivity))
    show(f"Tables: {options.directory}/*.csv; figures: {', '.join(str(f) for f in figures)}")
    show(crossing_sentence(rates.crossings), style="bold")
    show(closing_sentence(head), style="bold")
    return [
        *cell_rows(runs),
        *_fabric_rows(measured),
        *_engine_rows(agreements),
        *_shortcut_result_rows(shortcut_runs),
        *sensitivity_rows(sensitivity_runs),
        *_checkpoint_result_rows(checkpoint_runs),
        *crossing_rows(rates.crossings),
    ]


REPRODUCTION = Reproduction(
    "spare", "SPARe against replication on 600k GPUs (Lee et al. 2026)", reproduce
)


def headline_rows(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the headline: a row a scheme and N, published beside simulated."""
    rows = []
    weibull = runs[runs.distribution == "weibull"]
    for known in headline().sort_values(["groups", "scheme"]).itertuples():
        here = weibull[(weibull.strategy == known.scheme) & (weibull.groups == known.groups)]
        at_best = here[here.redundancy == known.redundancy].groupby("rules")
        ratio, availability = at_best.time_to_train_ratio.mean(), at_best.availability.mean()
        sound = here[here.rules == "spare-sound"].groupby("redundancy").time_to_train_ratio.mean()
        rows.append(
            {
                "groups": known.groups,
                "scheme": known.scheme,
                "redundancy": known.redundancy,
                "published": known.time_to_train_ratio,
                "published_availability": known.availability,
                "study": ratio["spare-study"],
                "study_availability": availability["spare-study"],
                "sound": ratio["spare-sound"],
                "sound_availability": availability["spare-sound"],
                "sound_best_redundancy": int(sound.idxmin()),
                "sound_best": float(sound.min()),
            }
        )
    return pd.DataFrame(rows)


def closing_sentence(head: pd.DataFrame) -> str:
    """Say what the study's headline comes to, here and under sound rules."""

    def saved(column: str) -> str:
        values = head.pivot_table(index="groups", columns="scheme", values=column)
        shares = sorted(1 - values["spare"] / values["replication"])
        return f"{shares[0]:.0%} to {shares[-1]:.0%}"

    return (
        f"SPARe trains sooner than replication by {saved('study')} under the rules of the study "
        f"(published: {saved('published')}), and by {saved('sound_best')} under sound ones, each "
        "scheme at its best redundancy."
    )


def shortcut_rows(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a row a shortcut and scheme: mean ratio beside that of the published simulator."""
    known = table("spare_shortcuts").set_index(["shortcut", "scheme"]).time_to_train_ratio
    grouped = runs.groupby(["shortcut", "strategy"], sort=False).time_to_train_ratio
    return pd.DataFrame(
        [
            {
                "shortcut": shortcut,
                "scheme": scheme,
                "simulated": values.mean(),
                "standard_deviation": values.std(),
                "published": known.get((shortcut, scheme)),
            }
            for (shortcut, scheme), values in grouped
        ]
    )


def checkpoint_rows(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a row a setting and scheme: the share of the steps done, and the ratio."""
    runs = runs.assign(done=runs.completed_steps / runs.steps)
    means = runs.groupby(["setting", "strategy"], sort=False)[["done", "time_to_train_ratio"]]
    return means.mean().reset_index()


def cell_rows(runs: pd.DataFrame) -> list[Row]:
    """Return the rows of every cell, published beside simulated."""
    rows = []
    quantities = {"time_to_train_ratio": "1", "availability": "1", "mean_stacks": "stacks"}
    keys = ["rules", "strategy", "groups", "redundancy", "distribution"]
    for (rules, scheme, groups, redundancy, distribution), mine in runs.groupby(keys, sort=False):
        comparable = rules == "spare-study" and distribution == "weibull"
        for quantity, unit in quantities.items():
            known = published(scheme, groups, redundancy, quantity) if comparable else None
            setting = f"N={groups} r={redundancy} {distribution} {rules}"
            rows.append(row_of(quantity, scheme, setting, known, list(mine[quantity]), unit))
    return rows


def _fabric_rows(measured: pd.DataFrame) -> list[Row]:
    rows = []
    for row in measured.to_dict("records"):
        setting = f"N={row['groups']} spare-600k"
        for quantity in ("all_reduce_s", "save_s", "load_s"):
            known = row.get(f"study_{quantity}")
            rows.append(row_of(quantity, "fabric", setting, known, [row[quantity]], "s"))
    return rows


def _engine_rows(agreements: list[Agreement]) -> list[Row]:
    return [
        row_of(
            "engine_difference",
            agreement.scheme,
            f"N=24 {agreement.rules}, {'same' if agreement.same_events else 'OTHER'} events",
            None,
            [agreement.largest_difference],
            "1",
        )
        for agreement in agreements
    ]


def _shortcut_result_rows(runs: pd.DataFrame) -> list[Row]:
    known = table("spare_shortcuts").set_index(["shortcut", "scheme"]).time_to_train_ratio
    return [
        row_of(
            "time_to_train_ratio",
            str(scheme),
            f"N=200 shortcut: {shortcut}",
            _plain(known.get((shortcut, scheme))),
            list(mine.time_to_train_ratio),
            "1",
        )
        for (shortcut, scheme), mine in runs.groupby(["shortcut", "strategy"], sort=False)
    ]


def _checkpoint_result_rows(runs: pd.DataFrame) -> list[Row]:
    return [
        row_of(
            "completed_fraction",
            str(scheme),
            str(setting),
            None,
            list(mine.completed_steps / mine.steps),
            "1",
        )
        for (setting, scheme), mine in runs.groupby(["setting", "strategy"], sort=False)
    ]


def _plain(value: Any) -> float | None:
    return None if value is None else float(value)


def _draw(directory: Path, runs: pd.DataFrame, head: pd.DataFrame) -> list[Path]:
    figures = [draw_headline(head, directory / "headline.png")]
    for (rules, distribution), _ in runs.groupby(["rules", "distribution"], sort=False):
        name = f"{rules.removeprefix('spare-')}-{distribution}.png"
        figures.append(draw_curves(runs, str(rules), str(distribution), directory / name))
    return figures


def _write_tables(directory: Path, **tables: pd.DataFrame) -> None:
    for name, content in tables.items():
        content.to_csv(directory / f"{name}.csv", index=False)


def _progress(options: Options) -> Progress:
    return Progress(
        TextColumn("{task.description:22}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=options.console,
    )
