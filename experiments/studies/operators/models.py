"""The rows that small models play, where the loop knows no such thing, and the closed forms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.durations import recovery_prices
from faultline.experiments.studies.oobleck_artifact import losses
from faultline.experiments.studies.operators.jobs import RSC_1, RSC_2
from faultline.experiments.studies.operators.loop import HOUR_S, MINUTE_S, SAMPLE
from faultline.experiments.studies.operators.quorum import (
    QuorumRules,
    StressTest,
    gain_of_rare_averaging,
)
from faultline.experiments.studies.operators.server_pool import Pool, PoolRun
from faultline.experiments.studies.stage import Stage
from faultline.strategies.closed_forms.ettr import (
    expected_ettr,
    expected_ettr_with_queue,
    job_failures_per_s,
)
from faultline.strategies.recovery import RESTART
from faultline.strategies.takeover.published_oobleck import ARTIFACT_COSTS, SAMPLES_PER_S

SampleRow = tuple[str, str, str, str, int, float]
"""A row with the columns of `loop.SAMPLE`."""

UNFINISHED = ", does not finish"
"""How what is swept ends where a job has not done its steps when its kills are over."""

_AWAY_S = 24.0
"""What a killed group misses at most in B1: from the kill to where it asks to join."""
_KILLS = {"B1": 1100, "B2": 1015}
_STEPS = {"B1": 10**9, "B2": 888}


def play(stage: Stage) -> pd.DataFrame:
    """Play and compute all of them; a row a run and quantity."""
    with stage.step("closed forms", 1):
        rows = [*_forms(), *_moves(), *_removals()]
    stress = [
        (row, rules, seed)
        for row in _KILLS
        for rules in _swept()
        for seed in range(stage.pick(1, 3))
    ]
    for found in stage.calls("quorums", play_quorum, stress):
        rows += found
    pools = [
        (row, seed)
        for row in POOLS
        for seed in range(stage.pick(10 if row.startswith("G2") else 5, 30))
    ]
    for found in stage.calls("server pools", play_servers, pools):
        rows += found
    return pd.DataFrame(rows, columns=list(SAMPLE))


def _forms() -> Iterator[SampleRow]:
    """A by RSC's closed form."""
    for setting, gpus, rate, interval_min, startup_min in (
        ("A1", 16_000, RSC_1, 60, 5),
        ("A2", 16_000, RSC_1, 5, 5),
        ("A4", 100_000, RSC_2, 2, 2),
    ):
        failures_per_s = job_failures_per_s(gpus / 8, rate)
        value = expected_ettr(failures_per_s, startup_min * MINUTE_S, interval_min * MINUTE_S)
        yield setting, "ETTR", "RSC's form", "", 0, value
    queued = expected_ettr_with_queue(
        job_failures_per_s(1000, RSC_1), 5 * MINUTE_S, 30 * MINUTE_S, MINUTE_S, 40 * 24 * HOUR_S
    )
    yield "A3", "ETTR", "RSC's form", "", 0, queued
    for gpus, queue_min in product((2048, 4096), (0, 10)):
        failures_per_s = job_failures_per_s(gpus / 8, RSC_1)
        value = expected_ettr(failures_per_s, (5 + queue_min) * MINUTE_S, HOUR_S)
        yield "A5", "ETTR", "RSC's form", f"{gpus:,} GPUs, {queue_min} min", 0, value


# What TrainMover's phases say (arXiv 2412.12636): see the study of recoveries.
_MOVE: Mapping[str, object] = {"recovery.preset": "hot-swap", "recovery.launch_s": 7.5}
_RESTART: Mapping[str, object] = {
    "recovery.preset": "stock",
    "recovery.hardware": "in-place",
    "recovery.detect_s": 0.0,
    "recovery.launch_s": 0.0,
    "recovery.communicator_s": 50.0,
}


def _moves() -> Iterator[SampleRow]:
    """F1: standbys that take a role, and restarts without loading."""
    for gpus in (32, 128, 256, 512, 1024):
        warm_up_s = 44.0 + 5.5 * np.log2(gpus / 64)
        for kind, keys in (
            ("unplanned", _MOVE),
            ("planned", {**_MOVE, "recovery.detect_s": 0.0}),
            ("Megatron restart", {**_RESTART, "recovery.warm_up_s": float(warm_up_s)}),
        ):
            job = {"model.name": "stated", "job.gpus": gpus, "job.groups": min(64, gpus)}
            scenario = load_scenario("head-to-head", {**job, **keys})
            value = recovery_prices(scenario).duration_s(RESTART, scenario.job.groups)
            yield f"F1 {kind} {gpus:,} GPUs", "seconds", "phases", "", 0, value


def _removals() -> Iterator[SampleRow]:
    """G4: Oobleck's artifact, 6.7B."""
    steps_s = [1024 / samples_per_s for samples_per_s in SAMPLES_PER_S]
    gaps = {"6 h": 6 * HOUR_S, "3 h": 3 * HOUR_S, "1 h": HOUR_S, "30 min": 1800, "601.2 s": 601.2}
    for name, gap_s in gaps.items():
        booked = losses.play("oobleck", ARTIFACT_COSTS["6.7B"], steps_s, gap_s)
        yield f"G4 {name}", "steps", "removals", "", 0, float(booked.steps)


def _swept() -> Iterator[QuorumRules]:
    """Yield torchft's rules at the ends of what is not said."""
    start_s = _AWAY_S - QuorumRules().poll_s / 2
    for join_s, averaging_s, beats, copied in product(
        (10.0, 60.0), (2.0, 4.5, 7.0), (0.0, 0.5, 1.0), (0.0, 1.0)
    ):
        yield QuorumRules(
            join_timeout_s=join_s,
            averaging_s=averaging_s,
            start_s=start_s,
            beats_s=beats * start_s,
            copy_s=copied * QuorumRules().step_s,
        )


def play_quorum(asked: tuple[str, QuorumRules, int]) -> list[SampleRow]:
    """Play B1 or B2, and B3 beside it.

    Where B2's kills are over before its steps are done, its numbers are of the steps until then.
    """
    row, rules, seed = asked
    rng = np.random.default_rng([seed, len(row)])
    kills = _KILLS[row]
    gaps_s = np.full(kills, 60.0) if row == "B1" else rng.uniform(0.0, 30.0, kills)
    run = StressTest(rules, np.cumsum(gaps_s).tolist(), rng).play(_STEPS[row])
    measures = {
        "commits": run.commits,
        "mean step": run.mean_step_s,
        "mean groups": run.mean_groups,
        "efficiency": run.efficiency,
    }
    if row == "B2":
        measures["steps"] = float(run.steps)
    swept = (
        f"join timeout {rules.join_timeout_s:g} s, averaging {rules.averaging_s:g} s, heard "
        f"{rules.beats_s:g} s before it asks, copy {rules.copy_s:g} s"
    )
    if run.steps < _STEPS[row] < 10**9:
        swept += UNFINISHED
    found = [(row, name, "quorum", swept, seed, value) for name, value in measures.items()]
    gain = gain_of_rare_averaging(rules, float(gaps_s.mean()), 40, run)
    return [*found, ("B3", "tokens/s", "quorum", f"{row}'s kills, {swept}", seed, gain)]


_PAYOFF = Pool(
    compute_days=14.0,
    working_pool=4600,
    good_failures_per_day=0.02,
    bad_share=0.08,
    bad_factor=20.0,
    recovery_s=HOUR_S,
    fixed_by_automatic=0.40,
    fixed_by_manual=0.25,
)

POOLS: Mapping[str, Pool] = {
    "G1": Pool(),
    "G1 10 min": Pool(recovery_s=10 * MINUTE_S),
    "G1 pool 4,132 without spares": Pool(working_pool=4132, spares=0),
    "G2": _PAYOFF,
    "G2 factor 1": replace(_PAYOFF, bad_factor=1.0),
    "G2 recovery 5 min": replace(_PAYOFF, recovery_s=5 * MINUTE_S),
    "G2 factor 10": replace(_PAYOFF, bad_factor=10.0),
    "G2 recovery 20 min": replace(_PAYOFF, recovery_s=20 * MINUTE_S),
    "G2 bad 20 %": replace(_PAYOFF, bad_share=0.20),
}
"""AIReSim's jobs by row."""


def play_servers(asked: tuple[str, int]) -> list[SampleRow]:
    """Play a server pool of AIReSim's with one seed."""
    row, seed = asked
    run = PoolRun(POOLS[row], np.random.default_rng(seed)).play()
    measures: dict[str, float] = {"ETR": run.training_ratio}
    if row.startswith("G2"):
        measures = {"hours": run.elapsed_s / HOUR_S}
    if row == "G1":
        counts = {"failures": run.failures, "selections": run.selections}
        measures |= {**counts, "spares pulled": run.spares_pulled}
    return [(row, name, "server pool", "", seed, value) for name, value in measures.items()]
