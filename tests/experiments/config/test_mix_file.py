"""Mixes of causes: the shipped ones are as published, and mistakes are told in one line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.mix_file import load_mix, shipped_mixes
from faultline.simulator.failures.distributions import Constant, Lognormal, Uniform
from faultline.simulator.failures.failure import JobLayout
from faultline.simulator.failures.mix import CauseMix

HOUR_S = 3600.0
DAY_S = 86_400.0
TEXT = """source = "our log of 2025"

[observed]
gpus = 1_000
span = "10d"

[[cause]]
name = "gpu-memory"
count = 40
level = "gpu"
kind = "hardware"
repair = { least = "3d", most = "5d" }

[[cause]]
name = "crash"
per_1000_node_days = 8
level = "domain"
kind = "software"
repair = "90min"
shape = 0.7
"""


def mtbf_h(name: str, gpus: int) -> float:
    layout = JobLayout(1, gpus, 8, 8, 16)
    return CauseMix(load_mix(name).causes(), layout).mtbf_s / HOUR_S


@pytest.mark.parametrize(
    ("name", "gpus", "published_h"),
    [
        ("llama3", 16_384, 3.09),
        ("rsc-1", 16_384, 1.8),
        ("rsc-1", 131_072, 0.23),
        # 1 / (2,048 nodes * 2.34 per 1,000 node-days).
        ("rsc-2", 16_384, 24 / (2.048 * 2.34)),
    ],
)
def test_mean_times_between_failures_are_the_published_ones(
    name: str, gpus: int, published_h: float
) -> None:
    digits = 2 if published_h < 1 else 3
    assert mtbf_h(name, gpus) == pytest.approx(published_h, rel=0.5 * 10 ** (1 - digits))


def test_the_extrapolation_of_llama_3_to_600k_gpus_is_the_five_minutes_of_the_spare_study() -> None:
    assert mtbf_h("llama3", 600_000) * 60 == pytest.approx(5.0, rel=0.02)


def test_llama_3_s_counts() -> None:
    """419 in 54 days on 16,384 GPUs, 78 % of them hardware: 3.79 per 1,000 node-days."""
    causes = load_mix("llama3").causes()
    counts = [cause.rate_per_gpu_s * 16_384 * 54 * DAY_S for cause in causes]
    assert sum(counts) == pytest.approx(419)
    by_name = dict(zip((cause.name for cause in causes), counts, strict=True))
    assert by_name["faulty-gpu"] == pytest.approx(148)
    assert by_name["switch-or-cable"] == pytest.approx(35)
    hardware = [c for c, cause in zip(counts, causes, strict=True) if cause.kind == "hardware"]
    assert sum(hardware) / 419 == pytest.approx(0.78, abs=0.005)
    assert sum(counts) / (54 * 2.048) == pytest.approx(3.79, abs=0.005)


@pytest.mark.parametrize("name", shipped_mixes())
def test_shipped_mixes_name_their_sources_and_repairs(name: str) -> None:
    mix = load_mix(name)
    assert mix.name == name
    assert "arXiv" in mix.source
    for cause in mix.causes():
        if cause.kind not in ("hardware", "network", "software") or cause.name == "false-alarm":
            continue
        assert cause.repair is not None
        mean_s = 4 * DAY_S if cause.kind == "hardware" else 3 * HOUR_S
        assert cause.repair.mean_s == mean_s


def test_a_cause_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "slow.toml"
    cause = """
source = "made up"
[[cause]]
name = "hot"
level = "gpu"
kind = "slow"
per_1000_node_days = 1
factor = { least = 1.1, most = 3 }
lasts = { median = "10min", sigma = 1.5 }
"""
    path.write_text(cause, encoding="utf-8")
    (hot,) = load_mix(str(path)).causes()
    assert (hot.lasts, hot.factors, hot.at_once) == (Lognormal(600.0, 1.5), (1.1, 3.0), 1.0)
    for line in ("factor", "lasts"):
        path.write_text(re.sub(f"{line} = .*", "", cause), encoding="utf-8")
        with pytest.raises(UserError, match=f"of kind slow needs {line}"):
            load_mix(str(path))


def test_a_mix_of_one_s_own(tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    path.write_text(TEXT, encoding="utf-8")
    mix = load_mix(str(path))
    assert mix.name == "ours"
    memory, crash = mix.causes()
    assert memory.rate_per_gpu_s == pytest.approx(40 / (1000 * 10 * DAY_S))
    assert memory.repair == Uniform(3 * DAY_S, 5 * DAY_S)
    assert crash.rate_per_gpu_s == pytest.approx(8 / (1000 * 8 * DAY_S))
    assert (crash.repair, crash.shape) == (Constant(5400.0), 0.7)


@pytest.mark.parametrize(
    ("old", "new", "printed"),
    [
        ('level = "domain"', 'level = "domian"', "ours.toml:17: cause[2].level = 'domian'"),
        ('repair = "90min"', 'repairs = "90min"', "did you mean 'cause.repair'?"),
        ('repair = "90min"', 'repair = "-3h"', "ours.toml:19: cause[2].repair"),
        ('least = "3d"', 'least = "6d"', "ours.toml:12: cause[1].repair: least should not exceed"),
        ('span = "10d"', 'span = "0s"', "ours.toml:5: observed.span"),
        ('span = "10d"\n', "", "observed.span: is missing"),
        ('name = "crash"', 'name = "gpu-memory"', "'gpu-memory' is stated twice"),
        ("per_1000_node_days = 8\n", "", "needs a rate"),
        ('repair = "90min"', 'lasts = "3h"', "lasts is of kinds"),
        ('repair = "90min"', 'repair = { median = "1h" }', "median and sigma"),
        ('[observed]\ngpus = 1_000\nspan = "10d"\n', "", "[observed]"),
        ('source = "our log of 2025"\n', "", "source: is missing"),
        ('source = "our', "source = our", "ours.toml:1: this is no TOML"),
        (TEXT, 'source = "x"\ncause = 3', "should be a list"),
    ],
)
def test_mistakes_are_told_with_their_line(
    old: str, new: str, printed: str, tmp_path: Path
) -> None:
    path = tmp_path / "ours.toml"
    assert old in TEXT
    path.write_text(TEXT.replace(old, new), encoding="utf-8")
    with pytest.raises(UserError) as caught:
        load_mix(str(path))
    assert printed in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_missing_is_told_with_the_shipped_mixes() -> None:
    with pytest.raises(UserError, match="llama3, llama3-kinds, rsc-1, rsc-1-kinds, rsc-2"):
        load_mix("nowhere.toml")
