"""ReCycle (Gandhi et al. 2024, SOSP, arXiv 2405.14009) beside Oobleck and Bamboo.

Step times by number of nodes that are down, from schedules alone; and runs of MeCeFO's 7B job whose
nodes fail and come back, where recoveries count too. What is published is at most 1.46 times
Oobleck's throughput and 1.64 times Bamboo's; of which models, pipelines and failures is not known
here, so settings are our own, and the greatest ratio among them is what can be set beside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import ceil
from typing import ClassVar

import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.figures.palette import look_of, title_of
from faultline.experiments.figures.style import legend_below
from faultline.experiments.report.tables import Table, wide_table
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.base import Results, Row, Study, row_of
from faultline.experiments.studies.stage import Stage
from faultline.strategies.base import Hit
from faultline.strategies.job_shape import JobShape
from faultline.strategies.registry import build_strategy, strategy_class
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

SETTINGS = {
    "4 pipelines of 8, 8 micro-batches": (4, 8, 8),
    "8 pipelines of 4, 16 micro-batches": (8, 4, 16),
    "8 pipelines of 8, 32 micro-batches": (8, 8, 32),
    "16 pipelines of 16, 64 micro-batches": (16, 16, 64),
}
"""Pipelines D, stages p, micro-batches m of a pipeline: ours; the first is MeCeFO's."""

LAYERS, LEAST_STAGES_SHARE = 32, 0.5
DOWN = (0.03125, 0.0625, 0.09375)
"""Shares of the nodes that are down."""

PUBLISHED = {"oobleck": 1.46, "bamboo": 1.64}
"""ReCycle's throughput over another's, at most."""

PAPER: dict[str, object] = {"schedule": "split-and-staggered"}
"""The paper's own comparison: a sound step does without what re-routed micro-batches may use."""
VARIANTS: dict[str, dict[str, object]] = {
    "ReCycle": PAPER,
    "no stagger": {"schedule": "split"},
    "re-routing": {},
    "no swaps": {**PAPER, "role_swaps": False},
}
SYSTEMS = ("recycle", "oobleck", "bamboo")
MTBF_S = {"2 h": 7200.0, "1 h": 3600.0, "30 min": 1800.0, "10 min": 600.0}
_REPAIR_S = 7200.0
_HOURS = 20.0


def bamboo_price(stages: int, micro_batches: int) -> float:
    """Return what Bamboo's second forward passes take of a step, beyond its bubbles.

    A third of the work of m micro-batches; of ``m + p - 1`` slots p - 1 are free.
    """
    over = max(0.0, micro_batches / 3 - (stages - 1))
    return over / (micro_batches + stages - 1)


def pace_of(
    scheme: str, setting: tuple[int, int, int], down: int, **choices: object
) -> float | None:
    """Return the time of a step with so many nodes down over that with none; None if none is done.

    They fail one after the other, round robin over the pipelines, at stages three apart.
    """
    pipelines, stages, micro_batches = setting
    shape = JobShape(
        stages=stages,
        micro_batches=micro_batches,
        layers=LAYERS,
        least_stages=ceil(LEAST_STAGES_SHARE * stages),
    )
    options = strategy_class(scheme).Options.model_validate(choices).for_job(shape)
    strategy = build_strategy(scheme, pipelines, 1, options)
    for number in range(down):
        group, node = number % pipelines, (number // pipelines + 3 * number) % stages
        strategy.on_hit(Hit(group, node, node, stages))
        strategy.on_failures([group])
    plan = strategy.plan()
    return plan.pace if plan.members else None


def step_table() -> pd.DataFrame:
    """Return the time of a step, over a sound one, by setting, nodes down and way to go on."""
    ways = [(label, "recycle", options) for label, options in VARIANTS.items()]
    ways += [(title_of(name), name, {}) for name in ("oobleck", "bamboo")]
    rows = []
    for (name, setting), share in product(SETTINGS.items(), DOWN):
        pipelines, stages, micro_batches = setting
        down = round(share * pipelines * stages)
        lost = ceil(down / stages)
        bound = max(
            1.0,
            micro_batches * pipelines / (pipelines - lost) / (micro_batches + stages - 1),
        )
        rows.append((name, down, "bound", "bound", bound))
        for label, scheme, options in ways:
            price = bamboo_price(stages, micro_batches) if scheme == "bamboo" else 0.0
            pace = pace_of(scheme, setting, down, **options)
            rows.append((name, down, scheme, label, (pace or float("nan")) * (1.0 + price)))
    return pd.DataFrame(rows, columns=["setting", "down", "scheme", "way", "step"])


def run_points(hours: float, seeds: int) -> Iterator[Point]:
    """Yield each system on MeCeFO's 7B job, whose sound step takes all of them as long."""
    for (name, mtbf_s), system in product(MTBF_S.items(), SYSTEMS):
        sound = load_scenario("mecefo-7b")
        price = bamboo_price(8, 8) if system == "bamboo" else 0.0
        changes = {
            "strategy.name": system,
            "job.steps": 1_000_000_000,
            "job.time_limit_s": hours * 3600.0,
            "times.compute_s": sound.compute_s * (1.0 + price),
            "failures.mtbf_s": mtbf_s,
            "rejoin.repair_s": _REPAIR_S,
        }
        if system == "recycle":
            changes |= {f"strategy.recycle.{name}": choice for name, choice in PAPER.items()}
        scenario = load_scenario("mecefo-7b", changes)
        for seed in range(seeds):
            yield Point(scenario, seed, labels=(("system", system), ("every", name)))


def ratios_of(runs: pd.DataFrame) -> pd.DataFrame:
    """Return ReCycle's steps over the others', seed by seed."""
    index = ["every", "seed"]
    done = runs.pivot_table("completed_steps", index, "system", sort=False)
    found = [
        pd.DataFrame({"other": other, "ratio": done.recycle / done[other]}).reset_index()
        for other in PUBLISHED
    ]
    return pd.concat(found, ignore_index=True)


def draw_steps(steps: pd.DataFrame) -> Figure:
    """Draw the time of a step over the nodes that are down, a panel a setting."""
    figure, axes = plt.subplots(1, len(SETTINGS), figsize=(13.0, 3.6), sharey=True)
    dashes = ("-", "--", ":", "-.")
    for axis, (setting, mine) in zip(axes, steps.groupby("setting", sort=False), strict=True):
        for way, line in mine.groupby("way", sort=False):
            scheme = line.scheme.iloc[0]
            if scheme == "bound":
                axis.plot(line.down, line.step, color="#999999", lw=5, alpha=0.4, label="bound")
                continue
            look = look_of(str(scheme))
            style = dashes[list(VARIANTS).index(str(way))] if way in VARIANTS else "-"
            axis.plot(
                line.down, line.step, color=look.colour, ls=style, marker=look.marker, ms=4,
                label=str(way),
            )  # fmt: skip
        axis.set_title(str(setting).replace(", ", ",\n"), fontsize=9)
        axis.set_xlabel("nodes down")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[0].set_ylabel("time of a step over a sound one")
    legend_below(figure, axes[0])
    return figure


class RecycleStudy(Study):
    """Step times by nodes down, and runs with recoveries."""

    charts: ClassVar = {"steps.png": (draw_steps, "steps")}

    def simulate(self, stage: Stage) -> Results:
        """Schedule steps, and run the runs."""
        runs = stage.runs("runs", run_points(stage.pick(_HOURS, 5 * _HOURS), stage.seeds))
        return {"steps": step_table(), "runs": runs, "ratios": ratios_of(runs)}

    def rows(self, results: Results) -> Iterator[Row]:
        """Return step times, throughputs over others', and the greatest of these."""
        steps, ratios = results["steps"], results["ratios"]
        for one in steps.itertuples():
            where = f"{one.setting}, {one.down} down, {one.way}"
            yield row_of("step over a sound one", one.scheme, where, None, [one.step], "1")
        for (other, every), mine in ratios.groupby(["other", "every"], sort=False):
            where = f"7B on 32 GPUs, a failure every {every}, over {other}"
            values = list(mine["ratio"])
            yield row_of("throughput over another's", "recycle", where, None, values, "1")
        for other, published in PUBLISHED.items():
            most = greatest(steps, other)
            where = f"most of all settings, over {title_of(other)}"
            yield row_of("throughput over another's", "recycle", where, published, [most], "1")
        for share in DOWN:
            # Slowdowns by failures are published, and were not found: predicted.
            where = f"{100 * share:.3g} % of nodes down, worst of all settings"
            mine = steps[(steps.way == "ReCycle") & steps.down.isin(_numbers(share))]
            yield row_of("slowdown", "recycle", where, None, [mine.step.max() - 1.0], "1")

    def shown(self, results: Results, rows: Sequence[Row]) -> Iterator[Table]:
        """Return step times by setting, and throughputs over others'."""
        steps, ratios = results["steps"], results["ratios"]
        short = {name: "D{} p{} m{}".format(*numbers) for name, numbers in SETTINGS.items()}
        cells = steps.assign(setting=steps.setting.map(short))
        heads = {"setting": "setting", "down": "down"}
        title = "Time of a step over that of a sound one, by nodes down"
        yield wide_table(title, cells, heads, "way", "step", "{:.3f}")
        yield wide_table(
            "ReCycle's throughput over another's: 7B on 32 GPUs, one fails every",
            ratios.assign(other=ratios.other.map(title_of)),
            {"other": "other"},
            "every",
            "ratio",
            "{:.3f}",
        )

    def headline(self, results: Results, rows: Sequence[Row]) -> Sequence[str]:
        """Set the greatest ratios beside the published ones."""
        found = ", ".join(
            f"{greatest(results['steps'], other):.2f} times {title_of(other)} ({known:g})"
            for other, known in PUBLISHED.items()
        )
        return [
            f"ReCycle trains at most {found} with up to {max(DOWN):.0%} of the nodes down "
            "(published, of a setting that is not known here)."
        ]


def _numbers(share: float) -> set[int]:
    return {round(share * pipelines * stages) for pipelines, stages, _ in SETTINGS.values()}


def greatest(steps: pd.DataFrame, other: str) -> float:
    """Return the most by which ReCycle is faster than another, over settings and nodes down."""
    by = steps.pivot_table(index=["setting", "down"], columns="way", values="step")
    return float((by[title_of(other)] / by["ReCycle"]).max())
