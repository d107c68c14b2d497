"""Predictions against simulations, and what a plan makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import numpy as np
import pytest

from experiments.errors import UserError
from experiments.planner.advice import advise
from experiments.planner.answer import answer, gpu_hours
from experiments.planner.choices import choices_of, has_closed_forms, predicted_ratio
from experiments.planner.plan import Line, Plan, chosen_schemes, make_plan
from experiments.planner.simulation import RESTARTS_WANTED, Simulated, simulate, steps_needed
from experiments.planner.situation import Situation, Wish, read_situation
from strategies.base import StepPlan, Strategy, Verdict, WipeOut
from strategies.registry import all_strategies

# Nothing is measured on a platform.
STATED = (
    "all_reduce.time=stated",
    "checkpoint.write=stated",
    "restart.load=included",
)
SMALL = (*STATED, "job.groups=30", "job.steps=600", "failures.mtbf_s=1200")


def small(*settings: str, **sizes: int) -> Situation:
    return read_situation(Wish("spare-sound", (*SMALL, *settings), **sizes))


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
    (choice,) = choices_of(read_situation(Wish("spare-sound", settings)), scheme)
    assert choice.redundancy == redundancy
    (played,) = simulate([choice.question], range(6), steps_needed([choice]))
    assert choice.ratio == pytest.approx(np.mean(played.ratios), rel=0.1)


def test_gpus_scale_the_failures_and_leave_the_groups() -> None:
    own = read_situation(Wish("spare-sound", STATED))
    scaled = read_situation(Wish("spare-sound", STATED, gpus=100_000))
    assert scaled.scenario.failures.mtbf_s == pytest.approx(6 * own.scenario.failures.mtbf_s)
    assert scaled.scenario.job.groups == own.scenario.job.groups
    assert scaled.scenario.job.gpus_of_group == 500
    assert scaled.durations == own.durations
    assert any("scaled with 1 / GPUs" in said for said in scaled.assumptions)


def test_a_stated_mean_time_between_failures_is_kept() -> None:
    by_option = read_situation(Wish("spare-sound", STATED, gpus=100_000, mtbf_s=450.0))
    by_setting = read_situation(Wish("spare-sound", (*STATED, "failures.mtbf_s=450"), gpus=100_000))
    assert by_option.scenario.failures.mtbf_s == by_setting.scenario.failures.mtbf_s == 450.0


def test_spare_groups_are_paid_for() -> None:
    without = small(gpus=3000)
    paid = small("rejoin.when=at-checkpoint", "rejoin.spare_groups=3", gpus=3000)
    assert (without.gpus, paid.gpus) == (3000, 3300)
    assert gpu_hours(paid, 2.0) == pytest.approx(1.1 * gpu_hours(without, 2.0))


def test_every_other_interval_and_redundancy_is_predicted_to_take_longer() -> None:
    first, *rest = choices_of(small(), "spare")
    assert all(choice.ratio >= first.ratio for choice in rest)
    for interval in (first.interval_steps // 2, first.interval_steps * 2):
        assert predicted_ratio(replace(first.question, interval_steps=interval)) >= first.ratio


def test_a_stated_redundancy_and_interval_are_taken() -> None:
    situation = small("strategy.redundancy=3", "checkpoint.interval_steps=17")
    (choice,) = choices_of(situation, "spare")
    assert (choice.redundancy, choice.interval_steps) == (3, 17)
    assert len(choices_of(situation, "replication")) > 1


def test_simulated_jobs_have_about_twenty_restarts_or_the_whole_job() -> None:
    choice = choices_of(small(), "checkpoint")[0]
    assert steps_needed([choice]) == pytest.approx(RESTARTS_WANTED * choice.steps_per_life, abs=1)
    longer = replace(choice, steps_per_life=1e9)
    assert steps_needed([choice, longer]) == 600
    assert steps_needed([replace(choice, steps_per_life=inf)]) == 600


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
    situation = small()
    named = {**all_strategies(), "hopeful": Hopeful}
    monkeypatch.setattr("strategies.registry.all_strategies", lambda: named)
    (choice,) = choices_of(situation, "hopeful")
    assert choice.rough
    assert not has_closed_forms(choice.question)
    # J(r) of `Strategy` is for the best period, this for the nearest whole number of steps.
    question = choice.question
    costs_ratio = predicted_ratio(question)
    assert choice.ratio == costs_ratio
    assert choice.availability == pytest.approx(6000 / (6000 + 3600))


def test_a_mix_of_causes_is_planned_by_the_rougher_forms() -> None:
    choices = choices_of(small("failures.model=mix", "failures.rate=mtbf"), "spare")
    assert all(choice.rough for choice in choices)


def test_schemes_that_never_finish_are_told_and_others_planned() -> None:
    situation = small(
        "failures.mtbf_s=10000", "job.time_limit_s=400000", "restart.duration_s=500000"
    )
    plan = make_plan(situation, ["checkpoint", "spare"], range(3), 0)
    assert [scheme.scheme for scheme in plan.untrained] == ["checkpoint"]
    assert "nothing would ever be trained" in plan.untrained[0].reason
    assert [line.choice.scheme for line in plan.lines] == ["spare"]
    advice = advise(plan)
    assert advice is not None
    assert "the only one that finishes" in advice.sentence


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(UserError, match="did you mean 'spare'"):
        chosen_schemes(["spore"])


def test_a_plan_verifies_the_best_and_says_how_far_off_it_was() -> None:
    plan = make_plan(small(), ["replication", "spare"], range(3), 3, steps=200)
    bests = [line for line in plan.lines if line.is_best_of_scheme]
    assert len(plan.lines) == 3
    assert all(line.simulated is not None for line in plan.lines)
    assert bests[0].choice.ratio <= bests[1].choice.ratio
    for line in plan.lines:
        error, off = line.error(), line.may_be_off()
        assert error is not None
        assert off is not None
        assert line.simulated is not None
        mean = np.mean([line.choice.ratio / ratio - 1 for ratio in line.simulated.ratios])
        assert error.mean == pytest.approx(mean)
        assert off >= abs(error.mean)
    content = answer(plan, advise(plan))
    assert content["advice"]["scheme"] in ("replication", "spare")


def invented(plan: Plan, ratios: dict[str, tuple[float, ...]]) -> Plan:
    lines = [
        Line(line.choice, Simulated(ratios[line.choice.scheme], (0.9,) * 3, 600, 0), True)
        for line in plan.lines
    ]
    return replace(plan, lines=tuple(lines))


def test_advice_follows_the_simulation_and_tells_chance_from_a_lead() -> None:
    plan = make_plan(small(), ["replication", "spare"], range(3), 0)
    clear = advise(invented(plan, {"spare": (3.0, 3.5, 4.0), "replication": (2.0, 2.51, 2.99)}))
    assert clear is not None
    assert clear.lead is not None
    assert clear.taken.choice.scheme == "replication"
    assert clear.lead.is_clear
    assert "clear of chance" in clear.sentence
    close = advise(invented(plan, {"spare": (2.0, 2.5, 2.9), "replication": (2.2, 2.3, 3.0)}))
    assert close is not None
    assert close.lead is not None
    assert not close.lead.is_clear
    assert "not clear of chance" in close.sentence


def test_without_simulation_the_advice_says_so() -> None:
    advice = advise(make_plan(small(), ["replication", "spare"], range(3), 0))
    assert advice is not None
    assert advice.lead is not None
    assert not advice.lead.is_clear
    assert "not verified" in advice.sentence
