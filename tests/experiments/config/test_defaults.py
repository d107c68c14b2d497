"""What a scenario leaves open follows from its platform, its GPUs or its model, and no study."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.keys import KeyPath
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario, scenario_from
from faultline.experiments.config.tables.job import ModelName
from faultline.experiments.config.toml_text import parse_toml
from faultline.experiments.job.check import check_scenario
from faultline.experiments.job.failure_model import failure_model
from faultline.experiments.job.placement import state_bytes
from faultline.experiments.job.platform_files import spec_of
from faultline.experiments.job.resolved_keys import value_at
from faultline.experiments.job.resolving import resolve
from faultline.simulator.workload.known_models import KNOWN_MODELS

MODEL_AND_PLATFORM = """
[model]
name = "llama3-70b"
pipeline = 4
tensor = 8
[platform]
file = "hgx-h100"
"""
STUDY_NUMBERS: list[KeyPath] = [
    ("job", "groups"),
    ("job", "gpus"),
    ("job", "steps"),
    ("times", "compute_s"),
    ("job", "compute_jitter"),
    ("job", "parameter_bytes"),
    ("failures", "distribution"),
    ("failures", "mtbf_s"),
    ("times", "all_reduce_per_group_s"),
    ("times", "checkpoint_write_s"),
    ("protection", "state_over_parameters"),
    ("times", "restart_s"),
    ("times", "shrink_s"),
    ("strategy", "name"),
    ("platform", "file"),
]
"""What is of the SPARe study alone, and was every scenario's once."""


def asked(text: str = "") -> Scenario:
    tables, _ = parse_toml(text)
    return scenario_from(tables, "a test")


@pytest.mark.parametrize("text", ["", MODEL_AND_PLATFORM])
@pytest.mark.parametrize("path", STUDY_NUMBERS, ids=".".join)
def test_no_scenario_inherits_a_number_of_the_study(path: KeyPath, text: str) -> None:
    study = value_at(load_scenario("spare-study"), path)
    assert study is not None
    assert value_at(asked(text), path) != study


def test_failures_come_as_often_as_llama_3_saw_them() -> None:
    """As the shipped mix has them, which adds up the same counts where all causes are fatal."""
    for gpus in (256, 16_384):
        size = f"[job]\ngpus = {gpus}\n"
        own = failure_model(asked(size)).mtbf_s
        mix = asked(f"{size}[failures]\nmodel = 'mix'\n")
        fatal = failure_model(mix.change({"failures.gpus_per_switch": 8})).mtbf_s
        assert own == pytest.approx(fatal, rel=1e-6)
        # Where there is a way around leaf switches, 35 of 419 interrupt nothing.
        assert failure_model(mix).mtbf_s == pytest.approx(own * 419 / 384)
    # 3.09 hours on 16,384 GPUs, as published.
    assert own / 3600 == pytest.approx(3.09, abs=0.01)


def test_a_model_and_a_platform_make_a_job(tmp_path: Path) -> None:
    """Checkpoints are its 14 bytes a parameter over the platform's storage, or its adapters."""
    path = tmp_path / "mine.toml"
    path.write_text(MODEL_AND_PLATFORM, encoding="utf-8")
    assert check_scenario(str(path)) == []
    resolved = resolve(asked(MODEL_AND_PLATFORM))
    scenario, times = resolved.scenario, resolved.durations
    spec = spec_of(scenario)
    assert spec is not None
    assert spec.storage is not None
    # One group of 32 GPUs writes, an adapter of 50 GB/s each.
    slowest = min(spec.storage.write_bandwidth_bytes_per_s, 32 * spec.nic.bandwidth_bytes_per_s)
    assert times.save_s == pytest.approx(state_bytes(scenario) / slowest, rel=0.05)
    # Queue and start by ByteRobust's curves; detection on top, and NCCLX's communicators.
    queue_s, communicator_s = 408 / 2 ** (0.255 * 3), 0.88 * 0.256**0.72
    assert times.restart_s() == pytest.approx(10 + queue_s + 38.6 + communicator_s)
    assert scenario.job.compute_jitter == 0


def test_a_communicator_takes_as_long_as_published() -> None:
    for gpus, published_s in ((8_192, 3.97), (32_768, 11.9), (98_304, 24.0)):
        stated = "[times]\nall_reduce_s = 1\ncheckpoint_write_s = 1\n"
        durations = resolve(asked(f"[job]\ngpus = {gpus}\n{stated}")).durations
        assert durations.recovery.communicator(gpus) == pytest.approx(published_s, rel=0.1)


def test_groups_that_do_not_fill_the_platform_are_refused() -> None:
    with pytest.raises(UserError, match="represents 256 GPUs"):
        resolve(asked("[job]\ngroups = 24"))


JOB = f"[job]\ngroups = 8\n{MODEL_AND_PLATFORM}"


def of_model(text: str = JOB, **model: object) -> Scenario:
    tables, _ = parse_toml(text)
    tables["model"] |= model
    return scenario_from(tables, "a test")


def test_all_known_models_can_be_named() -> None:
    assert set(get_args(ModelName)) - {"stated", "custom"} == set(KNOWN_MODELS)


def test_sizes_are_those_of_the_model_and_its_layout() -> None:
    scenario = of_model()
    parameters = KNOWN_MODELS["llama3-70b"].parameters
    assert (scenario.job.gpus, scenario.job.gpus_of_group) == (256, 32)
    assert scenario.job.parameter_bytes == 2 * parameters
    # Weights of 16 bits; weights, mean and variance of 32.
    assert scenario.protection.state_bytes == 14 * parameters


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tensor": 16}, "model.tensor = 16: a scale-up domain of hgx-h100 has 8 GPUs"),
        ({"tensor": 3}, "use a divisor"),
        ({"pipeline": 1, "sharding": "none"}, "needs"),
        ({"pipeline": 161}, "80 layers are too few"),
        ({"name": "custom", "heads": 7}, "7 heads do not divide"),
        ({"text": JOB.replace("hgx-h100", "spare-600k")}, "spare-600k"),
        (
            {"text": JOB.replace("groups = 8", "groups = 8\nparameter_bytes = 3.0")},
            "job.parameter_bytes = 3: by the model it is 1.4",
        ),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as caught:
        of_model(**change)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
