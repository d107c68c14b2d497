"""Whole runs, replay beside the published simulator and SimGrid beside replay; and the matching."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from random import Random
from statistics import fmean, median
from time import perf_counter
from typing import Any, NamedTuple

from faultline.experiments.benchmarks.measurement import Answer, Case, Measurement, measured
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.platform_files import generate_preset, traffic_of
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.runs.single_run import run
from faultline.simulator.simgrid_engine.process import run_on_simgrid
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
RARE_SECTION = "replay engine, rare failures"
_RARE = {10_000: (18_000.0, 0.01), 1_000_000: (140_000.0, 0.2)}


def replay_cases(quick: bool) -> list[Case]:
    """Return a case for each published time; if quick, for the smallest of each scheme."""
    return [
        Case(_REPLAY, _title_of_replay(*cell), partial(_measure_replay, *cell))
        for cell in PUBLISHED_SIMULATOR_S
        if not quick or cell[2] == 200
    ]


def rare_failure_cases(quick: bool) -> list[Case]:
    """Return cases in which few of many steps meet a failure; if quick, the shortest."""
    return [
        Case(RARE_SECTION, f"{steps:,} steps", partial(_measure_rare, steps))
        for steps in (list(_RARE)[:1] if quick else _RARE)
    ]


def _measure_rare(steps: int) -> list[Measurement]:
    mtbf_s, target_s = _RARE[steps]
    settings = {"job.steps": steps, "failures.mtbf_s": mtbf_s}
    answer = measured(time_replay, "spare-study", settings, _REPLAY_SEEDS)
    failures, seconds = median(answer["failures"]), answer["seconds"]
    return [
        Measurement(
            RARE_SECTION,
            f"{steps:,} steps, {failures:,} failures",
            median(seconds),
            "s",
            minimum=min(seconds),
            target=target_s,
        )
    ]


def _title_of_replay(scheme: str, redundancy: int, groups: int) -> str:
    return f"{_TITLES[scheme]} r = {redundancy}, N = {groups:,}"


def _measure_replay(scheme: str, redundancy: int, groups: int) -> list[Measurement]:
    # Read here, as the published tables bring pandas along, which a run does not need.
    from faultline.experiments.studies.spare.cells import Cell

    settings = {
        **Cell("spare-study", scheme, groups, redundancy).settings(),
        "job.steps": _REPLAY_STEPS,
    }
    answer = measured(time_replay, "spare-study", settings, _REPLAY_SEEDS)
    what, cell = _title_of_replay(scheme, redundancy, groups), (scheme, redundancy, groups)
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
        Measurement(_REPLAY, f"{what}: peak memory", answer["peak_mb"], "MB", target=_TARGET_MB),
    ]


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
    return [
        Case(_SIMGRID, _title_of_simgrid(*run), partial(_measure_simgrid, *run)) for run in runs
    ]


def _title_of_simgrid(groups: int, redundancy: int, steps: int) -> str:
    return f"SPARe r = {redundancy}, N = {groups}, {steps} steps"


def _measure_simgrid(groups: int, redundancy: int, steps: int) -> list[Measurement]:
    what = _title_of_simgrid(groups, redundancy, steps)
    settings = [
        "strategy.name=spare",
        f"job.groups={groups}",
        f"strategy.redundancy={redundancy}",
        f"job.steps={steps}",
    ]
    simgrid = measured(time_simgrid, settings, groups)
    replay_s = median(measured(time_replay, "spare-study", settings, _REPLAY_SEEDS)["seconds"])
    wall_s = simgrid["wall_s"]
    return [
        Measurement(_SIMGRID, f"{what}: activities", simgrid["activities"] / wall_s, "1/s"),
        Measurement(_SIMGRID, f"{what}: played steps", simgrid["played_steps"] / wall_s, "1/s"),
        Measurement(_SIMGRID, f"{what}: peak memory", simgrid["peak_mb"], "MB"),
        Measurement(
            _SIMGRID,
            f"{what}: by replay",
            replay_s,
            "s",
            ratio=wall_s / replay_s,
            ratio_to="SimGrid",
        ),
    ]


def time_simgrid(settings: list[str], groups: int) -> Answer:
    """Play seed 0 of a scenario of the SPARe study on the SimGrid engine."""
    with tempfile.TemporaryDirectory(prefix="faultline-") as directory:
        path = generate_preset("spare-600k", groups, Path(directory))
        scenario = load_scenario("spare-study", [*settings, f'platform.file="{path.as_posix()}"'])
        question = resolve(scenario)
        result = run_on_simgrid(
            question.job(0), question.strategy(), path, traffic_of(scenario, path)
        )
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
    sizes = _SIZES[:1] if quick else _SIZES
    return [
        Case(_MATCHING, _title_of_matching(*size), partial(_measure_matching, *size))
        for size in sizes
    ]


def _title_of_matching(groups: int, redundancy: int) -> str:
    return f"SPARe r = {redundancy}, N = {groups:,}"


def _measure_matching(groups: int, redundancy: int) -> list[Measurement]:
    answer = measured(time_matching, groups, redundancy, _ORDERS, _SAMPLES)
    return [
        Measurement(
            _MATCHING,
            _title_of_matching(groups, redundancy),
            answer["microseconds"],
            "us",
            ratio=answer["networkx_ratio"],
            ratio_to="networkx, from scratch",
        )
    ]


def time_matching(groups: int, redundancy: int, orders: int, samples: int) -> Answer:
    """Time `StackedShards.fail`, and networkx on some of the same decisions.

    Returns
    -------
    dict
        ``microseconds`` a failure over all orders, wipe-outs included; ``failures``; and
        ``networkx_ratio``, over `samples` reorderings of the first order.

    Raises
    ------
    RuntimeError
        If networkx decides otherwise.
    """
    shards = StackedShards(groups, redundancy)
    total_s, failures = 0.0, 0
    for seed in range(orders):
        seconds = _fail_until_wipe_out(shards, _order(groups, seed))
        total_s += sum(seconds)
        failures += len(seconds)
    decisions = _reorderings(shards, _order(groups, 0))
    chosen = decisions[:: max(1, len(decisions) // samples)][:samples]
    networkx_s = fmean(_time_networkx(decision, groups, redundancy) for decision in chosen)
    return {
        "microseconds": total_s / failures * 1e6,
        "failures": failures,
        "networkx_ratio": networkx_s / fmean(decision.seconds for decision in chosen),
    }


def _order(groups: int, seed: int) -> list[int]:
    order = list(range(groups))
    Random(seed).shuffle(order)
    return order


def _fail_until_wipe_out(shards: StackedShards, order: list[int]) -> list[float]:
    """Return the seconds of each decision, the wipe-out included."""
    shards.reset()
    seconds = []
    for group in order:
        started = perf_counter()
        reordering = shards.fail((group,))
        seconds.append(perf_counter() - started)
        if reordering is None:
            break
    return seconds


def _reorderings(shards: StackedShards, order: list[int]) -> list[Decision]:
    """Return the decisions that took more than a look whether all types stand where they stood."""
    shards.reset()
    decisions = []
    for group in order:
        smallest = shards.stacks
        started = perf_counter()
        reordering = shards.fail((group,))
        seconds = perf_counter() - started
        if reordering is None:
            break
        if not reordering.fixed:
            survivors = (other for other in range(shards.groups) if shards.alive(other))
            stacks = {other: shards.stack(other) for other in survivors}
            decisions.append(Decision(stacks, smallest, reordering.stacks, seconds))
    return decisions


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
