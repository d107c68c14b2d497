"""A plan over the priors of its inputs: candidates, samples, and controls."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from faultline.experiments.analysis.decision import judge, value_of_information
from faultline.experiments.config.uncertain import Prior
from faultline.experiments.planner.over_priors import simulate_over_priors
from faultline.experiments.planner.plan import Plan, make_plan
from faultline.experiments.planner.situation import read_situation

SETTINGS = ("job.steps=300", "job.groups=20", "failures.mtbf_s=1500")


def planned(*settings: str) -> Plan:
    situation = read_situation("spare-sound", [*SETTINGS, *settings])
    return make_plan(situation, ["spare", "replication"], ["storage"], range(2), 1)


def with_prior(plan: Plan, dotted: str, prior: Prior) -> Plan:
    """Return a plan whose only uncertain input is one key."""
    scenario = plan.situation.scenario.model_copy(update={"uncertain": {dotted: prior}})
    return replace(plan, situation=replace(plan.situation, scenario=scenario))


def test_samples_and_costs_are_the_same_each_time() -> None:
    plan = planned()
    first, again = (simulate_over_priors(plan, 16) for _ in range(2))
    assert first.costs.candidates == ("spare", "replication")
    assert first.costs.costs.shape == (2, 16, 2)
    assert np.array_equal(first.costs.design.unit, again.costs.design.unit)
    assert np.array_equal(first.costs.costs, again.costs.costs)


def test_an_input_without_effect_is_not_worth_knowing() -> None:
    """No scheme here drops gradients, so that their loss has no effect."""
    plan = planned()
    alone = with_prior(
        plan,
        "strategy.approximation_loss",
        Prior(kind="uniform", low=0.29, high=0.7, source="a test"),
    )
    over = simulate_over_priors(alone, 16)
    worth = {one.name: one.value.mean for one in value_of_information(over.costs)}
    assert worth["strategy.approximation_loss"] == 0.0


def test_a_restart_that_takes_longer_costs_time() -> None:
    plan = planned()
    prior = Prior(kind="uniform", low=100.0, high=4000.0, source="a test")
    over = simulate_over_priors(with_prior(plan, "times.restart_s", prior), 32)
    place = over.costs.design.names.index("times.restart_s")
    restart_s, cost_s = over.costs.design.values[:, place], over.costs.costs.mean(axis=2)
    for row in cost_s:
        assert np.corrcoef(restart_s, row)[0, 1] > 0.5


def test_a_narrow_prior_gives_the_answer_at_the_point() -> None:
    plan = planned()
    restart_s = plan.situation.scenario.times.restart_s
    assert restart_s is not None
    prior = Prior(kind="uniform", low=restart_s, high=restart_s + 1e-6, source="a test")
    over = simulate_over_priors(with_prior(plan, "times.restart_s", prior), 16)
    assert judge(over.costs)[0].candidate == plan.lines[0].choice.scheme
