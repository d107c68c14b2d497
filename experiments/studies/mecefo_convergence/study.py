"""MeCeFO's convergence: what approximate gradients, and smaller batches, cost in training.

A small language model is trained on real text with the approximate backward pass, under the plans
that the loop makes for the published failure scenarios. Published perplexities under faults are not
known here: those columns are empty, and what stands beside them is predicted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from statistics import fmean
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from faultline.experiments.analysis.printing import Columns, Printed, columns_of
from faultline.experiments.config.errors import UserError
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.base import Results, Row, Study, row_of, rows_by
from faultline.experiments.studies.mecefo.runs import Cell as LoopCell
from faultline.experiments.studies.mecefo.runs import scenario_of
from faultline.experiments.studies.mecefo.setting import MODELS, SCENARIOS
from faultline.experiments.studies.mecefo_convergence import convergence, figures, measures
from faultline.experiments.studies.mecefo_convergence.cells import STEADY, Cell, trained
from faultline.experiments.studies.mecefo_convergence.convergence import ErrorCell, NormCell
from faultline.experiments.studies.mecefo_convergence.task_maps import (
    LOSSES,
    NO_FAULTS,
    PUBLISHED_STEPS,
    RATES,
    plans,
)
from faultline.experiments.studies.stage import Stage

_DROPPED_AT = "low"
_RANKS = (1, 2, 4, 8, 16)
_ERRORS_BELOW = {"one_rank": 0.6, "all_ranks": 0.30}
"""Published for 1B: relative error of the gradient on one batch, and on full batches."""
_WHERE: tuple[convergence.Where, ...] = ("nowhere", "one rank", "every rank")
_ALL = "and under steady take-overs"
_LOSS = "1 - exact steps / steps to a loss, over share"


class MecefoConvergenceStudy(Study):
    """Curves, steps to a loss, gradient norms, and the time to a loss that follows."""

    default_seeds = 5
    charts: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "convergence.png": (figures.draw_convergence, "curves", "runs"),
        "gradient-norms.png": (figures.draw_norms, "norms"),
    }

    def __init__(self) -> None:
        if find_spec("jax") is None:
            raise UserError(
                "reproduce mecefo-convergence: JAX is not installed, which trains the model; "
                "install it: pip install 'faultline[numerics]'"
            )

    def play(self, stage: Stage) -> Results:
        """Train all cells, then play 7B with what approximation was found to take."""
        cells = [cell for seed in range(stage.seeds) for cell in cells_of(seed, stage)]
        curves = measures.curve_table(cells, stage.calls("training", trained, cells, "courses"))
        runs = measures.run_table(curves)
        steps, ranks = stage.pick((80, _RANKS[::2]), (1000, _RANKS))
        norm_cells = [
            NormCell(n, steps, where, seed)
            for seed in range(min(stage.seeds, stage.pick(2, 3)))
            for where in _WHERE
            for n in ranks
        ]
        norms = stage.calls("norms", convergence.mean_square_norm, norm_cells, "norms")
        error_cells = [
            ErrorCell(seed, *stage.pick((60, False), (100, True)))
            for seed in range(min(stage.seeds, 2))
        ]
        errors = stage.calls("errors", convergence.gradient_errors, error_cells, "errors")
        losses = measures.factor_by_seed(approximate(runs), "taken", "share")
        return {
            "curves": curves,
            "runs": runs,
            "norms": norm_table(norm_cells, norms),
            "errors": pd.concat(
                [
                    pd.DataFrame(rows).assign(seed=cell.seed)
                    for cell, rows in zip(error_cells, errors, strict=True)
                ]
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
        for table, measured in (
            (faulty, {"final_share": "1", "change": "nats a byte"}),
            # Of the runs that reached the loss.
            (faulty.dropna(subset="inflation"), {"inflation": "1"}),
        ):
            yield from rows_by(
                table, ["loss", "rate"], measured, "{rate}", scheme="{loss}", names=_NAMES
            )
        for loss in LOSSES:
            if factors := measures.factor_by_seed(runs[runs.loss == loss], "taken", "share"):
                yield row_of(_LOSS, loss, "under the loop's plans", None, factors, "1")
        factors = measures.factor_by_seed(approximate(runs), "taken", "share")
        yield row_of(_LOSS, "mecefo", _ALL, None, factors, "1")
        for (model, rate), mine in results["predictions"].groupby(["model", "rate"], sort=False):
            values = list(mine.perplexity_change)
            yield row_of(_PERPLEXITY, "mecefo", f"{model} {rate}", None, values, "%")
        norms = results["norms"]
        for where, mine in norms.groupby("where", sort=False):
            by_seed = [one for _, one in mine.groupby("seed", sort=False)]
            for name, of in (("slope", convergence.slope_of), ("floor", convergence.floor_of)):
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


def _tells(row: Row) -> str:
    """Say whether the interval leaves out that nothing changes; empty where that means nothing."""
    nothing = {_NAMES["inflation"]: 1.0, _NAMES["change"]: 0.0, _LOSS: 0.0, _PERPLEXITY: 0.0}
    if row.quantity not in nothing:
        return ""
    return "no" if row.low <= nothing[row.quantity] <= row.high else "yes"


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


def norm_table(cells: Sequence[NormCell], squares: Sequence[float]) -> pd.DataFrame:
    """Return mean squared norms of the gradient, a row a training."""
    return pd.DataFrame(
        {
            "where": cell.where,
            "ranks": cell.ranks,
            "n_t": cell.ranks * cell.steps,
            "seed": cell.seed,
            "square": square,
        }
        for cell, square in zip(cells, squares, strict=True)
    )


def predictions(runs: pd.DataFrame) -> pd.DataFrame:
    """Return what the published models' perplexity would change by, were they the small one.

    In proportion to the share of their gradients that the loop has approximate in as many hours as
    their runs had; the change per share is that of the small model, seed by seed.
    """
    slopes = measures.factor_by_seed(approximate(runs), "change", "final_share")
    rows = []
    for model in MODELS:
        for rate in list(SCENARIOS) if model == "1B" else list(SCENARIOS)[:-1]:
            for seed, slope in zip(runs.seed.unique(), slopes, strict=True):
                of_steps, failures = plans("mecefo", rate, 300, int(seed), model)
                share = fmean(plan.approximate_share for plan in of_steps)
                rows.append(
                    {
                        "model": model,
                        "rate": rate,
                        "seed": seed,
                        "failures": failures,
                        "share": share,
                        "perplexity_change": 100 * float(np.expm1(slope * share)),
                    }
                )
    return pd.DataFrame(rows)
