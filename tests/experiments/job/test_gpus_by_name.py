"""A platform that does not describe its GPUs runs a model if the scenario names the GPU."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import scenario_from
from faultline.experiments.config.tables.job import GpuKind
from faultline.experiments.job.job_shape import job_shape
from faultline.experiments.job.platform_files import gpu_of, platform_file
from faultline.experiments.job.step_times import step_time_of
from faultline.experiments.job.workload import model_flop_utilisation
from faultline.experiments.runs.single_run import run
from faultline.platforms.preset_library import GPU_KINDS, gpu_of_kind, load_preset, preset_names
from faultline.platforms.xml_writer import write_xml


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def described(tmp_path: Path) -> Path:
    path = tmp_path / "described.xml"
    write_xml(load_preset("hgx-h100", domains=2, domains_per_leaf=1), path)
    return path


@pytest.fixture
def elsewhere(described: Path) -> Path:
    """A file of the same cluster that states no GPUs; its hosts have the speed of a CPU."""
    path = described.with_name("elsewhere.xml")
    text = re.sub(r'<prop id="faultline:[^>]*/>', "", described.read_text("utf-8"))
    path.write_text(text.replace('speed="989Tf"', 'speed="1Gf"'), "utf-8")
    return path


def scenario_on(path: Path, **model: object) -> Scenario:
    tables = {
        "job": {"groups": 2, "steps": 20},
        "model": {
            **{"name": "llama3-8b", "pipeline": 2, "tensor": 4, "micro_batches": 4},
            **{"kernels": "h100", "compute_efficiency": 0.7},
            **model,
        },
        "platform": {"file": str(path)},
        "failures": {"mtbf_s": 4.0, "distribution": "exponential"},
        "times": {"checkpoint_write_s": 1.0, "restart_s": 5.0},
    }
    return scenario_from(tables, "a test")


def test_a_named_gpu_gives_the_times_of_a_described_one(described: Path, elsewhere: Path) -> None:
    known = scenario_on(described)
    named = scenario_on(elsewhere, gpu="h100-sxm5")
    assert gpu_of(named) == gpu_of(known)
    assert job_shape(named) == job_shape(known)
    step, expected = step_time_of(named), step_time_of(known)
    assert step is not None
    assert expected is not None
    assert step == expected
    assert model_flop_utilisation(named, step.step_s) == model_flop_utilisation(known, step.step_s)
    records = [run(one, 0, "replay") for one in (named, known)]
    assert records[0]["events"] > 0
    for column in ("time_s", "events", "energy_j"):
        assert records[0][column] == records[1][column]


def test_a_named_gpu_runs_on_simgrid(elsewhere: Path) -> None:
    scenario = scenario_on(elsewhere, gpu="h100-sxm5")
    replayed, simulated = (run(scenario, 0, engine) for engine in ("replay", "simgrid"))
    assert simulated["events"] == replayed["events"] > 0
    assert simulated["time_s"] == pytest.approx(replayed["time_s"], rel=1e-6)


def test_an_unnamed_gpu_is_refused(elsewhere: Path) -> None:
    with pytest.raises(UserError, match=r"does not describe its GPUs; name them by model\.gpu"):
        scenario_on(elsewhere)


def test_a_model_needs_the_memory_of_the_named_gpu(elsewhere: Path) -> None:
    with pytest.raises(UserError, match="H100 SXM5 has 80 GB"):
        scenario_on(elsewhere, gpu="h100-sxm5", name="llama3-70b")


@pytest.mark.parametrize("file", ["described", "hgx-h100"])
def test_a_contradiction_to_the_platform_is_refused(file: str, described: Path) -> None:
    path = described if file == "described" else Path(file)
    with pytest.raises(UserError, match="describes its GPU as H100 SXM5 of 989TFLOP/s and 80GB"):
        scenario_on(path, gpu="gb200")
    platform = platform_file(scenario_on(path, gpu="h100-sxm5"))
    assert file == "hgx-h100" or platform == described


def test_each_kind_is_that_of_a_shipped_cluster() -> None:
    assert set(get_args(GpuKind)) == set(GPU_KINDS)
    assert set(GPU_KINDS.values()) <= set(preset_names())
    names = {gpu_of_kind(kind).name.lower().replace(" ", "-") for kind in GPU_KINDS}
    assert names == set(GPU_KINDS)
