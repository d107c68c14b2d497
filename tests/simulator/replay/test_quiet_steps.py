"""Quiet steps are simulated together, with the same result as one after the other."""

from __future__ import annotations

from dataclasses import fields
from math import inf
from typing import Any

import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolving import resolve
from faultline.simulator.accounting.progress import Batches, Progress
from faultline.simulator.job.job import Job, Rules
from faultline.simulator.job.phases import (
    AllReduce,
    Compute,
    Outcome,
    Phase,
    QuietSteps,
    Save,
)
from faultline.simulator.loop.run import simulate
from faultline.simulator.loop.training import Training
from faultline.simulator.replay.engine import ReplayEngine
from faultline.strategies.interface.scheme import Strategy
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.simulator.helpers import SOUND, STUDY, Scripted, small_job
from tests.stated_times import PROTECTED

STEP = Compute((0, 1, 2), 1, stack_s=10.0), AllReduce((0, 1, 2))


class StepByStep(ReplayEngine):
    """Finds no step quiet."""

    def execute(self, phase: Phase) -> Outcome:
        if isinstance(phase, QuietSteps):
            return Outcome(self.now_s)
        return super().execute(phase)


class Counting(ReplayEngine):
    """Counts the steps that were quiet, and in how many rows they came."""

    quiet = rows = 0

    def execute(self, phase: Phase) -> Outcome:
        outcome = super().execute(phase)
        self.quiet += outcome.steps
        self.rows += outcome.steps > 0
        return outcome


def simulated(job: Job, strategy: Strategy, engine: ReplayEngine) -> Progress:
    training = Training(job, strategy)
    simulate(training, engine)
    return training.progress


def quiet_share(scenario: str, options: list[str], seed: int) -> float:
    """Run a job both ways, assert that they agree, and return the share of quiet steps."""
    resolved = resolve(load_scenario(scenario, options))
    job = resolved.job(seed)
    engine = Counting(job)
    together = simulated(job, resolved.strategy(), engine)
    apart = simulated(job, resolved.strategy(), StepByStep(job))
    tolerance: Any = {"rel": 1e-9, "abs": 1e-9 * apart.now_s}
    for field in fields(Progress):
        ours, theirs = getattr(together, field.name), getattr(apart, field.name)
        if field.name == "seconds":
            assert ours == pytest.approx(theirs, **tolerance)
        elif isinstance(theirs, float | Batches):
            assert ours == pytest.approx(theirs, **tolerance), field.name
        else:
            assert ours == theirs, field.name
    # Times are added up in the same order: not even rounding differs.
    assert together.now_s == apart.now_s
    return engine.quiet / apart.simulated_steps


STATED = [*PROTECTED, "job.groups=24", "job.steps=400"]
CHOICES = {
    "job.compute_jitter": ("0", "0.05", "0.3"),
    "job.time_limit_s": ("1e9", "20000"),
    "strategy.name": ("checkpoint", "replication", "spare"),
    "failures.mtbf_s": ("300", "3000", "30000"),
    "failures.clock": ("from-detection", "renewal"),
    "failures.component": ("group", "host"),
    "detection.mode": ("all-reduce", "watchdog"),
    "detection.failure_in_all_reduce": ("next-step", "fails-it"),
    "all_reduce.fixed_step": ("commits", "retries"),
    "checkpoint.policy": ("fixed", "dynamic"),
    "checkpoint.failed_writer": ("skips", "replaced"),
    "restart.failure_during": ("begins-anew", "absorbed"),
    "restart.resume": ("redo", "after"),
    "rejoin.when": ("at-restart", "at-checkpoint"),
    "rejoin.repair_s": ("500", "5000"),
    "rejoin.spare_groups": ("0", "1"),
    "strategy.replication.controller_sees": ("lowest", "all"),
    "strategy.replication.checkpoint_waits": ("false", "true"),
    "protection.name": ("storage", "async-storage", "reft", "gemini", "just-in-time"),
    "times.snapshot_copy_interference_s": ("0", "3"),
    "times.snapshot_send_interference_s": ("0", "2"),
}


@examples(0.6)
@given(
    chosen=st.fixed_dictionaries({key: st.sampled_from(of) for key, of in CHOICES.items()}),
    seed=st.integers(0, 1000),
)
def test_whatever_the_scheme_the_rules_and_the_protection(
    chosen: dict[str, str], seed: int
) -> None:
    options = [f"{key}={value}" for key, value in chosen.items()]
    if chosen["strategy.name"] != "checkpoint":
        options.append("strategy.redundancy=3")
    if chosen["failures.clock"] == "from-detection":
        options.append("failures.component=group")
    quiet_share("spare-sound", [*STATED, *options], seed)


WITHIN = ["failures.mtbf_s=900", "rejoin.repair_s=9000", "job.compute_jitter=0.05"]
SHRINKING = {
    "ntp": ("spare-sound", [*STATED, *WITHIN, "strategy.name=ntp"]),
    "dp-drop": ("spare-sound", [*STATED, *WITHIN, "strategy.name=dp-drop"]),
    "a mix of causes": (
        "spare-sound",
        [*STATED, *WITHIN, "failures.model=mix", "failures.mix=llama3", "failures.rate=mtbf"],
    ),
    "mecefo": ("mecefo-7b", ["job.steps=3000", "failures.mtbf_s=200", "rejoin.repair_s=900"]),
    "bamboo": ("mecefo-7b", ["job.steps=3000", "failures.mtbf_s=200", "strategy.name=bamboo"]),
    "oobleck": ("mecefo-7b", ["job.steps=3000", "failures.mtbf_s=200", "strategy.name=oobleck"]),
    "varuna": (
        "mecefo-7b",
        [
            "job.steps=3000",
            "failures.mtbf_s=300",
            "strategy.name=varuna",
            "checkpoint.interval_steps=20",
            "times.checkpoint_write_s=5",
            "times.restart_s=20",
        ],
    ),
}


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SHRINKING)
def test_schemes_whose_steps_change_while_components_are_broken(name: str, seed: int) -> None:
    assert quiet_share(*SHRINKING[name], seed) > 0.1


@pytest.mark.parametrize("jitter", ["0", "0.05"])
@pytest.mark.parametrize("scenario", ["spare-study", "spare-sound"])
def test_where_failures_are_rare_most_steps_are_quiet(scenario: str, jitter: str) -> None:
    rare = ["failures.mtbf_s=20000", "job.steps=3000", f"job.compute_jitter={jitter}"]
    assert quiet_share(scenario, [*STATED, *rare], seed=1) > 0.9


def test_a_job_that_follows_the_hazard_has_quiet_steps_and_checkpoints() -> None:
    options = ["checkpoint.policy=dynamic", "failures.mtbf_s=5000", "strategy.name=checkpoint"]
    assert quiet_share("spare-sound", [*STATED, *options], seed=1) > 0.8


def outcome_of(
    rules: Rules, fails_s: float, at_most: int = 100, until_s: float = inf, **work: Any
) -> Outcome:
    """Request steps of 10 s of compute and 2 s of all-reduce, when one group fails once."""
    engine = ReplayEngine(small_job(Scripted({1: [fails_s]}), rules, **work))
    outcome = engine.execute(QuietSteps(*STEP, at_most, until_s))
    assert outcome.now_s == engine.now_s
    assert outcome.all_reduce_s == 2.0 * outcome.steps
    return outcome


@pytest.mark.parametrize(
    ("rules", "fails_s", "steps"),
    [
        (STUDY, 34.0, 2),  # As the third computes, from 24 to 34.
        (STUDY, 34.5, 3),  # It reduces by then, which goes unnoticed before the fourth.
        (SOUND, 36.0, 2),  # The third reduces from 34 to 36.
        (SOUND, 36.5, 3),
        (SOUND, 1206.5, 100),
        (SOUND, 1194.5, 99),
        (SOUND, 3.0, 0),
    ],
)
def test_it_ends_before_the_first_step_that_a_failure_may_touch(
    rules: Rules, fails_s: float, steps: int
) -> None:
    outcome = outcome_of(rules, fails_s)
    assert (outcome.steps, outcome.now_s) == (steps, 12.0 * steps)


@pytest.mark.parametrize("at_most", [1, 7, 8, 100, 3000])
def test_there_are_no_more_than_requested(at_most: int) -> None:
    outcome = outcome_of(SOUND, 1e9, at_most)
    assert (outcome.steps, outcome.now_s) == (at_most, 12.0 * at_most)


@pytest.mark.parametrize(("until_s", "steps"), [(24.0, 2), (24.1, 3), (1200.0, 100), (0.0, 0)])
def test_none_begins_when_it_is_too_late(until_s: float, steps: int) -> None:
    assert outcome_of(SOUND, 1e9, 3000, until_s).steps == steps


def test_a_possible_failure_is_one_that_hits_the_slowest_imaginable() -> None:
    """With a jitter of 5 %, compute ends after 14.5 s at the latest."""
    certain = outcome_of(STUDY, 14.51, compute_jitter=0.05)
    assert certain.steps == 1
    assert outcome_of(STUDY, 14.49, compute_jitter=0.05).steps == 0


def test_a_step_is_not_quiet_while_a_writer_is_busy() -> None:
    engine = ReplayEngine(small_job(Scripted({})))
    engine.execute(Save((0, 1, 2), 0, waits=False))
    assert engine.execute(QuietSteps(*STEP, 5, inf)).steps == 0
    for phase in STEP:
        engine.execute(phase)
    assert engine.execute(QuietSteps(*STEP, 5, inf)).steps == 5


def test_a_step_is_not_quiet_while_a_member_is_down() -> None:
    engine = ReplayEngine(small_job(Scripted({1: [5.0]})))
    engine.execute(STEP[0])
    assert tuple(engine.execute(STEP[1]).missing) == (1,)
    assert engine.execute(QuietSteps(*STEP, 5, inf)).steps == 0


@pytest.mark.parametrize("protection", ["gemini", "reft"])
@pytest.mark.parametrize("jitter", ["0", "0.05"])
def test_snapshots_that_cost_nothing_interrupt_no_quiet_steps(protection: str, jitter: str) -> None:
    """A snapshot a step, on two tiers, and none is looked at: restarts find the same states."""
    options = [*STATED, f"protection.name={protection}", f"job.compute_jitter={jitter}"]
    options += ["strategy.name=checkpoint", "failures.mtbf_s=30000", "checkpoint.interval_steps=2"]
    options += [f"times.snapshot_{way}_interference_s=0" for way in ("copy", "send")]
    job = resolve(load_scenario("spare-sound", options)).job(0)
    assert [tier.stall_s for tier in job.saving.tiers if tier.policy] == [0.0, 0.0]
    engine = Counting(job)
    simulated(job, resolve(load_scenario("spare-sound", options)).strategy(), engine)
    assert engine.rows < engine.quiet / 10
    assert quiet_share("spare-sound", options, seed=0) > 0.8
