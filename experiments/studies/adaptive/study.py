"""Beyond the SPARe paper: what its rules leave on the table.

Checkpoints are written as the hazard of a restart asks for, and not at a fixed interval; groups
that failed come back at a checkpoint once they are repaired; spare groups stand in for them until
then. For SPARe and replication on the cluster of Lee et al. 2026 (SPARe), under sound rules.

Everything is on top of ``spare-sound``, with the times of all-reduce, checkpoint and load stated
instead of measured: the questions are about when to save and who comes back, not about the fabric.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

import pandas as pd
from faultline.experiments.analysis.intervals import mean_over_seeds
from faultline.experiments.analysis.printing import Columns, Printed, columns_of, wide_table
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.figures.badput import draw_badput
from faultline.experiments.figures.palette import LineLook, look_of
from faultline.experiments.figures.style import (
    draw_band,
    legend_below,
    ticks_at,
    write_notes,
    write_title,
)
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.base import (
    Draw,
    Results,
    Row,
    Study,
    change_text,
    changes_against,
    row_of_change,
    rows_by,
)
from faultline.experiments.studies.stage import Stage
from matplotlib import pyplot as plt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

SCHEMES = ("spare", "replication")
REDUNDANCIES = {"spare": range(2, 13), "replication": range(2, 7)}
BASELINE = "plain"
METRICS = ("time_to_train_ratio", "gpu_hours_ratio")
_STATED = {
    "times.all_reduce_per_group_s": 0.01,
    "times.checkpoint_write_s": 58.8,
    "restart.readers": None,
}
_DYNAMIC = {"checkpoint.policy": "dynamic"}
_CELL = ["strategy", "groups", "redundancy"]
_AT = ["strategy", "groups", "variant"]


def _repair(hours: int) -> dict[str, Any]:
    return {"rejoin.when": "at-checkpoint", "rejoin.repair_s": hours * 3600.0}


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to run a scheme."""

    name: str  # What it is called in tables and legends.
    # What sets it apart from the plain scheme, by dotted keys.
    settings: Mapping[str, Any] = field(default_factory=dict)
    # Spare groups, as a fraction of the job's groups; they are hardware on top of the job's.
    spare_share: float = 0.0

    def spare_groups(self, groups: int) -> int:
        """Return the number of spare groups for a job of `groups` groups."""
        return round(self.spare_share * groups)


VARIANTS = (
    Variant(BASELINE),
    Variant("dynamic", _DYNAMIC),
    Variant("rejoin 1 h", _repair(1)),
    Variant("rejoin 3 h", _repair(3)),
    Variant("rejoin 24 h", _repair(24)),
    Variant("rejoin 3 h + 5 % spares", _repair(3), 0.05),
    Variant("rejoin 3 h + 10 % spares", _repair(3), 0.10),
    Variant("rejoin 3 h + 20 % spares", _repair(3), 0.20),
    Variant("dynamic + rejoin 3 h", {**_DYNAMIC, **_repair(3)}),
    Variant("dynamic + rejoin 3 h + 20 % spares", {**_DYNAMIC, **_repair(3)}, 0.20),
)

# Okabe and Ito (2008), a palette for all kinds of colour vision.
_LOOKS = {
    BASELINE: LineLook("plain", "#000000", "o"),
    "dynamic": LineLook("dynamic", "#D55E00", "s"),
    "rejoin 1 h": LineLook("repair of 1 h", "#009E73", "v"),
    "rejoin 3 h": LineLook("repair of 3 h", "#0072B2", "D"),
    "rejoin 24 h": LineLook("repair of 24 h", "#E69F00", "^"),
    "rejoin 3 h + 5 % spares": LineLook("5 % spares", "#56B4E9", "P"),
    "rejoin 3 h + 10 % spares": LineLook("10 % spares", "#CC79A7", "X"),
    "rejoin 3 h + 20 % spares": LineLook("20 % spares", "#8A7A00", "*"),
}


@dataclass(frozen=True, slots=True)
class _Question:
    """A panel: what is asked, in which metric, and the variants that answer."""

    title: str
    metric: str
    variants: tuple[str, ...]


_REPAIRS = tuple(f"rejoin {hours} h" for hours in (24, 3, 1))
_SPARES = tuple(f"rejoin 3 h + {share} % spares" for share in (5, 10, 20))
_QUESTIONS = (
    _Question("When to save?", "time_to_train_ratio", ("dynamic",)),
    _Question("Rejoin after a repair?", "time_to_train_ratio", _REPAIRS),
    _Question("Spares? In time", "time_to_train_ratio", ("rejoin 3 h", *_SPARES)),
    _Question("Spares? In GPU-hours", "gpu_hours_ratio", ("rejoin 3 h", *_SPARES)),
)


def points(groups: Sequence[int], steps: int, seeds: int) -> Iterator[Point]:
    """Yield every variant at every redundancy; one seed, one sequence of failures for all."""
    for n, scheme in product(groups, SCHEMES):
        for redundancy, variant in product(REDUNDANCIES[scheme], VARIANTS):
            changes = settings_of(variant, scheme, n, redundancy, steps)
            job = resolve(load_scenario("spare-sound", changes))
            for seed in range(seeds):
                yield Point.of(job, seed, (("variant", variant.name),))


def settings_of(
    variant: Variant, scheme: str, groups: int, redundancy: int, steps: int
) -> dict[str, Any]:
    """Return what sets a cell of the study apart from ``spare-sound``."""
    settings = {
        **_STATED,
        "job.groups": groups,
        "job.steps": steps,
        "strategy.name": scheme,
        "strategy.redundancy": redundancy,
        **variant.settings,
    }
    spares = variant.spare_groups(groups)
    return {**settings, "rejoin.spare_groups": spares} if spares else settings


def with_spares(runs: pd.DataFrame) -> pd.DataFrame:
    """Return runs with ``spare_groups`` and ``gpu_hours_ratio``, what is paid for the whole time.

    That is the time-to-train ratio times 1 + spares / N.
    """
    variants = {variant.name: variant for variant in VARIANTS}
    pairs = zip(runs.variant, runs.groups, strict=True)
    spares = pd.Series([variants[name].spare_groups(n) for name, n in pairs], runs.index)
    hours = runs.time_to_train_ratio * (1 + spares / runs.groups)
    # As in a sweep, whose analysis and charts read this table.
    return runs.assign(status="ok", spare_groups=spares, gpu_hours_ratio=hours)


def changes_of(runs: pd.DataFrame) -> pd.DataFrame:
    """Compare every variant with the plain scheme at the same redundancy, seed by seed.

    A row a metric, variant, scheme, N and r: ``mean``, ``baseline_mean``, and ``change``,
    ``change_low``, ``change_high``: the mean difference and its 95 % interval by paired t, as
    fractions of the plain scheme's mean.
    """
    tables = [
        changes_against(runs, "variant", BASELINE, _CELL, metric).assign(metric=metric)
        for metric in METRICS
    ]
    columns = ["mean", "baseline_mean", "change", "change_low", "change_high", "pairs"]
    return pd.concat(tables, ignore_index=True)[["metric", "variant", *_CELL, *columns]]


def best_redundancies(runs: pd.DataFrame) -> pd.DataFrame:
    """Return each variant's redundancy of the least mean time to train, a row a scheme, N, variant.

    Spares are the same at every redundancy, so it is that of the fewest GPU-hours as well. With
    ``best_change``, ``best_change_low`` and ``best_change_high``: GPU-hours against the plain
    scheme at its own best redundancy, paired by seed. Since the best is chosen by the very runs
    that it is judged by, differences of close redundancies are part of the noise.
    """
    means = mean_over_seeds(runs, [*_AT, "redundancy"], METRICS[0])
    best = means.loc[means.groupby(_AT)["mean"].idxmin()].rename(columns={"mean": METRICS[0]})
    at_best = runs_at(runs, best)
    axes = ["strategy", "groups"]
    against = changes_against(at_best, "variant", BASELINE, axes, "gpu_hours_ratio")
    ends = {name: f"best_{name}" for name in ("change", "change_low", "change_high")}
    against = against.rename(columns=ends)[[*_AT, *ends.values()]]
    hours = at_best.groupby(_AT, as_index=False)[["gpu_hours_ratio", "restarts", "availability"]]
    table = best.merge(hours.mean(), on=_AT).merge(against, on=_AT, how="left")
    # In the order in which schemes and variants were played.
    places = {name: place for column in (runs.strategy, runs.variant)
              for place, name in enumerate(column.unique())}  # fmt: skip
    by = ["groups", "strategy", "variant"]
    return table.sort_values(by, key=lambda column: column.replace(places), ignore_index=True)


def runs_at(runs: pd.DataFrame, best: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of each variant at its best redundancy."""
    keys = [*_AT, "redundancy"]
    return runs.merge(best[keys], on=keys)


def draw_curves(runs: pd.DataFrame, groups: int, scheme: str) -> Figure:
    """Draw the ratio of a scheme over redundancy, a panel a question.

    Bands are 95 % intervals of the means over seeds. Plain SPARe is a grey line in every panel of
    the other schemes.
    """
    mine = runs[runs.groups == groups]
    tables = {
        metric: mean_over_seeds(mine, ["strategy", "variant", "redundancy"], metric)
        for metric in METRICS
    }

    # Bands of few seeds may reach far beyond the means.
    drawn = pd.concat(tables.values())
    seen = drawn["mean"][drawn.strategy.isin({scheme, "spare"})]

    def draw(axis: Axes, question: _Question) -> None:
        table = tables[question.metric]
        if scheme != "spare":
            plain = table[(table.strategy == "spare") & (table.variant == BASELINE)]
            axis.plot(
                plain.redundancy, plain["mean"], color="#999999", ls="--", label="plain SPARe"
            )
        for name in (BASELINE, *question.variants):
            line = table[(table.strategy == scheme) & (table.variant == name)]
            look = _LOOKS[name]
            _plot(axis, line.redundancy, line["mean"], look)
            draw_band(axis, line.redundancy, line, look.colour)
        # Logarithmic: at r = 2 the ratio is twice that of the optimum.
        axis.set_yscale("log")
        axis.set_ylim(0.95 * seen.min(), 1.05 * seen.max())
        ticks_at(axis.yaxis, [2, 2.5, 3, 4, 5, 6, 8, 10])

    notes = [
        f"Weibull failures every 300 s, sound rules. Mean over {mine.seed.nunique()} seeds of",
        f"{mine.steps.iloc[0]:,} steps, bands: its 95 % interval. Spares come on top of a repair",
        "of 3 h; GPU-hours: the ratio times 1 + spares / N.",
    ]
    title = f"{look_of(scheme).label}: time to train, N = {groups} groups"
    return _draw_grid("ratio (log)", title, notes, draw)


def draw_changes(changes: pd.DataFrame, groups: int, scheme: str) -> Figure:
    """Draw each variant's change against the plain scheme at the same redundancy, with intervals.

    `changes` is that of `changes_of`.
    """
    mine = changes[(changes.groups == groups) & (changes.strategy == scheme)]

    def draw(axis: Axes, question: _Question) -> None:
        axis.axhline(0.0, color="#000000", lw=1.0)
        for place, name in enumerate(question.variants):
            line = mine[(mine.metric == question.metric) & (mine.variant == name)]
            look = _LOOKS[name]
            beside = line.redundancy + 0.18 * (place - (len(question.variants) - 1) / 2)
            _plot(axis, beside, line.change, look, lw=0.0)
            axis.vlines(beside, line.change_low, line.change_high, color=look.colour, lw=1.2)
        axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))

    notes = [
        "Below zero: better than plain. Differences by seed, as shares of the plain mean;",
        f"bars: 95 % intervals by paired t over {mine.pairs.max()} seeds.",
    ]
    title = f"{look_of(scheme).label}: change against the plain scheme, N = {groups} groups"
    return _draw_grid("change", title, notes, draw)


def draw_causes(runs: pd.DataFrame, best: pd.DataFrame, groups: int) -> Figure:
    """Draw where the time of SPARe went, a bar a variant, each at its best redundancy."""
    mine = runs_at(runs, best)
    mine = mine[(mine.groups == groups) & (mine.strategy == "spare")]
    bars = [f"{name}, r = {r}" for name, r in zip(mine.variant, mine.redundancy, strict=True)]
    frame = mine.assign(bar=bars)
    order = {name: place for place, name in enumerate(dict.fromkeys(runs.variant))}
    frame = frame.sort_values("variant", key=lambda names: names.map(order), kind="stable")
    notes = [f"SPARe, N = {groups}, each variant at its best redundancy."]
    return draw_badput(frame, "bar", unit="days", notes=notes)


def _draw_grid(
    label: str, title: str, notes: list[str], draw: Callable[[Axes, _Question], None]
) -> Figure:
    """Draw a panel a question, and one legend of all their lines below."""
    figure, axes = plt.subplots(2, 2, figsize=(9.2, 7.6), sharex=True, sharey=True)
    lines: dict[Any, Artist] = {}
    for axis, question in zip(axes.flat, _QUESTIONS, strict=True):
        draw(axis, question)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set_title(question.title)
        handles, labels = axis.get_legend_handles_labels()
        lines |= dict(zip(labels, handles, strict=True))
    for axis in axes[1]:
        axis.set_xlabel("redundancy r")
    for axis in axes[:, 0]:
        axis.set_ylabel(label)
    legend_below(figure, list(lines.values()))
    write_title(figure, title)
    write_notes(figure, notes)
    return figure


def _plot(axis: Axes, x: pd.Series, y: pd.Series, look: LineLook, lw: float = 1.4) -> None:
    axis.plot(x, y, color=look.colour, marker=look.marker, markersize=4.5, lw=lw, label=look.label)


_SHOWN = {"spare": (2, 3, 9), "replication": (2, 3, 4)}


class AdaptiveStudy(Study):
    """What dynamic checkpoints, returning groups and spares change; nothing of it is published."""

    default_seeds = 5

    def play(self, stage: Stage) -> Results:
        """Play every variant at every redundancy, and compare them."""
        groups, steps = stage.pick(((200,), 3_000), ((200, 600), 10_000))
        runs = with_spares(stage.runs("runs", points(groups, steps, stage.seeds)))
        return {"runs": runs, "changes": changes_of(runs), "best": best_redundancies(runs)}

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
            for scheme in SCHEMES:
                drawn[f"curves-{scheme}-{n}.png"] = partial(draw_curves, runs, n, scheme)
                drawn[f"changes-{scheme}-{n}.png"] = partial(draw_changes, changes, n, scheme)
            drawn[f"badput-{n}.png"] = partial(draw_causes, runs, best, n)
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
    title = f"{look_of(scheme).label}, N = {groups}: time to train against plain, in %"
    return wide_table(title, texts, ["variant"], "redundancy", {"variant": "at r ="})


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
