"""MeCeFO's convergence: what approximate gradients, and smaller batches, cost in training.

A small language model is trained on real text with the approximate backward pass, under the plans
that the loop makes for the published failure scenarios. Published perplexities under faults are not
known here: those columns are empty, and what stands beside them is predicted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from statistics import fmean
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from faultline.experiments.analysis.intervals import mean_over_seeds
from faultline.experiments.analysis.printing import Columns, Printed, columns_of
from faultline.experiments.config.distribution import with_extra
from faultline.experiments.config.errors import UserError
from faultline.experiments.figures.palette import LineLook, looks_of_schemes
from faultline.experiments.figures.style import legend_below, mark, write_notes, write_title
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.base import Results, Row, Study, row_of, rows_by
from faultline.experiments.studies.mecefo.runs import MODELS, SCENARIOS, scenario_of
from faultline.experiments.studies.mecefo.runs import Cell as LoopCell
from faultline.experiments.studies.mecefo_convergence import cells as trainings
from faultline.experiments.studies.mecefo_convergence.cells import (
    LOSSES,
    NO_FAULTS,
    PUBLISHED_STEPS,
    RATES,
    STEADY,
    Cell,
    ErrorCell,
    NormCell,
    Where,
    plans,
)
from faultline.experiments.studies.stage import Stage
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

_DROPPED_AT = "low"
_RANKS = (1, 2, 4, 8, 16)
_ERRORS_BELOW = {"one_rank": 0.6, "all_ranks": 0.30}
"""Published for 1B: relative error of the gradient on one batch, and on full batches."""
_WHERE: tuple[Where, ...] = ("nowhere", "one rank", "every rank")
_ALL = "and under steady take-overs"
_LOSS = "1 - exact steps / steps to a loss, over share"
_PERPLEXITY = "perplexity change"
_NAMES = {
    "final_share": "share approximate or missing",
    "inflation": "steps to a loss over exact ones",
    "change": "change of the held-out loss",
}
_TIMES = {
    "time to as many tokens over ideal": "same_tokens.time_to_train_ratio",
    "time to as low a loss over ideal": "time_to_train_ratio",
}
_TARGET_SHARE = 0.5
"""The loss to be reached is that of the run without faults after this share of its steps."""

# Okabe and Ito (2008), a palette for all kinds of colour vision.
_RATES = {
    ("mecefo", NO_FAULTS): LineLook("no faults", "#000000", ""),
    ("mecefo", "low"): LineLook("low", "#56B4E9", "o"),
    ("mecefo", "mid"): LineLook("mid", "#0072B2", "s"),
    ("mecefo", "high"): LineLook("high", "#E69F00", "v"),
    ("mecefo", "higher"): LineLook("higher", "#D55E00", "D"),
    (STEADY, "1"): LineLook("1 of 4 pipelines, always", "#CC79A7", "P", ":"),
    (STEADY, "2"): LineLook("2 of 4 pipelines, always", "#882255", "X", ":"),
}
_NORMS = {
    "nowhere": LineLook("exact", "#000000", "o"),
    "one rank": LineLook("one rank approximate", "#0072B2", "s"),
    "every rank": LineLook("every rank approximate", "#D55E00", "D"),
}


def _tells(row: Row) -> str:
    """Say whether the interval leaves out that nothing changes; empty where that means nothing."""
    nothing = {_NAMES["inflation"]: 1.0, _NAMES["change"]: 0.0, _LOSS: 0.0, _PERPLEXITY: 0.0}
    if row.quantity not in nothing:
        return ""
    return "no" if row.low <= nothing[row.quantity] <= row.high else "yes"


def cells_of(seed: int, stage: Stage) -> Iterator[Cell]:
    """Yield what is trained with a seed: all rates, steady take-overs, and smaller batches."""
    steps = stage.pick(400, 300)
    rates = stage.pick((NO_FAULTS, "mid", "higher"), RATES)
    for rate in rates:
        yield Cell("mecefo", rate, seed, steps, stage.full)
    for pipelines in stage.pick(("2",), ("1", "2")):
        yield Cell(STEADY, pipelines, seed, steps, stage.full)
    for loss in stage.pick(("idle", "ntp"), tuple(LOSSES)[1:]):
        yield Cell(loss, _DROPPED_AT, seed, steps, stage.full)


def approximate(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs that have approximate gradients, and not smaller batches."""
    return runs[runs.loss.isin(("mecefo", STEADY))]


def predictions(runs: pd.DataFrame) -> pd.DataFrame:
    """Return what the published models' perplexity would change by, were they the small one.

    In proportion to the share of their gradients that the loop has approximate in as many hours as
    their runs had; the change per share is that of the small model, seed by seed.
    """
    slopes = factor_by_seed(approximate(runs), "change", "final_share")
    rows = []
    for model in MODELS:
        for rate in list(SCENARIOS) if model == "1B" else list(SCENARIOS)[:-1]:
            for seed, slope in zip(runs.seed.unique(), slopes, strict=True):
                of_steps, failures = plans("mecefo", rate, 300, int(seed), model)
                share = fmean(plan.approximate_share for plan in of_steps)
                change = 100 * float(np.expm1(slope * share))
                rows.append((model, rate, seed, failures, share, change))
    columns = ["model", "rate", "seed", "failures", "share", "perplexity_change"]
    return pd.DataFrame(rows, columns=columns)


def curve_table(cells: Sequence[Cell], results: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Return all curves, a row an evaluation."""
    curves = [
        pd.DataFrame(result).assign(loss=cell.loss, rate=cell.rate, seed=cell.seed)
        for cell, result in zip(cells, results, strict=True)
    ]
    return pd.concat(curves, ignore_index=True)


def run_table(curves: pd.DataFrame) -> pd.DataFrame:
    """Return what each run comes to beside the one without faults of the same seed.

    A row a run: ``share``, the share of its gradients that was approximate or missing until it
    reached the loss, ``inflation``, the steps that took over those without faults (missing where it
    did not), ``taken``, 1 - 1 / inflation, ``final_share`` and ``change``: the share and the
    difference of the held-out loss at the end, in nats a byte.
    """
    rows = []
    for _, of_seed in curves.groupby("seed", sort=False):
        exact = of_seed[of_seed.rate == NO_FAULTS]
        last = float(exact.steps.iloc[-1])
        target = float(np.interp(_TARGET_SHARE * last, exact.steps, exact.held_out.cummin()))
        for (loss, rate, seed), mine in of_seed.groupby(["loss", "rate", "seed"], sort=False):
            needed = steps_to(target, mine.steps, mine.held_out)
            shares = mine.approximate + mine.missing
            found = {
                "failures": mine.failures.iloc[0],
                "share": float(np.interp(needed, mine.steps, shares)),
                "inflation": needed / (_TARGET_SHARE * last),
                "final_share": shares.iloc[-1],
                "change": mine.held_out.iloc[-1] - exact.held_out.iloc[-1],
            }
            rows.append({"loss": loss, "rate": rate, "seed": seed, **found})
    table = pd.DataFrame(rows)
    table.insert(6, "taken", 1.0 - 1.0 / table.inflation)
    return table


def steps_to(target: float, steps: Iterable[float], held_out: Iterable[float]) -> float:
    """Return the steps after which a loss is reached, linear between evaluations; NaN if never."""
    best = np.minimum.accumulate(np.fromiter(held_out, float))
    if best[-1] > target:
        return float("nan")
    # Ascending, as interpolation wants it.
    return float(np.interp(-target, -best, np.fromiter(steps, float)))


def factor_by_seed(runs: pd.DataFrame, value: str, share: str) -> list[float]:
    """Return for each seed the factor of a value in proportion to a share, by least squares."""
    known = runs[runs[share].gt(0) & runs[value].notna()]
    return [
        float((mine[value] * mine[share]).sum() / (mine[share] ** 2).sum())
        for _, mine in known.groupby("seed", sort=False)
    ]


def draw_convergence(curves: pd.DataFrame, runs: pd.DataFrame) -> Figure:
    """Draw losses, their differences, and the steps to a loss by share."""
    figure, axes = plt.subplots(1, 3, figsize=(15.0, 4.6))
    _draw_losses(axes[0], curves)
    _draw_differences(axes[1], curves)
    _draw_inflation(axes[2], runs)
    write_title(figure, f"A small language model under take-overs, {curves.seed.nunique()} seeds")
    return figure


def _draw_losses(axis: Axes, curves: pd.DataFrame) -> None:
    for (loss, rate), look in _RATES.items():
        mine = curves[(curves.loss == loss) & (curves.rate == rate) & (curves.steps > 0)]
        if not mine.empty:
            mean = mine.groupby("samples", as_index=False).held_out.mean()
            axis.plot(mean.samples, mean.held_out, markersize=4, **look.line)
    axis.set_xlabel("sequences trained")
    axis.set_ylabel("held-out loss (nats a byte)")
    axis.set_title("Held-out loss, mean over seeds")
    axis.legend(title="failures")


def _draw_differences(axis: Axes, curves: pd.DataFrame) -> None:
    exact = curves[curves.rate == NO_FAULTS].set_index(["seed", "steps"]).held_out
    axis.axhline(0.0, color="black", lw=1.0)
    # Intervals at the end, beside each other: bands would hide the lines.
    last = curves.samples[curves.rate == NO_FAULTS].max()
    place = 1.0
    for (loss, rate), look in _RATES.items():
        mine = curves[(curves.loss == loss) & (curves.rate == rate)]
        if mine.empty or rate == NO_FAULTS:
            continue
        beside = exact.loc[pd.MultiIndex.from_frame(mine[["seed", "steps"]])].to_numpy()
        table = mean_over_seeds(mine.assign(change=mine.held_out - beside), ["samples"], "change")
        axis.plot(table.samples, table["mean"], markersize=4, **look.line)
        place += 0.025
        end = table.iloc[-1]
        axis.vlines(place * last, end.low, end.high, color=look.colour, lw=2.0)
        axis.plot(place * last, end["mean"], color=look.colour, marker=look.marker, markersize=4)
    axis.set_xlabel("sequences trained")
    axis.set_ylabel("held-out loss against no faults (nats)")
    axis.set_title("Difference by seed, mean; 95 % intervals at the end")


def _draw_inflation(axis: Axes, runs: pd.DataFrame) -> None:
    looks = {
        **looks_of_schemes(name for name in LOSSES if name != "idle"),
        STEADY: LineLook("MeCeFO, always", "#882255", "X"),
        "idle": LineLook("idle pipelines", "#555555", "^"),
    }
    faulty = runs[(runs.rate != NO_FAULTS) & runs.inflation.notna()]
    widest = max(0.3, float(faulty.share.max())) * 1.1
    shares = np.linspace(0.0, min(widest, 0.7), 50)
    axis.plot(shares, 1 / (1 - shares), color="#999999", ls="--", label="worth nothing")
    axis.axhline(1.0, color="#999999", lw=1.0, label="worth as much as exact")
    for name in (*LOSSES, STEADY):
        mine = faulty[faulty.loss == name]
        if not mine.empty:
            look = looks[name]
            axis.plot(
                mine.share, mine.inflation, color=look.colour, marker=look.marker, ls="none",
                markersize=5, label=look.label,
            )  # fmt: skip
    axis.set_xlabel("share of gradients approximate, or of the batch missing")
    axis.set_ylabel("steps to a loss over those without faults")
    axis.set_title("Inflation by share, a mark a run")
    axis.legend()


def draw_norms(norms: pd.DataFrame) -> Figure:
    """Draw the mean squared norm of the exact gradient by nT: marks are seeds, bars means."""
    figure, axis = plt.subplots(figsize=(8.0, 4.6))
    counts = sorted(norms.n_t.unique())
    for number, (where, look) in enumerate(_NORMS.items()):
        mine = norms[norms["where"] == where]
        # Side by side, so that none hides another.
        places = {n_t: place + 0.22 * (number - 1) for place, n_t in enumerate(counts)}
        axis.plot(
            mine.n_t.map(places), mine.square, look.marker, color=look.colour, markersize=5,
            markerfacecolor="white",
        )  # fmt: skip
        means = mine.groupby("n_t").square.mean()
        x = np.array([places[n_t] for n_t in means.index])
        axis.hlines(means, x - 0.09, x + 0.09, color=look.colour, linewidth=3)
    first = norms[(norms["where"] == "nowhere") & (norms.n_t == counts[0])].square.mean()
    theory = first * np.sqrt(counts[0] / np.array(counts))
    axis.plot(range(len(counts)), theory, color="#999999", ls="--")
    axis.set_xticks(range(len(counts)), [f"{count:,}" for count in counts])
    axis.set_ylim(0, None)
    axis.set_xlabel("ranks × steps, nT")
    axis.set_ylabel("mean squared norm of the exact gradient")
    seeds = {"linestyle": "none", "markerfacecolor": "white"}
    entries = [
        *(mark(look.label, look.colour, marker=look.marker, **seeds) for look in _NORMS.values()),
        mark("mean over seeds", linewidth=3),
        mark("1/√(nT)", "#999999", linestyle="--"),
    ]
    legend_below(figure, entries, 5)
    write_title(figure, "Approximate gradients leave the gradient norm within the seeds' spread")
    write_notes(figure, ["Plain gradient descent, learning rate ∝ √(n/T). A mark is one seed."])
    return figure


class MecefoConvergenceStudy(Study):
    """Curves, steps to a loss, gradient norms, and the time to a loss that follows."""

    default_seeds = 5
    charts: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "convergence.png": (draw_convergence, "curves", "runs"),
        "gradient-norms.png": (draw_norms, "norms"),
    }

    def __init__(self) -> None:
        if find_spec("jax") is None:
            raise UserError(
                "reproduce mecefo-convergence: JAX is not installed, which trains the model; "
                f"install it: {with_extra('numerics')}"
            )

    def play(self, stage: Stage) -> Results:
        """Train all cells, then play 7B with what approximation was found to take."""
        cells = [cell for seed in range(stage.seeds) for cell in cells_of(seed, stage)]
        curves = curve_table(cells, stage.calls("training", trainings.trained, cells, "courses"))
        runs = run_table(curves)
        steps, ranks = stage.pick((80, _RANKS[::2]), (1000, _RANKS))
        norm_cells = [
            NormCell(n, steps, where, seed)
            for seed in range(min(stage.seeds, stage.pick(2, 3)))
            for where in _WHERE
            for n in ranks
        ]
        squares = stage.calls("norms", trainings.mean_square_norm, norm_cells, "norms")
        error_cells = [
            ErrorCell(seed, *stage.pick((60, False), (100, True)))
            for seed in range(min(stage.seeds, 2))
        ]
        errors = stage.calls("errors", trainings.gradient_errors, error_cells, "errors")
        losses = factor_by_seed(approximate(runs), "taken", "share")
        return {
            "curves": curves,
            "runs": runs,
            "norms": pd.DataFrame(
                [
                    (cell.where, cell.ranks, cell.ranks * cell.steps, cell.seed, square)
                    for cell, square in zip(norm_cells, squares, strict=True)
                ],
                columns=["where", "ranks", "n_t", "seed", "square"],
            ),
            "errors": pd.DataFrame(
                {**row, "seed": cell.seed}
                for cell, rows in zip(error_cells, errors, strict=True)
                for row in rows
            ),
            "times": self._times(stage, float(np.clip(fmean(losses), 0.0, 0.999))),
            "predictions": predictions(runs),
        }

    def _times(self, stage: Stage, loss: float) -> pd.DataFrame:
        """Play 7B under take-overs until as many exact steps' loss is reached."""
        changes = {
            "job.steps": PUBLISHED_STEPS["7B"],
            "job.time_limit_s": None,
            "strategy.approximation_loss": loss,
        }
        points = [
            Point(
                scenario_of(LoopCell("mecefo", "7B", rate)).with_(changes),
                seed,
                labels=(("rate", rate), ("approximation_loss", loss)),
            )
            for rate in SCENARIOS
            for seed in range(stage.seeds)
        ]
        return stage.runs("time to a loss", points)

    def rows(self, results: Results) -> Iterator[Row]:
        """Return what each cell comes to; published perplexities under faults are not known."""
        runs, errors = results["runs"], results["errors"]
        faulty = runs[runs.rate != NO_FAULTS]
        # How much longer it took, of the runs that reached the loss.
        for table, measured in (
            (faulty, {"final_share": "1", "change": "nats a byte"}),
            (faulty.dropna(subset="inflation"), {"inflation": "1"}),
        ):
            yield from rows_by(table, ["loss", "rate"], measured, "{rate}", "{loss}", names=_NAMES)
        for loss in LOSSES:
            if factors := factor_by_seed(runs[runs.loss == loss], "taken", "share"):
                yield row_of(_LOSS, loss, "under the loop's plans", None, factors, "1")
        factors = factor_by_seed(approximate(runs), "taken", "share")
        yield row_of(_LOSS, "mecefo", _ALL, None, factors, "1")
        for (model, rate), mine in results["predictions"].groupby(["model", "rate"], sort=False):
            values = list(mine.perplexity_change)
            yield row_of(_PERPLEXITY, "mecefo", f"{model} {rate}", None, values, "%")
        for where, mine in results["norms"].groupby("where", sort=False):
            by_seed = [one for _, one in mine.groupby("seed", sort=False)]
            for name, of in (("slope", trainings.slope_of), ("floor", trainings.floor_of)):
                values = [of(one.n_t, one.square) for one in by_seed]
                setting = f"gradient norm, approximate {where}"
                yield row_of(f"{name} against nT", "mecefo", setting, None, values, "1")
        fresh = errors[(errors.age_steps == 0) & (errors.rank_share == 0.25)]
        for name, below in _ERRORS_BELOW.items():
            setting = f"{name.replace('_', ' ')} (published: below, 1B)"
            yield row_of("gradient error", "mecefo", setting, below, list(fresh[name]), "1")
        for rate, mine in results["times"].groupby("rate", sort=False):
            for name, column in _TIMES.items():
                values = list(mine[column]) if column in mine else list(mine.time_to_train_ratio)
                yield row_of(name, "mecefo", f"7B {rate}", None, values, "1")

    def shown(self, results: Results, rows: Sequence[Row]) -> Iterator[Printed]:
        """Return what each cell comes to, what is predicted, and the times."""
        frame = pd.DataFrame([row.as_dict() for row in rows])
        frame["tells"] = [_tells(row) for row in rows]
        columns: Columns = {
            "quantity": "",
            "scheme": "scheme",
            "setting": "setting",
            "published": ("published", "{:.2f}"),
            "simulated": ("simulated", "{:+.3f}"),
            "low": ("low", "{:+.3f}"),
            "high": ("high", "{:+.3f}"),
            "unit": "unit",
            "tells": "sign is sure",
        }
        yield columns_of("What approximate gradients cost", frame, columns)
        yield Printed("Relative error of a gradient", results["errors"].round(3))

    def headline(self, results: Results, rows: Sequence[Row]) -> Sequence[str]:
        """Say what an approximate gradient of a stage is worth."""
        (loss,) = (row for row in rows if (row.quantity, row.setting) == (_LOSS, _ALL))
        seeds = results["runs"].seed.nunique()
        return [
            f"An approximate gradient of a stage trains {loss.simulated:.2f} less than an exact one"
            f" ({loss.low:+.2f} to {loss.high:+.2f}, {seeds} seeds): "
            f"strategy.approximation_loss = {max(loss.simulated, 0.0):.2f}."
        ]
