"""MeCeFO's convergence: the progress of approximate gradients compared with that of exact ones.

A small language model is trained on real text with the approximate backward pass, under the loop's
plans for the published failure scenarios. ``strategy.approximation_loss`` charges the share by
which an approximate gradient trains less. Published perplexities under faults were unavailable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from faultline.experiments.config.distribution import with_extra
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.figures.palette import LineLook, looks_of_schemes
from faultline.experiments.figures.style import write_notes, write_title
from faultline.experiments.job.resolving import resolve
from faultline.experiments.studies.base import Results, Study
from faultline.experiments.studies.data import settings_of
from faultline.experiments.studies.mecefo.runs import GROUPS, MODELS, SCENARIOS, STAGES
from faultline.experiments.studies.stage import Stage
from faultline.simulator.accounting.timeline import Event, EventKind
from faultline.simulator.loop.run import simulate
from faultline.simulator.loop.training import Training
from faultline.simulator.replay.engine import ReplayEngine
from faultline.strategies.interface.scheme import StepPlan, Task
from faultline.strategies.interface.stage_work import LowRank
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

_HOURS_S = 20_000 * MODELS["1B"].step_s("mecefo")
"""The published run of 1B has 20,000 steps (MeCeFO, arXiv 2510.16415)."""
_REFRESH_SHARE = 100 / 6_000
"""Share of a run between refreshes of projections: every 100 of the 6,000 steps of 350M, the
longest published interval."""

NO_FAULTS = "none"
RATES = (NO_FAULTS, *SCENARIOS)
"""Fault rates: none, and those of the published scenarios by name."""

STEADY = "steady"
"""No failures: some of the four pipelines always work with half of their nodes.

The same few GPUs then take over for each other all the time, so a larger share is approximate than
with failures.
"""

LOSSES = ("mecefo", "idle", "replica-drop", "dp-drop", "ntp")
"""Treatments of a failed GPU, parts of ``data/settings.csv``: approximate gradients, or four ways
to train a smaller batch."""


@dataclass(frozen=True, slots=True)
class TrainingCell:
    """A training."""

    loss: str  # One of `LOSSES`, or "steady".
    rate: str  # One of `RATES`; for "steady" the number of pipelines with half of their nodes.
    seed: int  # Seed of the failures, the first weights and the order of the text.
    steps: int
    small: bool  # Whether the model is the small one or the tiny one.


def plans_of(cell: TrainingCell) -> tuple[list[StepPlan], int]:
    """Return the plan of each step of a run, and the number of lost GPUs.

    The loop simulates the published cluster for as many hours as the published run of 1B. A run of
    fewer steps has longer steps, so it has the same failures and the same share of take-overs. If a
    restart undoes a step, the plan of its last execution counts. The failures depend only on the
    seed: they are equal for all of `LOSSES`.
    """
    if cell.loss == STEADY:
        taken = product(range(int(cell.rate)), range(STAGES))
        tasks = tuple(Task(group, stage, stage // 2 * 2) for group, stage in taken)
        plan = StepPlan(tuple(range(GROUPS)), 1, approximate=tasks, stages=STAGES)
        return [plan] * cell.steps, 0
    failures = SCENARIOS.get(cell.rate)
    changes: dict[str, Any] = {
        "job.groups": GROUPS,
        "job.gpus": GROUPS * STAGES,
        "job.steps": cell.steps,
        "times.compute_s": _HOURS_S / cell.steps,
        "failures.mtbf_s": failures.mtbf_s if failures else 1e6 * _HOURS_S,
        "rejoin.repair_s": failures.repair_s if failures else 0.0,
        **settings_of("mecefo_convergence", "all"),
        **settings_of("mecefo_convergence", cell.loss),
    }
    resolved = resolve(load_scenario("mecefo-7b", changes))
    job = resolved.job(cell.seed)
    plans: dict[int, StepPlan] = {}
    lost: list[int] = []

    def record(event: Event) -> None:
        if event.kind is EventKind.STEP:
            plans[event.step] = training.strategy.plan()
        elif event.kind is EventKind.MISSING and event.step < cell.steps:
            lost.extend(event.groups)

    training = Training(job, resolved.strategy(), record)
    simulate(training, ReplayEngine(job))
    return [plans[step] for step in range(1, cell.steps + 1)], len(lost)


def trained(cell: TrainingCell) -> list[dict[str, float]]:
    """Train a cell; returns the rows of `training.train`, each with the number of failures."""
    from faultline.experiments.studies.mecefo_convergence.language_model import SMALL, TINY
    from faultline.experiments.studies.mecefo_convergence.training import Settings, train

    shape = SMALL if cell.small else TINY
    refresh = max(1, round(_REFRESH_SHARE * cell.steps))
    settings = Settings(shape, GROUPS, 2, cell.steps, LowRank(shape.hidden // 4, refresh))
    plans, failures = plans_of(cell)
    _, rows = train(settings, plans, cell.seed)
    return [{"failures": failures, **row} for row in rows]


_DROPPED_AT = "low"
_ALL = "and under steady take-overs"
_TARGET_SHARE = 0.5
"""The target is the loss of the run without faults after this share of its steps."""


def cells_of(seed: int, stage: Stage) -> Iterator[TrainingCell]:
    """Yield the cells of a seed: all rates, steady take-overs, and smaller batches."""
    steps = stage.pick(400, 300)
    rates = stage.pick((NO_FAULTS, "mid", "higher"), RATES)
    for rate in rates:
        yield TrainingCell("mecefo", rate, seed, steps, stage.full)
    for pipelines in stage.pick(("2",), ("1", "2")):
        yield TrainingCell(STEADY, pipelines, seed, steps, stage.full)
    for loss in stage.pick(("idle", "ntp"), LOSSES[1:]):
        yield TrainingCell(loss, _DROPPED_AT, seed, steps, stage.full)


def run_table(curves: pd.DataFrame) -> pd.DataFrame:
    """Compare each run with the one without faults of the same seed.

    A row per run: ``share``, the share of its gradients that was approximate or missing until it
    reached the loss; ``inflation``, its steps to the loss over those without faults (missing if not
    reached); ``taken``, 1 - 1 / inflation; ``final_share`` and ``change``: the share and the
    difference of the held-out loss at the end, in nats per byte.
    """
    rows = []
    for _, of_seed in curves.groupby("seed", sort=False):
        exact = of_seed[of_seed.rate == NO_FAULTS]
        last = float(exact.steps.iloc[-1])
        target = float(np.interp(_TARGET_SHARE * last, exact.steps, exact.held_out.cummin()))
        for (loss, rate, seed), run in of_seed.groupby(["loss", "rate", "seed"], sort=False):
            needed = steps_to(target, run.steps, run.held_out)
            shares = run.approximate + run.missing
            compared = {
                "failures": run.failures.iloc[0],
                "share": float(np.interp(needed, run.steps, shares)),
                "inflation": needed / (_TARGET_SHARE * last),
                "final_share": shares.iloc[-1],
                "change": run.held_out.iloc[-1] - exact.held_out.iloc[-1],
            }
            rows.append({"loss": loss, "rate": rate, "seed": seed, **compared})
    table = pd.DataFrame(rows)
    table.insert(6, "taken", 1.0 - 1.0 / table.inflation)
    return table


def steps_to(target: float, steps: Iterable[float], held_out: Iterable[float]) -> float:
    """Return the steps after which a loss is reached, linear between evaluations; NaN if never."""
    best = np.minimum.accumulate(np.fromiter(held_out, float))
    if best[-1] > target:
        return float("nan")
    # Ascending, as interpolation requires.
    return float(np.interp(-target, -best, np.fromiter(steps, float)))


def loss_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the slope of ``taken`` over ``share`` by least squares.

    A row per seed, for each loss under the loop's plans, and for MeCeFO with steady take-overs.
    """
    reached = runs[runs.share.gt(0) & runs.taken.notna()]
    cases = [(loss, "under the loop's plans", (loss,)) for loss in LOSSES]
    return pd.DataFrame(
        {
            "scheme": scheme,
            "setting": setting,
            "value": float((of_seed.taken * of_seed.share).sum() / (of_seed.share**2).sum()),
        }
        for scheme, setting, losses in (*cases, ("mecefo", _ALL, ("mecefo", STEADY)))
        for _, of_seed in reached[reached.loss.isin(losses)].groupby("seed", sort=False)
    )


def draw_convergence(runs: pd.DataFrame) -> Figure:
    """Draw the steps to a loss by the share of gradients that was approximate or missing."""
    looks = {
        **looks_of_schemes(name for name in LOSSES if name != "idle"),
        STEADY: LineLook("MeCeFO, always", "#8A6A3B", "X"),
        "idle": LineLook("idle pipelines", "#555555", "^"),
    }
    figure, axis = plt.subplots(figsize=(7.6, 4.8))
    faulty = runs[(runs.rate != NO_FAULTS) & runs.inflation.notna()]
    widest = max(0.3, float(faulty.share.max())) * 1.1
    shares = np.linspace(0.0, min(widest, 0.7), 50)
    for trained, dashes, label in (
        (0.0, "--", "such gradients train nothing"),
        (0.5, "-.", "half of an exact one"),
        (1.0, "-", "as much as exact ones"),
    ):
        taken = (1.0 - trained) * shares
        axis.plot(shares, 1 / (1 - taken), color="#999999", linestyle=dashes, label=label)
    for name in (*LOSSES, STEADY):
        runs_of_loss, look = faulty[faulty.loss == name], looks[name].line | {"linestyle": "none"}
        if not runs_of_loss.empty:
            axis.plot(runs_of_loss.share, runs_of_loss.inflation, markersize=6, **look)
    axis.xaxis.set_major_formatter(PercentFormatter(1.0))
    axis.set(
        xlabel="share of gradients that is approximate, or of the batch that is missing",
        ylabel="steps to a loss over those without faults",
    )
    axis.legend()
    write_title(figure, "An approximate gradient trains about half as much as an exact one")
    write_notes(figure, [f"A mark per run of a small language model; {runs.seed.nunique()} seeds."])
    return figure


class MecefoConvergenceStudy(Study):
    """Curves, steps to a loss, and the lost progress per approximate gradient."""

    default_seeds = 5
    charts: ClassVar = {"convergence.png": (draw_convergence, "runs")}
    headline_title = "Training lost by an approximate gradient: strategy.approximation_loss"
    headline_rows: ClassVar = {
        "share of an exact one": ("1 - exact steps*", "mecefo", _ALL),
    }

    def __init__(self) -> None:
        if find_spec("jax") is None:
            raise UserError(
                "reproduce mecefo-convergence: JAX is not installed, which trains the model; "
                f"install it: {with_extra('numerics')}"
            )

    def simulate(self, stage: Stage) -> Results:
        """Train all cells."""
        cells = [cell for seed in range(stage.seeds) for cell in cells_of(seed, stage)]
        courses = stage.calls("training", trained, cells, "courses")
        curves = pd.concat(
            [
                pd.DataFrame(course).assign(loss=cell.loss, rate=cell.rate, seed=cell.seed)
                for cell, course in zip(cells, courses, strict=True)
            ],
            ignore_index=True,
        )
        return {"curves": curves, "runs": run_table(curves)}

    def row_tables(self, results: Results) -> Results:
        """Return all runs with faults, those that reached the loss, and their lost progress."""
        runs = results["runs"]
        faulty = runs[runs.rate != NO_FAULTS]
        reached = faulty.dropna(subset="inflation")
        return {"faulty": faulty, "reached": reached, "losses": loss_table(runs)}
