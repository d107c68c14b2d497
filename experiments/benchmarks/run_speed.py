"""Runs, replay beside the published simulator and SimGrid beside replay; matching; and sweeps."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module
from io import StringIO
from itertools import product
from pathlib import Path
from random import Random
from statistics import fmean, median
from time import perf_counter
from typing import Any, NamedTuple

from faultline.experiments.benchmarks.measurement import Answer, Case, Measurement, measured
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.runs.single_run import play_on_simgrid, run
from faultline.platforms.files import own_folder, write_file
from faultline.strategies.stacks import StackedShards

_REPLAY = "replay engine, 10,000 steps"
_REPLAY_STEPS = 10_000
_REPLAY_SEEDS = 3
_TITLES = {"spare": "SPARe", "replication": "replication"}

# Seconds of one run of 10,000 steps of the C++ simulator that Lee et al. 2026 (SPARe, arXiv
# 2603.00357) published with their paper, measured on a machine of this kind
# (2 cores); by scheme, redundancy and groups.
PUBLISHED_SIMULATOR_S = {
    ("spare", 9, 200): 25.0,
    ("spare", 9, 600): 127.0,
    ("spare", 9, 1000): 316.0,
    ("replication", 3, 200): 13.0,
    ("replication", 3, 600): 63.0,
    ("replication", 3, 1000): 173.0,
}
_TARGET_S = {("spare", 9, 200): 0.5, ("spare", 9, 1000): 1.0}
_TARGET_MB = 200.0

# A run costs by its failures, not by its steps: mean time between failures, in seconds, and target
# by steps. SPARe, N = 200.
_RARE_FAILURES = "replay engine, rare failures"
_RARE = {10_000: (18_000.0, 0.01), 1_000_000: (140_000.0, 0.2)}


def replay_cases(quick: bool) -> list[Case]:
    """Return a case for each published time; if quick, for the smallest of each scheme."""
    return [_replay_case(*cell) for cell in PUBLISHED_SIMULATOR_S if not quick or cell[2] == 200]


def _replay_case(scheme: str, redundancy: int, groups: int) -> Case:
    what, cell = f"{_TITLES[scheme]} r = {redundancy}, N = {groups:,}", (scheme, redundancy, groups)

    def measure() -> list[Measurement]:
        # Read here, as the published tables bring pandas along, which a run does not need.
        from faultline.experiments.studies.spare.cells import Cell

        settings = Cell("spare-study", scheme, groups, redundancy).settings()
        settings = {**settings, "job.steps": _REPLAY_STEPS}
        answer = measured(time_replay, "spare-study", settings, _REPLAY_SEEDS)
        seconds = median(answer["seconds"])
        return [
            Measurement(
                _REPLAY,
                what,
                seconds,
                "s",
                minimum=min(answer["seconds"]),
                target=_TARGET_S.get(cell),
                ratio=PUBLISHED_SIMULATOR_S[cell] / seconds,
                ratio_to="published C++",
            ),
            Measurement(
                _REPLAY, f"{what}: peak memory", answer["peak_mb"], "MB", target=_TARGET_MB
            ),
        ]

    return Case(_REPLAY, what, measure)


def rare_failure_cases(quick: bool) -> list[Case]:
    """Return cases in which few of many steps meet a failure; if quick, the shortest."""
    return [
        Case(_RARE_FAILURES, f"{steps:,} steps", partial(_measure_rare, steps))
        for steps in (list(_RARE)[:1] if quick else _RARE)
    ]


def _measure_rare(steps: int) -> list[Measurement]:
    mtbf_s, target_s = _RARE[steps]
    settings = {"job.steps": steps, "failures.mtbf_s": mtbf_s}
    answer = measured(time_replay, "spare-study", settings, _REPLAY_SEEDS)
    what = f"{steps:,} steps, {median(answer['failures']):,} failures"
    seconds, least_s = median(answer["seconds"]), min(answer["seconds"])
    return [Measurement(_RARE_FAILURES, what, seconds, "s", minimum=least_s, target=target_s)]


def time_replay(scenario: str, settings: Mapping[str, object] | list[str], seeds: int) -> Answer:
    """Play a scenario with some seeds; returns seconds after imports and failures of each."""
    seconds, failures = [], []
    for seed in range(seeds):
        question = resolve(load_scenario(scenario, settings))
        started = perf_counter()
        record = run(question, seed)
        seconds.append(perf_counter() - started)
        failures.append(record["failures"])
    return {"seconds": seconds, "failures": failures}


_SIMGRID = "SimGrid engine"
_STEPS, _QUICK_STEPS = 300, 30


def simgrid_cases(quick: bool) -> list[Case]:
    """Return a case for each of two sizes; if quick, for the smaller, and with fewer steps."""
    runs = ((24, 3, _QUICK_STEPS),) if quick else ((24, 3, _STEPS), (60, 4, _STEPS))
    return [_simgrid_case(*run) for run in runs]


def _simgrid_case(groups: int, redundancy: int, steps: int) -> Case:
    what = f"SPARe r = {redundancy}, N = {groups}, {steps} steps"
    settings = ["strategy.name=spare", f"strategy.redundancy={redundancy}"]
    settings += [f"job.groups={groups}", f"job.steps={steps}"]

    def measure() -> list[Measurement]:
        simgrid = measured(time_simgrid, "spare-study", settings)
        replay = measured(time_replay, "spare-study", settings, _REPLAY_SEEDS)
        wall_s, replay_s = simgrid["wall_s"], median(replay["seconds"])
        times = {"ratio": wall_s / replay_s, "ratio_to": "SimGrid"}
        return [
            Measurement(_SIMGRID, f"{what}: activities", simgrid["activities"] / wall_s, "1/s"),
            Measurement(_SIMGRID, f"{what}: played steps", simgrid["played_steps"] / wall_s, "1/s"),
            Measurement(_SIMGRID, f"{what}: peak memory", simgrid["peak_mb"], "MB"),
            Measurement(_SIMGRID, f"{what}: by replay", replay_s, "s", **times),
        ]

    return Case(_SIMGRID, what, measure)


def time_simgrid(scenario: str, settings: list[str]) -> Answer:
    """Play seed 0 of a scenario on the SimGrid engine."""
    result = play_on_simgrid(resolve(load_scenario(scenario, settings)), 0)
    return {
        "wall_s": result.wall_s,
        "activities": result.activities,
        "played_steps": result.progress.played_steps,
        "peak_mb": result.peak_memory_bytes / 1e6,
    }


_MATCHING = "matching, a failure"
_SIZES = ((200, 9), (600, 8), (1000, 9))
_ORDERS = 20
_SAMPLES = 5

Stacks = dict[int, list[int]]
"""The shard types of each survivor, by group."""


class Decision(NamedTuple):
    """One reordering that was decided: from which stacks, with which result, in which time."""

    stacks: Stacks
    smallest: int
    result: int
    seconds: float


def matching_cases(quick: bool) -> list[Case]:
    """Return a case for each size; if quick, for the smallest."""
    return [_matching_case(*size) for size in (_SIZES[:1] if quick else _SIZES)]


def _matching_case(groups: int, redundancy: int) -> Case:
    what = f"SPARe r = {redundancy}, N = {groups:,}"

    def measure() -> list[Measurement]:
        answer = measured(time_matching, groups, redundancy, _ORDERS, _SAMPLES)
        ratio = {"ratio": answer["networkx_ratio"], "ratio_to": "networkx, from scratch"}
        return [Measurement(_MATCHING, what, answer["microseconds"], "us", **ratio)]

    return Case(_MATCHING, what, measure)


def time_matching(groups: int, redundancy: int, orders: int, samples: int) -> Answer:
    """Time `StackedShards.fail`, and networkx on some of the same decisions.

    Told are ``microseconds`` a failure over all orders, wipe-outs included; ``failures``; and
    ``networkx_ratio``, over `samples` reorderings of the first order.

    Raises RuntimeError if networkx decides otherwise.
    """
    shards = StackedShards(groups, redundancy)
    total_s, failures = 0.0, 0
    for seed in range(orders):
        lived = list(_decisions(shards, seed))
        total_s += sum(decision.seconds for decision in lived)
        failures += len(lived)
    moving = [one for one in _decisions(shards, 0, with_stacks=True) if one.stacks]
    chosen = moving[:: max(1, len(moving) // samples)][:samples]
    networkx_s = fmean(_time_networkx(decision, groups, redundancy) for decision in chosen)
    return {
        "microseconds": total_s / failures * 1e6,
        "failures": failures,
        "networkx_ratio": networkx_s / fmean(decision.seconds for decision in chosen),
    }


def _decisions(
    shards: StackedShards, seed: int, *, with_stacks: bool = False
) -> Iterator[Decision]:
    """Yield what is decided at each failure of a random order, up to the wipe-out.

    Stacks are those of decisions that took more than a look whether all types stand where they
    stood.
    """
    order = list(range(shards.groups))
    Random(seed).shuffle(order)
    shards.reset()
    for group in order:
        smallest = shards.stacks
        started = perf_counter()
        reordering = shards.fail((group,))
        seconds = perf_counter() - started
        if reordering is None:
            yield Decision({}, smallest, 0, seconds)
            return
        stacks = {}
        if with_stacks and not reordering.fixed:
            survivors = (other for other in range(shards.groups) if shards.alive(other))
            stacks = {other: shards.stack(other) for other in survivors}
        yield Decision(stacks, smallest, reordering.stacks, seconds)


def _time_networkx(decision: Decision, types: int, redundancy: int) -> float:
    """Time the search for the smallest stack at which a matching covers all types."""
    import_module("networkx")  # beforehand: this is not what is timed
    started = perf_counter()
    sizes = range(decision.smallest, redundancy + 1)
    result = next((size for size in sizes if _feasible(decision.stacks, types, size)), None)
    seconds = perf_counter() - started
    if result != decision.result:
        raise RuntimeError(f"networkx finds a stack of {result}, not of {decision.result}")
    return seconds


def _feasible(stacks: Stacks, types: int, size: int) -> bool:
    import networkx as nx

    graph: Any = nx.Graph()
    sources = [("type", shard_type) for shard_type in range(types)]
    graph.add_nodes_from(sources)
    for group, stack in stacks.items():
        for shard_type, slot in product(stack, range(size)):
            graph.add_edge(("type", shard_type), ("place", group, slot))
    matching = nx.bipartite.hopcroft_karp_matching(graph, top_nodes=sources)
    return all(source in matching for source in sources)


_SWEEPS = "sweeps"
_OVERHEAD_TARGET_S = 0.15
_TABLE_TARGET_S = 10.0
_SCHEMES = ("replication", "spare")
_REDUNDANCIES = (2, 3, 4, 5, 6)
_SWEPT_STEPS = 1000


def sweep_cases(quick: bool) -> list[Case]:
    """Return a case for the overhead of a run, and one for a large table."""
    runs, rows = (20, 10_000) if quick else (200, 100_000)
    of_runs, of_rows = f"{runs} runs in processes of their own", f"{rows:,} rows"

    def measure_overhead() -> list[Measurement]:
        answer, what = measured(time_sweep, runs), f"{of_runs}: overhead a run"
        return [
            Measurement(_SWEEPS, what, answer["overhead_s"], "s", target=_OVERHEAD_TARGET_S),
            Measurement(_SWEEPS, f"{of_runs}: simulation itself", answer["simulation_s"], "s"),
        ]

    def measure_table() -> list[Measurement]:
        what = f"{of_rows}: load and draw all usual figures"
        seconds, target_s = (
            measured(time_table, rows)["seconds"],
            None if quick else _TABLE_TARGET_S,
        )
        return [Measurement(_SWEEPS, what, seconds, "s", target=target_s)]

    return [Case(_SWEEPS, of_runs, measure_overhead), Case(_SWEEPS, of_rows, measure_table)]


def time_sweep(runs: int) -> Answer:
    """Play a sweep on all cores and its runs again in this process, one after the other.

    The overhead is what the cores spent a run beyond the simulation: planning, processes, files,
    tables.
    """
    from faultline.experiments.config.grid import read_grid
    from faultline.experiments.runs.local import LocalExecutor
    from faultline.experiments.runs.point import cores
    from faultline.experiments.runs.sweep_plan import make_plan, play_plan
    from rich.console import Console

    points = list(product(_SCHEMES, _REDUNDANCIES))
    seeds = -(-runs // len(points))
    workers = min(cores(), runs)
    with tempfile.TemporaryDirectory() as folder:
        grid = Path(folder) / "grid.toml"
        write_file(grid, _grid(seeds))
        started = perf_counter()
        play_plan(
            make_plan(read_grid(str(grid))),
            Path(folder) / "sweep",
            lambda: LocalExecutor(workers),
            Console(file=StringIO()),
        )
        sweep_s = perf_counter() - started
    started = perf_counter()
    for scheme, redundancy in points:
        settings = [f"strategy.name={scheme}", f"strategy.redundancy={redundancy}"]
        question = resolve(load_scenario("spare-study", [*settings, f"job.steps={_SWEPT_STEPS}"]))
        for seed in range(seeds):
            run(question, seed)
    played = len(points) * seeds
    simulation_s = (perf_counter() - started) / played
    overhead_s = sweep_s * workers / played - simulation_s
    return {"simulation_s": simulation_s, "overhead_s": overhead_s}


def _grid(seeds: int) -> str:
    return (
        f'scenario = "spare-study"\nseeds = {seeds}\n'
        f'[set]\n"job.steps" = {_SWEPT_STEPS}\n'
        f'[grid]\n"strategy.name" = {list(_SCHEMES)}\n'
        f'"strategy.redundancy" = {list(_REDUNDANCIES)}\n'
    )


def time_table(rows: int) -> Answer:
    """Read a sweep of so many rows and draw its usual figures; the rows are one run's, varied."""
    from faultline.experiments.figures.style import save_figure
    from faultline.experiments.figures.sweep_pictures import usual_figures
    from faultline.experiments.runs.table import read_sweep

    with tempfile.TemporaryDirectory() as folder:
        directory = own_folder(Path(folder) / "sweep")
        _fabricate(directory, rows)
        started = perf_counter()
        for name, _, figure in usual_figures(read_sweep(directory)):
            save_figure(figure, directory / f"{name}.png")
        return {"seconds": perf_counter() - started}


def _fabricate(directory: Path, rows: int) -> None:
    """Write a finished sweep whose records are one run's, stretched by redundancy and seed."""
    from faultline.experiments.config.grid import read_grid
    from faultline.experiments.runs.store import Store, StoredRun
    from faultline.experiments.runs.sweep_plan import finish, make_plan

    seeds = rows // (len(_SCHEMES) * len(_REDUNDANCIES))
    path = directory.parent / "grid"
    write_file(path, _grid(seeds))
    manifest = make_plan(read_grid(str(path))).manifest
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
