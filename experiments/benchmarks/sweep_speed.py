"""Sweeps: what a run costs beside its simulation, and large tables."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter

from faultline.experiments.benchmarks.measurement import Answer, Case, Measurement, measured

SECTION = "sweeps"
_OVERHEAD_TARGET_S = 0.15
_TABLE_TARGET_S = 10.0
_SCHEMES = ("replication", "spare")
_REDUNDANCIES = (2, 3, 4, 5, 6)
_STEPS = 1000


def sweep_cases(quick: bool) -> list[Case]:
    """Return a case for the overhead of a run, and one for a large table."""
    runs, rows = (20, 10_000) if quick else (200, 100_000)
    return [
        Case(SECTION, f"{runs} runs in processes of their own", partial(_measure_overhead, runs)),
        Case(SECTION, f"{rows:,} rows", partial(_measure_table, rows)),
    ]


def _measure_overhead(runs: int) -> list[Measurement]:
    answer = measured(time_sweep, runs)
    what = f"{runs} runs in processes of their own"
    overhead_s = answer["overhead_s"]
    return [
        Measurement(SECTION, f"{what}: overhead a run", overhead_s, "s", target=_OVERHEAD_TARGET_S),
        Measurement(SECTION, f"{what}: simulation itself", answer["simulation_s"], "s"),
    ]


def _measure_table(rows: int) -> list[Measurement]:
    answer = measured(time_table, rows)
    target_s = _TABLE_TARGET_S if rows >= 100_000 else None
    what = f"{rows:,} rows: load and draw all usual figures"
    return [Measurement(SECTION, what, answer["seconds"], "s", target=target_s)]


def time_sweep(runs: int) -> Answer:
    """Play a sweep on all cores and its runs again in this process, one after the other.

    The overhead is what the cores spent a run beyond the simulation: planning, processes, files,
    tables.
    """
    from faultline.experiments.config.grid import read_grid
    from faultline.experiments.config.scenario_file import load_scenario
    from faultline.experiments.job.resolved_job import resolve
    from faultline.experiments.runs.local import LocalExecutor
    from faultline.experiments.runs.point import cores
    from faultline.experiments.runs.single_run import run
    from faultline.experiments.runs.sweep_plan import make_plan, play_plan
    from rich.console import Console

    points = len(_SCHEMES) * len(_REDUNDANCIES)
    seeds = -(-runs // points)
    workers = min(cores(), runs)
    with tempfile.TemporaryDirectory() as folder:
        grid = Path(folder) / "grid.toml"
        grid.write_text(_grid(seeds), encoding="utf-8")
        with Path(folder, "log").open("w", encoding="utf-8") as log:
            started = perf_counter()
            play_plan(
                make_plan(read_grid(str(grid))),
                Path(folder) / "sweep",
                lambda: LocalExecutor(workers),
                Console(file=log),
            )
            sweep_s = perf_counter() - started
    started = perf_counter()
    for scheme in _SCHEMES:
        for redundancy in _REDUNDANCIES:
            settings = [f"strategy.name={scheme}", f"strategy.redundancy={redundancy}"]
            question = resolve(load_scenario("spare-study", [*settings, f"job.steps={_STEPS}"]))
            for seed in range(seeds):
                run(question, seed)
    simulation_s = (perf_counter() - started) / (points * seeds)
    return {
        "simulation_s": simulation_s,
        "overhead_s": sweep_s * workers / (points * seeds) - simulation_s,
    }


def _grid(seeds: int) -> str:
    return (
        f'scenario = "spare-study"\nseeds = {seeds}\n'
        f'[set]\n"job.steps" = {_STEPS}\n'
        f'[grid]\n"strategy.name" = {list(_SCHEMES)}\n'
        f'"strategy.redundancy" = {list(_REDUNDANCIES)}\n'
    )


def time_table(rows: int) -> Answer:
    """Read a sweep of so many rows and draw its usual figures; the rows are one run's, varied."""
    from faultline.experiments.figures.style import save_figure
    from faultline.experiments.figures.sweep_pictures import usual_figures
    from faultline.experiments.runs.table import read_sweep

    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        _fabricate(directory, rows)
        started = perf_counter()
        for name, _, figure in usual_figures(read_sweep(directory)):
            save_figure(figure, directory / f"{name}.png")
        return {"seconds": perf_counter() - started}


def _fabricate(directory: Path, rows: int) -> None:
    """Write a finished sweep whose records are one run's, stretched by redundancy and seed."""
    from faultline.experiments.config.grid import read_grid
    from faultline.experiments.config.scenario_file import load_scenario
    from faultline.experiments.job.resolved_job import resolve
    from faultline.experiments.runs.single_run import run
    from faultline.experiments.runs.store import Store, StoredRun
    from faultline.experiments.runs.sweep_plan import finish, make_plan

    seeds = rows // (len(_SCHEMES) * len(_REDUNDANCIES))
    path = directory / "grid"
    path.write_text(_grid(seeds), encoding="utf-8")
    manifest = make_plan(read_grid(str(path))).manifest
    path.unlink()
    record = run(resolve(load_scenario("spare-study", ["job.steps=100"])), 0)
    scheme_at = manifest.keys.index("strategy.name")
    redundancy_at = manifest.keys.index("strategy.redundancy")
    runs = {}
    for run_id, point, seed in manifest.rows():
        stretch = 1.0 + 0.1 * point[redundancy_at] + 1e-5 * seed
        told = {
            "strategy": point[scheme_at],
            "redundancy": point[redundancy_at],
            "seed": seed,
            "time_to_train_ratio": record["time_to_train_ratio"] * stretch,
        }
        runs[run_id] = StoredRun(run_id, {**record, **told}, None, "none", 0.0)
    store = Store(directory, manifest, runs, frozenset(manifest.run_ids))
    store.begin()
    finish(store, manifest)
