"""The numbers of a job that follow from its model."""

from __future__ import annotations

from typing import get_args

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.model_numbers import MODELLED_KEYS
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario, scenario_from
from faultline.experiments.config.tables.job import ModelName
from faultline.experiments.config.toml_text import parse_toml
from faultline.simulator.workload.known_models import KNOWN_MODELS

JOB = """
[job]
groups = 8
[model]
name = "llama3-70b"
pipeline = 4
tensor = 8
micro_batches = 16
[platform]
file = "hgx-h100"
"""


def asked(text: str = JOB, **model: object) -> Scenario:
    tables, _ = parse_toml(text)
    tables["model"] |= model
    return scenario_from(tables, "a test")


def refusal(text: str = JOB, **model: object) -> str:
    with pytest.raises(UserError) as caught:
        asked(text, **model)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def test_all_known_models_can_be_named() -> None:
    assert set(get_args(ModelName)) - {"stated", "custom"} == set(KNOWN_MODELS)


def test_sizes_are_those_of_the_model_and_its_layout() -> None:
    scenario = asked()
    parameters = KNOWN_MODELS["llama3-70b"].parameters
    assert (scenario.job.gpus, scenario.job.gpus_per_group) == (256, 32)
    assert scenario.job.parameter_bytes == 2 * parameters
    # Weights of 16 bits; weights, mean and variance of 32.
    assert scenario.protection.state_bytes == 14 * parameters


def test_a_custom_model_with_the_default_dimensions_is_the_70b() -> None:
    assert asked(name="custom").job == asked().job


def test_what_was_filled_in_can_be_read_again() -> None:
    scenario = asked()
    assert scenario_from(scenario.model_dump(), "again") == scenario


def test_other_models_keep_the_numbers_of_the_job() -> None:
    scenario = load_scenario("spare-study", ["model.pipeline=4"])
    assert (scenario.compute_s, scenario.job.gpus) == (64.0, 600_000)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tensor": 16}, "model.tensor = 16: a scale-up domain of hgx-h100 has 8 GPUs"),
        ({"tensor": 3}, "use a divisor"),
        ({"pipeline": 1, "shard_optimizer": False}, "needs"),
        ({"pipeline": 161}, "80 layers are too few"),
        ({"name": "custom", "heads": 7}, "7 heads do not divide"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, object], said: str) -> None:
    assert said in refusal(**change)


def test_a_platform_without_domains_is_refused() -> None:
    assert "spare-600k" in refusal(JOB.replace("hgx-h100", "spare-600k"))


def test_what_contradicts_the_model_is_refused() -> None:
    text = JOB.replace("groups = 8", "groups = 8\nparameter_bytes = 3.0")
    assert refusal(text).startswith("job.parameter_bytes = 3: the model comes to 1.4")


def test_all_that_follows_is_derived() -> None:
    fields = Scenario.model_fields
    for table, key in MODELLED_KEYS:
        kind = fields[table].annotation
        assert kind is not None
        assert key in kind.model_fields
