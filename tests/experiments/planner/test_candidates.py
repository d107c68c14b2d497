"""Candidates: which schemes a plan has, at which redundancy and interval, and why not others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import pytest
from faultline.experiments.analysis.design import design_by_name
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.priors import priors_of
from faultline.experiments.config.uncertain import Prior
from faultline.experiments.job.choices import (
    MOST_FAILURES_UNSAVED,
    Choice,
    at_interval,
    choices_for,
    has_course,
)
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.job.resolving import resolve
from faultline.experiments.job.sampled_job import at_sample, quantiles_of
from faultline.experiments.planner.candidates import MOST_SET_UPS, Candidates, find_candidates
from faultline.experiments.planner.situation import (
    choices_of,
    read_situation,
)
from faultline.experiments.planner.tuning import tune
from faultline.experiments.runs.single_run import run
from faultline.strategies.interface.scheme import StepPlan, Strategy, Verdict, WipeOut
from faultline.strategies.plugins.registry import all_strategies

from tests.experiments.planner.small_jobs import STATED, STORAGE, small
from tests.stated_times import SNAPSHOT_SETTINGS


def schemes_of(candidates: Candidates) -> set[str]:
    return {one.choices[0].scheme for one in candidates.found}


def simulated_ratio(choice: Choice, steps: int, seeds: int) -> float:
    job = choice.resolved.shortened(steps)
    return fmean(run(job, seed)["time_to_train_ratio"] for seed in range(seeds))


@pytest.mark.parametrize(
    ("scheme", "groups", "redundancy", "mtbf_s"),
    [
        ("spare", 60, 4, 900),
        ("replication", 60, 4, 600),
        pytest.param("spare", 200, 5, 300, marks=pytest.mark.slow),
        pytest.param("spare", 200, 9, 300, marks=pytest.mark.slow),
        pytest.param("spare", 600, 8, 300, marks=pytest.mark.slow),
        pytest.param("replication", 200, 4, 300, marks=pytest.mark.slow),
        pytest.param("replication", 600, 5, 300, marks=pytest.mark.slow),
    ],
)
def test_predictions_are_within_a_tenth_of_simulations(
    scheme: str, groups: int, redundancy: int, mtbf_s: float
) -> None:
    settings = (
        *STATED,
        f"job.groups={groups}",
        f"failures.mtbf_s={mtbf_s}",
        f"strategy.name={scheme}",
        f"strategy.redundancy={redundancy}",
        "job.steps=10000",
    )
    (choice,) = choices_of(read_situation("spare-sound", settings), scheme, "storage")
    assert choice.redundancy == redundancy
    steps = round(1000 * mtbf_s / choice.resolved.ideal_step_s)
    assert choice.ratio == pytest.approx(simulated_ratio(choice, steps, 6), rel=0.1)


def test_a_plan_has_each_scheme_that_the_scenario_suffices_for() -> None:
    found = find_candidates(small(), None, STORAGE)
    chosen = schemes_of(found)
    assert {"checkpoint", "replica-drop"} <= chosen
    assert chosen | {each.scheme for each in found.left_out} == set(all_strategies())
    reasons = {each.scheme: each.reason for each in found.left_out}
    assert reasons.pop("warm-standby").startswith("no machine stands by: set")
    assert all("set model.pipeline" in reason for reason in reasons.values())
    standby = small("recovery.hardware=standby", "recovery.standbys=1")
    assert "warm-standby" in schemes_of(find_candidates(standby, None, STORAGE))
    whole = find_candidates(small("model.pipeline=4"), None, STORAGE)
    assert all("set model.pipeline" not in each.reason for each in whole.left_out)
    with pytest.raises(UserError, match="did you mean 'spare'"):
        find_candidates(small(), ["spore"], STORAGE)


def test_groups_that_rejoin_between_restarts_have_no_closed_form() -> None:
    for when, is_known in (("at-restart", True), ("at-checkpoint", False)):
        situation = small(f"rejoin.when={when}", "job.steps=100000")
        spare, alone = (
            choices_of(situation, name, "storage")[0] for name in ("spare", "checkpoint")
        )
        assert (spare.predicted_ratio is not None) == is_known
        assert alone.predicted_ratio is not None


def test_every_other_interval_and_redundancy_is_predicted_to_take_longer() -> None:
    first, *rest = choices_of(small(), "spare", "storage")
    assert all(choice.ratio >= first.ratio for choice in rest)
    for interval in (first.interval_steps // 2, first.interval_steps * 2):
        (other,) = choices_for(first.resolved, [replace(first.resolved, interval_steps=interval)])
        assert other.predicted_ratio is not None
        assert other.predicted_ratio >= first.ratio


def test_a_stated_redundancy_and_interval_are_used() -> None:
    situation = small("strategy.redundancy=3", "checkpoint.interval_steps=17")
    (choice,) = choices_of(situation, "spare", "storage")
    assert (choice.redundancy, choice.interval_steps) == (3, 17)
    assert len(choices_of(situation, "replication", "storage")) > 1


class Hopeful(Strategy):
    """A scheme of somebody else, without a course in closed form."""

    name = "hopeful"
    summary = "Restarts, and says it does not"

    def restart(self) -> None:
        pass

    def plan(self) -> StepPlan:
        return StepPlan(tuple(range(self.groups)), 1)

    def on_failures(self, missing: Sequence[int]) -> Verdict:
        return WipeOut(tuple(missing))

    def masked_failures(self) -> float:
        return 5.0

    def work_per_step(self) -> float:
        return 1.0


def test_a_scheme_without_a_course_is_planned_and_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    situation = small("job.compute_jitter=0")
    # The schema of scenarios knows the names that were registered when it was imported.
    monkeypatch.setitem(all_strategies(), "checkpoint", Hopeful)
    (choice,) = choices_of(situation, "checkpoint", "storage")
    assert choice.rough
    assert not has_course(choice.resolved)
    # J(r) of `Strategy` is for the best period, this for the nearest whole number of steps.
    resolved = choice.resolved
    assert choices_for(resolved, [resolved]) == [choice]
    assert choice.availability == pytest.approx(6000 / (6000 + 3600))


def test_schemes_that_never_finish_are_left_out_with_the_reason() -> None:
    situation = small("failures.mtbf_s=10000", "job.time_limit_s=400000", "times.restart_s=500000")
    found = find_candidates(situation, ["checkpoint", "spare"], STORAGE)
    (left_out,) = found.left_out
    assert (left_out.scheme, left_out.protection) == ("checkpoint", "storage")
    assert "the job would never finish" in left_out.reason
    assert schemes_of(found) == {"spare"}


def test_protections_that_do_not_fit_are_left_out() -> None:
    times = [f"times.snapshot_{name}_s=5" for name in ("copy", "send", "load", "rebuild")]
    # A node's share of a replica is 8 GB, and of a 30th of it 4 copies are kept.
    situation = small(*SNAPSHOT_SETTINGS, *times, "protection.host_memory_bytes=4e9")
    protections = ["storage", "async-storage", "gemini"]
    found = find_candidates(situation, ["checkpoint"], protections)
    assert {one.choices[0].protection for one in found.found} == {"storage", "gemini"}
    assert found.left_out[0].protection == "async-storage"
    assert "host memory" in found.left_out[0].reason


@pytest.mark.parametrize("protection", ["gemini", "just-in-time"])
def test_a_state_in_memory_is_on_storage_before_many_failures(protection: str) -> None:
    """By the closed form a replica that goes down takes no state with it, so saves are rare."""
    situation = small(*SNAPSHOT_SETTINGS, "failures.mtbf_s=6000", "job.compute_jitter=0")
    for choice in choices_of(situation, "replica-drop", protection):
        apart_s = choice.resolved.interval_steps * choice.step_s
        assert apart_s == pytest.approx(MOST_FAILURES_UNSAVED * situation.mtbf_s, rel=0.02)
    stated = small(*SNAPSHOT_SETTINGS, "checkpoint.interval_steps=90000")
    assert choices_of(stated, "replica-drop", protection)[0].resolved.interval_steps == 90_000


def test_groups_that_return_before_a_restart_are_candidates_of_their_own() -> None:
    open_ = find_candidates(small("rejoin.repair_s=600"), ["spare"], STORAGE).found
    moments = {one.choices[0].rejoin_when for one in open_}
    assert moments == {"at-restart", "at-checkpoint"}
    least = min(choices_of(small(), "spare", "storage"), key=lambda choice: choice.redundancy)
    returning = [one for one in open_ if one.choices[0].returns_groups]
    assert least.redundancy in {one.choices[0].redundancy for one in returning}
    assert all(len(one.choices) == 1 for one in returning)
    stated = find_candidates(small("rejoin.when=at-restart"), ["spare"], STORAGE).found
    assert {one.choices[0].rejoin_when for one in stated} == {"at-restart"}


def test_a_tuned_choice_costs_least_over_the_priors() -> None:
    """Failures are so uncertain that the interval of the point values is too long for many."""
    situation = read_situation(
        "spare-sound",
        [
            *("job.steps=300", "job.groups=20", "rejoin.when=at-restart"),
            *("failures.mtbf_s=6000", "times.checkpoint_write_s=60"),
        ],
    )
    prior = Prior(kind="log-uniform", low=800.0, high=40_000.0, source="a test")
    scenario = situation.scenario.model_copy(update={"uncertain": {"failures.mtbf_s": prior}})
    keys = [key for key in priors_of(scenario) if key.is_stated]
    design = design_by_name(quantiles_of(keys, ["spare"], situation.mtbf_s), 16, 0)
    choices = choices_of(situation, "spare", "storage")
    tuned = tune(choices, design)
    assert tune(choices, design_by_name({}, 16, 0)) is choices[0]

    def expected(resolved: ResolvedJob) -> float:
        jobs = [at_sample(resolved, design.sample(sample)) for sample in range(16)]
        return fmean(choices_for(job, [job])[0].ratio for job in jobs)

    cost = expected(tuned.resolved)
    assert tuned.interval_steps != choices[0].interval_steps
    assert cost < expected(choices[0].resolved)
    for factor in (0.7, 1.4):
        near = at_interval(tuned.resolved, round(factor * tuned.interval_steps))
        assert cost < 1.001 * expected(near)


@pytest.mark.parametrize("scheme", ["spare", "replication", "checkpoint"])
def test_a_run_uses_the_redundancy_and_interval_of_a_plan(scheme: str) -> None:
    """`run` once took floor(log2 N + 0.833) where `plan` took the least prediction."""
    situation = small("failures.mtbf_s=20000")
    choice = choices_of(situation, scheme, "storage")[0]
    resolved = resolve(situation.scenario.change({"strategy.name": scheme}))
    assert (resolved.redundancy, resolved.interval_steps) == (
        choice.redundancy,
        choice.interval_steps,
    )


def test_predictions_under_a_mix_have_the_jitter() -> None:
    """All wait for the slowest of 64 groups: 12 % at a jitter of 5 %."""
    ratios = {}
    for jitter in (0.0, 0.05):
        situation = small(
            "failures.model=mix", "failures.rate=mtbf", "failures.mtbf_s=7200", "job.groups=64",
            f"job.compute_jitter={jitter}", "job.steps=3000",
        )  # fmt: skip
        choice = choices_of(situation, "checkpoint", "storage")[0]
        ratios[jitter] = choice.ratio / simulated_ratio(choice, 1500, 4)
    assert ratios[0.05] == pytest.approx(ratios[0.0], abs=0.03)
    assert ratios[0.05] == pytest.approx(1.0, abs=0.06)


def test_a_scheme_keeps_the_set_ups_that_closed_forms_rank_first() -> None:
    found = find_candidates(small("rejoin.when=at-restart"), ["spare", "checkpoint"], None)
    for scheme in ("spare", "checkpoint"):
        kept = [one.choices[0] for one in found.found if one.choices[0].scheme == scheme]
        assert len(kept) == MOST_SET_UPS
    assert found.behind > 0
    (only,) = find_candidates(small("rejoin.when=at-restart"), ["spare"], STORAGE).found
    assert only.choices[0].scheme == "spare"


def test_groups_that_return_at_a_checkpoint_may_return_at_one_on_storage() -> None:
    """Checkpoints on storage beside a state in memory are rare, so that groups return late."""
    frequent = small("rejoin.when=at-checkpoint", "rejoin.repair_s=600", "failures.mtbf_s=300")
    found = find_candidates(frequent, ["spare"], None).found
    assert len({one.choices[0].protection for one in found}) > MOST_SET_UPS
    assert "storage" in {one.choices[0].protection for one in found}
