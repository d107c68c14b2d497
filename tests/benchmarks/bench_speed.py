"""How fast Faultline is, beside the published simulator, SimGrid and networkx: `make bench`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from itertools import product
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

import networkx as nx
import pandas as pd
import pytest
from faultline.experiments.config.grid import grid_from
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.figures.style import save_figure
from faultline.experiments.figures.sweep_pictures import usual_figures
from faultline.experiments.job.resolving import resolve
from faultline.experiments.job.step_times import step_time_of
from faultline.experiments.runs.execution import open_executor
from faultline.experiments.runs.point import cores
from faultline.experiments.runs.single_run import run, simulate_on_simgrid
from faultline.experiments.runs.sweep_plan import make_plan, simulate_plan
from faultline.experiments.runs.table import read_sweep
from faultline.experiments.studies.spare.cells import cell_of
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_reader import read_platform
from faultline.platforms.xml_writer import write_xml
from faultline.simulator.timing.collective_probe import probe_collective
from faultline.strategies.schemes.spare.stacks import StackedShards
from rich.console import Console

from tests.benchmarks.conftest import Speed

PUBLISHED_SIMULATOR_S = {
    ("spare", 9, 200): 25.0,
    ("spare", 9, 600): 127.0,
    ("spare", 9, 1000): 316.0,
    ("replication", 3, 200): 13.0,
    ("replication", 3, 600): 63.0,
    ("replication", 3, 1000): 173.0,
}
"""Seconds of a run of 10,000 steps by (scheme, r, N) of the C++ simulator that Lee et al. 2026
(SPARe, arXiv 2603.00357) published, measured on two cores."""
TARGETS_S = {("spare", 9, 200): 0.5, ("spare", 9, 1000): 1.0}
Settings = dict[str, Any]


def replaying(
    scenario: str, settings: Settings | list[str]
) -> Callable[[], tuple[tuple[object, int], Settings]]:
    """Return what resolves a job anew before each round, whose seed is the round's number."""
    seeds = iter(range(1_000))
    return lambda: ((resolve(load_scenario(scenario, settings)), next(seeds)), {})


@pytest.mark.parametrize(("scheme", "redundancy", "groups"), PUBLISHED_SIMULATOR_S)
def test_replay_10_000_steps(speed: Speed, scheme: str, redundancy: int, groups: int) -> None:
    changes = cell_of("spare-study", scheme, groups, redundancy).changes()
    cell = scheme, redundancy, groups
    speed.of(
        run,
        setup=replaying("spare-study", [*changes, "job.steps=10000"]),
        target_s=TARGETS_S.get(cell),
        rival_s=PUBLISHED_SIMULATOR_S[cell],
        rival="the published C++ simulator",
    )


@pytest.mark.parametrize(
    ("steps", "mtbf_s", "target_s"), [(10_000, 18e3, 0.01), (1_000_000, 14e4, 0.2)]
)
def test_replay_rare_failures(speed: Speed, steps: int, mtbf_s: float, target_s: float) -> None:
    settings = {"job.steps": steps, "failures.mtbf_s": mtbf_s}
    speed.of(run, setup=replaying("spare-study", settings), target_s=target_s)


@pytest.mark.parametrize(("groups", "redundancy"), [(200, 9), (600, 8), (1000, 9)])
def test_matching_of_a_failure(speed: Speed, groups: int, redundancy: int) -> None:
    shards, order = StackedShards(groups, redundancy), list(range(groups))
    Random(0).shuffle(order)
    failures, rival_s = 0, []
    shards.reset()
    for group in order:
        smallest = shards.stacks
        reordering = shards.fail((group,))
        failures += 1
        if reordering is None:
            break
        if not reordering.fixed and len(rival_s) < 5:
            alive = [other for other in range(groups) if shards.alive(other)]
            stacks = {other: shards.stack(other) for other in alive}
            began_s = perf_counter()
            sizes = range(smallest, redundancy + 1)
            assert reordering.stacks == next(s for s in sizes if _matches(stacks, groups, s))
            rival_s.append(perf_counter() - began_s)

    def fail_until_wipe_out() -> None:
        shards.reset()
        for group in order[:failures]:
            shards.fail((group,))

    rival = {"rival_s": sum(rival_s) / len(rival_s), "rival": "networkx, from scratch"}
    speed.of(fail_until_wipe_out, rounds=20, divided_by=failures, **rival)


def _matches(stacks: dict[int, list[int]], types: int, size: int) -> bool:
    """Return whether networkx finds a place for each shard type in stacks of a size."""
    graph: Any = nx.Graph()
    wanted = [("type", shard_type) for shard_type in range(types)]
    graph.add_nodes_from(wanted)
    for group, stack in stacks.items():
        for shard_type, slot in product(stack, range(size)):
            graph.add_edge(("type", shard_type), ("place", group, slot))
    matching = nx.bipartite.hopcroft_karp_matching(graph, top_nodes=wanted)
    return all(each in matching for each in wanted)


@pytest.mark.parametrize(("groups", "redundancy"), [(24, 3), (60, 4)])
def test_simgrid_300_steps_by_replay(speed: Speed, groups: int, redundancy: int) -> None:
    settings = {"strategy.redundancy": redundancy, "job.groups": groups, "job.steps": 300}
    job = resolve(load_scenario("spare-study", settings))
    started = perf_counter()
    simulate_on_simgrid(job, 0)
    simgrid_s = perf_counter() - started
    rival = {"rival_s": simgrid_s, "rival": "SimGrid"}
    speed.of(run, setup=replaying("spare-study", settings), **rival)


def test_simgrid_100_steps_of_256_ranks(speed: Speed) -> None:
    settings = {"job.steps": 100, "failures.mtbf_s": 1e12}
    job = resolve(load_scenario("llama3-70b-stress", settings))
    speed.of(lambda: simulate_on_simgrid(job, 0), rounds=1, target_s=60.0)


@pytest.mark.parametrize(("known", "target_s"), [(False, 10.0), (True, 0.1)])
def test_time_of_a_step_of_256_ranks(
    speed: Speed, known: bool, target_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    scenario = load_scenario("llama3-70b-stress")
    if known:
        step_time_of(scenario)
    speed.of(lambda: step_time_of(scenario), rounds=1, target_s=target_s)


@pytest.mark.parametrize(("cluster", "domains"), [("hgx-h100", 512), ("spare-600k", 1000)])
@pytest.mark.parametrize("what", ["write", "read"])
def test_platform(speed: Speed, cluster: str, domains: int, what: str, tmp_path: Path) -> None:
    path = tmp_path / "cluster.xml"
    cable = load_preset(cluster, domains=domains)
    write_xml(cable, path)
    call = (lambda: write_xml(cable, path)) if what == "write" else (lambda: read_platform(path))
    speed.of(call, target_s=5.0)


def test_all_reduce_of_1_gb(speed: Speed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cluster.xml"
    write_xml(load_preset("hgx-h100", domains=128), path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    call = (path, "all-reduce", None, 1e9, 1024)
    speed.of(lambda: probe_collective(*call), rounds=1, target_s=5.0)


GRID = {
    "scenario": "spare-study",
    "seeds": 20,
    "set": {"job.steps": 1000},
    "grid": {"strategy.name": ["replication", "spare"], "strategy.redundancy": [2, 3, 4, 5, 6]},
}


def _sweep(file: Path, seeds: int) -> None:
    plan = make_plan(grid_from({**GRID, "seeds": seeds}, "grid"))
    simulate_plan(plan, file, open_executor, Console(file=StringIO()))


def test_overhead_of_a_run_of_a_sweep(speed: Speed, tmp_path: Path) -> None:
    """What a core spends on a run: planning, processes, files and tables, and its simulation."""
    parts = 200 / cores()
    speed.of(
        lambda: _sweep(tmp_path / "sweep.sqlite", 20), rounds=1, divided_by=parts, target_s=0.5
    )


def test_figures_of_100_000_rows(speed: Speed, tmp_path: Path) -> None:
    _sweep(tmp_path / "sweep.sqlite", 1)
    sweep = read_sweep(tmp_path / "sweep.sqlite")
    copies = [sweep.frame.assign(seed=seed) for seed in range(10_000)]
    sweep = replace(sweep, frame=pd.concat(copies, ignore_index=True))

    def draw() -> None:
        for name, _, figure in usual_figures(sweep):
            save_figure(figure, tmp_path / f"{name}.png")

    speed.of(draw, rounds=1, target_s=10.0)
