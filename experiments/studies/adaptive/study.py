"""Beyond the SPARe paper: what its rules leave on the table.

Checkpoints are written as the hazard of a restart asks for, and not at a fixed interval; groups
that failed come back at a checkpoint once they are repaired; spare groups stand in for them until
then. For SPARe and replication on the cluster of Lee et al. 2026 (SPARe), under sound rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import pandas as pd
from faultline.experiments.analysis.printing import Columns, Printed, columns_of
from faultline.experiments.figures.style import scheme_looks
from faultline.experiments.studies.adaptive import figures, variants
from faultline.experiments.studies.adaptive.variants import METRICS, SCHEMES, VARIANTS
from faultline.experiments.studies.base import (
    Draw,
    Results,
    Row,
    Study,
    change_text,
    row_of_change,
    rows_by,
)
from faultline.experiments.studies.stage import Stage

_SHOWN = {"spare": (2, 3, 9), "replication": (2, 3, 4)}


class AdaptiveStudy(Study):
    """What dynamic checkpoints, returning groups and spares change; nothing of it is published."""

    default_seeds = 5

    def play(self, stage: Stage) -> Results:
        """Play every variant at every redundancy, and compare them."""
        groups, steps = stage.pick(((200,), 3_000), ((200, 600), 10_000))
        points = variants.points(groups, steps, stage.seeds)
        runs = variants.with_spares(stage.runs("runs", points))
        best = variants.best_redundancies(runs)
        return {"runs": runs, "changes": variants.changes_of(runs), "best": best}

    def rows(self, results: Results) -> Iterator[Row]:
        """Return both ratios and the availability of every cell, and the paired changes."""
        keys = ["strategy", "groups", "redundancy", "variant"]
        measured = dict.fromkeys((*METRICS, "availability"), "1")
        setting = "N={groups} r={redundancy} {variant}"
        yield from rows_by(results["runs"], keys, measured, setting)
        for row in results["changes"].itertuples():
            setting = f"N={row.groups} r={row.redundancy} {row.variant} against plain"
            yield row_of_change(f"change_of_{row.metric}", row.strategy, setting, row)

    def figures(self, results: Results) -> Mapping[str, Draw]:
        """Return for each N the curves, the changes, and where the time went."""
        runs, changes, best = (results[name] for name in ("runs", "changes", "best"))
        drawn: dict[str, Draw] = {}
        for n in runs.groups.unique():
            drawn[f"curves-{n}.png"] = partial(figures.draw_curves, runs, n)
            drawn[f"changes-{n}.png"] = partial(figures.draw_changes, changes, n)
            drawn[f"badput-{n}.png"] = partial(figures.draw_causes, runs, best, n)
        return drawn

    def shown(self, results: Results, rows: Sequence[Row]) -> Iterable[Printed]:
        """Return for each N what variants change, and each at its best redundancy."""
        for n in results["runs"].groups.unique():
            for scheme in SCHEMES:
                yield printed_changes(results["changes"], n, scheme)
            yield printed_best(results["best"], n)

    def headline(self, results: Results, rows: Sequence[Row]) -> Sequence[str]:
        """Say what dynamic checkpoints, and groups that rejoin, are worth."""
        return [
            sentence
            for n in results["runs"].groups.unique()
            for sentence in (
                dynamic_sentence(results["changes"], n),
                rejoin_sentence(results["best"], n),
            )
        ]


def printed_changes(changes: pd.DataFrame, groups: int, scheme: str) -> Printed:
    """Return how much time each variant saves at each redundancy, with paired intervals."""
    mine = changes[
        (changes.groups == groups)
        & (changes.strategy == scheme)
        & (changes.metric == METRICS[0])
        & changes.redundancy.isin(_SHOWN[scheme])
    ]
    texts = mine.assign(text=[change_text(row) for row in mine.itertuples()])
    wide = texts.pivot(index="variant", columns="redundancy", values="text")
    frame = wide.loc[[variant.name for variant in VARIANTS[1:]]].reset_index(names="at r =")
    label = scheme_looks([scheme])[scheme].label
    title = f"{label}, N = {groups}: time to train against plain, in %"
    return Printed(title, frame, dict.fromkeys(wide.columns, str))


def printed_best(best: pd.DataFrame, groups: int) -> Printed:
    """Return each variant at its best redundancy, in time and in GPU-hours."""
    mine = best[best.groups == groups].rename(columns=lambda name: name.removeprefix("best_"))
    changes = [change_text(row) for row in mine.itertuples()]
    columns: Columns = {
        "strategy": "scheme",
        "variant": "variant",
        "redundancy": "r",
        "time_to_train_ratio": ("time", "{:.2f}"),
        "gpu_hours_ratio": ("GPU-hours", "{:.2f}"),
        "text": ("change", str),
    }
    title = f"Each at its best redundancy, N = {groups}; change of GPU-hours against plain, in %"
    return columns_of(title, mine.assign(text=changes), columns)


def dynamic_sentence(changes: pd.DataFrame, groups: int) -> str:
    """Say what dynamic checkpoints are worth at low redundancy."""
    keys = ["metric", "variant", "groups", "strategy", "redundancy"]
    rows = changes.set_index(keys).sort_index().loc[METRICS[0], "dynamic", groups]

    def at(scheme: str, redundancy: int) -> str:
        return f"{change_text(rows.loc[scheme, redundancy])} %"

    return (
        f"Checkpoints that follow the hazard change SPARe's time to train at N = {groups} by "
        f"{at('spare', 2)} at r = 2, {at('spare', 3)} at r = 3 and {at('spare', 9)} at r = 9 "
        f"(replication at r = 3: {at('replication', 3)}); changes with paired 95 % intervals."
    )


def rejoin_sentence(best: pd.DataFrame, groups: int) -> str:
    """Say what rejoining groups and spares are worth, each variant at its best redundancy."""
    mine = best[(best.groups == groups) & (best.strategy == "spare")].set_index("variant")

    def at(variant: str) -> str:
        row = mine.loc[variant]
        return f"{row.time_to_train_ratio:.2f} (r = {row.redundancy})"

    spares = mine.loc["rejoin 3 h + 20 % spares"]
    hours, plain = spares.gpu_hours_ratio, mine.loc["plain"].gpu_hours_ratio
    return (
        f"Groups that rejoin at checkpoints after a repair of 3 h bring SPARe's best time-to-train "
        f"ratio at N = {groups} from {at('plain')} to {at('rejoin 3 h')}, after one of 1 h "
        f"to {at('rejoin 1 h')}; 20 % spare groups on top of 3 h bring it to "
        f"{at('rejoin 3 h + 20 % spares')}, which is {hours:.2f} against {plain:.2f} in "
        "GPU-hours."
    )
