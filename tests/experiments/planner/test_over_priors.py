"""A plan over the priors of its inputs: candidates, samples, and controls."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest
from faultline.experiments.analysis.decision import value_of_information
from faultline.experiments.analysis.design import design_by_name
from faultline.experiments.config.priors import priors_of
from faultline.experiments.config.uncertain import Prior
from faultline.experiments.job.choices import at_interval, choices_for
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.job.sampled_job import at_sample, quantiles_of
from faultline.experiments.planner import over_priors
from faultline.experiments.planner.over_priors import (
    GIVE_UP,
    is_behind,
    simulate_over_priors,
    tune,
)
from faultline.experiments.planner.plan import RankedPlan, make_plan
from faultline.experiments.planner.situation import choices_of, read_situation

SETTINGS = (*("job.steps=300", "job.groups=20", "failures.mtbf_s=1500", "rejoin.when=at-restart"),)


def planned(*settings: str) -> RankedPlan:
    situation = read_situation("spare-sound", [*SETTINGS, *settings])
    return make_plan(situation, ["spare", "replication"], ["storage"], range(2), 1)


def with_prior(plan: RankedPlan, dotted: str, prior: Prior) -> RankedPlan:
    """Return a plan whose only uncertain input is one key."""
    scenario = plan.situation.scenario.model_copy(update={"uncertain": {dotted: prior}})
    return replace(plan, situation=replace(plan.situation, scenario=scenario))


def test_a_restart_that_takes_longer_costs_time() -> None:
    plan = planned()
    prior = Prior(kind="uniform", low=100.0, high=4000.0, source="a test")
    over = simulate_over_priors(with_prior(plan, "times.restart_s", prior), 32)
    assert over is not None
    place = over.costs.design.names.index("times.restart_s")
    restart_s, cost_s = over.costs.design.values[:, place], over.costs.costs.mean(axis=2)
    for row in cost_s:
        assert np.corrcoef(restart_s, row)[0, 1] > 0.5


def test_without_uncertain_inputs_the_answer_is_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """All priors have collapsed to points, so that samples differ by luck alone."""
    monkeypatch.setattr(over_priors, "priors_of", lambda _scenario: [])
    plan = planned()
    over = simulate_over_priors(plan, 16)
    assert over is not None
    assert over.costs.design.names == ()
    assert value_of_information(over.costs) == []
    lines = {line.choice.scheme: line for line in plan.first_of_schemes()}
    for choice, costs in zip(over.choices, over.costs.costs, strict=True):
        ratios = costs.ravel() / plan.situation.ideal_s
        of_plan = lines[choice.scheme].ratios
        error = ratios.std(ddof=1) * np.sqrt(1 / ratios.size + 1 / len(of_plan))
        assert abs(ratios.mean() - np.mean(of_plan)) < 4 * error
    assert [choice.scheme for choice in over.choices] == list(lines)


def test_a_tuned_choice_costs_least_over_the_priors() -> None:
    """Failures are so uncertain that the interval of the point values is too long for many."""
    plan = planned("failures.mtbf_s=6000", "times.checkpoint_write_s=60")
    prior = Prior(kind="log-uniform", low=800.0, high=40_000.0, source="a test")
    situation = with_prior(plan, "failures.mtbf_s", prior).situation
    keys = [key for key in priors_of(situation.scenario) if key.is_stated]
    design = design_by_name(quantiles_of(keys, ["spare"], situation.mtbf_s), 32, 0)
    choices = choices_of(situation, "spare", "storage")
    tuned = tune(choices, design)

    def expected(resolved: ResolvedJob) -> float:
        jobs = [at_sample(resolved, design.sample(sample)) for sample in range(32)]
        return fmean(choices_for(job, [job])[0].ratio for job in jobs)

    cost = expected(tuned.resolved)
    assert tuned.interval_steps != choices[0].interval_steps
    assert cost < expected(choices[0].resolved)
    for factor in (0.7, 1.4):
        near = at_interval(tuned.resolved, round(factor * tuned.interval_steps))
        assert cost < 1.001 * expected(near)


def test_a_scheme_that_is_slower_without_failures_is_not_simulated() -> None:
    """Replication of degree 2 takes about twice as long per step."""
    plan = planned()
    replication = next(line.choice for line in plan.lines if line.choice.scheme == "replication")
    assert is_behind(replication, np.array([[[1.1, 1.2], [1.3, 1.2]]]))
    assert not is_behind(replication, np.array([[[1.1, 1.2], [1.3, 2.5]]]))
    assert not is_behind(replication, np.array([[[1.1, GIVE_UP]]]))


def test_a_run_that_is_stopped_counts_as_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a cap at the median time of SPARe, about half of its runs are stopped."""
    plan = planned()
    usual = simulate_over_priors(plan, 16)
    assert usual is not None
    assert not usual.costs.stopped.any()
    cap = float(np.median(usual.costs.costs[0])) / plan.situation.ideal_s
    monkeypatch.setattr(over_priors, "GIVE_UP", cap)
    over = simulate_over_priors(plan, 16)
    assert over is not None
    costs = over.costs
    assert costs.cap_s == cap * plan.situation.ideal_s
    assert np.isfinite(costs.costs).all()
    assert costs.costs.max() == costs.cap_s
    assert 0 < costs.stopped.sum() < costs.stopped.size
    assert len(value_of_information(costs)) == len(costs.design.names)
