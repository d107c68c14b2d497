"""``job.tokens``: how long a training is, in the words of those who plan it."""

from __future__ import annotations

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario_file import load_scenario

# llama3-70b-stress: 8 groups of 16 micro-batches of one sequence of 8,192 tokens.
STEP_TOKENS = 8 * 16 * 8192


def test_steps_are_the_tokens_over_those_of_a_step_rounded_up() -> None:
    tokens = 10 * STEP_TOKENS + 1
    scenario = load_scenario("llama3-70b-stress", ["~job.steps", f"job.tokens={tokens}"])
    assert scenario.job.steps == 11


def test_more_groups_take_fewer_steps_for_the_same_tokens() -> None:
    scenario = load_scenario("llama3-70b-stress", ["~job.steps", f"job.tokens={64 * STEP_TOKENS}"])
    assert scenario.job.steps == 64
    assert scenario.change({"job.groups": 4}).job.steps == 128


def test_a_job_without_a_model_states_the_sequences_of_a_step() -> None:
    batch = ["model.micro_batches=4", "model.sequence_tokens=1000"]
    scenario = load_scenario("spare-sound", ["~job.steps", "job.tokens=8e6", *batch])
    assert scenario.job.steps == 8_000_000 // (scenario.job.groups * 4 * 1000)


@pytest.mark.parametrize(
    ("scenario", "settings", "what"),
    [
        ("llama3-70b-stress", ["job.steps=7", "job.tokens=1e9"], "job.steps = 7: 1,048,576 tokens"),
        ("spare-sound", ["~job.steps", "job.tokens=1e9"], "state model.micro_batches and"),
        ("llama3-70b-stress", ["~job.steps", "job.tokens=1e18"], "at most 1,000,000,000"),
    ],
)
def test_tokens_that_give_no_number_of_steps_are_refused_in_one_line(
    scenario: str, settings: list[str], what: str
) -> None:
    with pytest.raises(UserError) as caught:
        load_scenario(scenario, settings)
    assert what in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
