"""Where groups are unlike, it counts who is left, who writes and who loads: in both engines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.durations import durations_of
from faultline.platforms import load_preset, write_xml
from faultline.simulator.pattern.step_shares import StepShares

from tests.simulator.helpers import agreed, alike, traced

SOUND = 6.25e9
"""Bytes/s of an adapter of the study's cluster, 12.5e9, behind its 2:1 core."""
SLOW = 1e9
"""Bytes/s of the adapter of group 3."""


@pytest.fixture(scope="module")
def slow_adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("uneven") / "slow.xml"
    write_xml(load_preset("spare-600k", groups=8), path)
    edited, count = re.subn(
        r'("nic-000003" bandwidth=)"12.5GBps"', r'\1"1GBps"', path.read_text(encoding="utf-8")
    )
    assert count == 1
    path.write_text(edited, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def thin_core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four servers a leaf, two a group: neighbours pass the 8:1 core, or do not."""
    path = tmp_path_factory.mktemp("uneven") / "core.xml"
    spec = load_preset("hgx-h100", domains=8, domains_per_leaf=4, oversubscription=[8])
    write_xml(spec, path)
    return path


def on_slow(path: Path, *more: str) -> list[str]:
    return ["job.groups=8", f'platform.file="{path}"', *more]


def on_core(path: Path, *more: str) -> list[str]:
    job = ["job.groups=4", "job.gpus=64", "job.parameter_bytes=1e11"]
    return [*job, f'platform.file="{path}"', *more]


@pytest.mark.parametrize("scheme", ["spare", "replica-drop", "checkpoint"])
@pytest.mark.parametrize(
    "kept",
    [
        ["~restart.readers"],
        pytest.param(["restart.readers=every-group"], marks=pytest.mark.slow),
        pytest.param(["protection.name=async-storage"], marks=pytest.mark.slow),
        pytest.param(["protection.name=gemini"], marks=pytest.mark.slow),
    ],
    ids=lambda kept: kept[0],
)
@pytest.mark.parametrize(
    "platform", ["slow_adapter", pytest.param("thin_core", marks=pytest.mark.slow)]
)
def test_engines_agree_whoever_is_left(
    platform: str, kept: list[str], scheme: str, request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(platform)
    on = on_slow if platform == "slow_adapter" else on_core
    changes = ["job.steps=60", "job.compute_jitter=0", "failures.mtbf_s=1000"]
    changes += [f"strategy.name={scheme}", *kept]
    changes += ["strategy.redundancy=2"] * (scheme == "spare")
    record, _ = agreed("spare-sound", on(path, *changes), seed=0)
    assert record["failures"] >= 6


def test_the_slow_one_slows_as_long_as_it_is_there(slow_adapter: Path) -> None:
    """2 (n - 1)/n of its bytes pass its adapter; without it, all is as where no adapter is slow."""
    sound_s = durations_of(load_scenario("spare-sound", ["job.groups=8"])).all_reduce_s
    rings = durations_of(load_scenario("spare-sound", on_slow(slow_adapter))).rings
    assert rings is not None
    everybody, others = tuple(range(8)), (0, 1, 2, 4, 5, 6, 7)
    with_it, without_it = (rings.sync_s(StepShares(members)) for members in (everybody, others))
    size_bytes = with_it * SLOW / (2 * 7 / 8)
    assert without_it == pytest.approx(sound_s(7), rel=1e-3)
    pair = rings.sync_s(StepShares((2, 3)))
    assert pair == pytest.approx(size_bytes / SLOW, rel=1e-3)


def test_the_storage_waits_for_who_is_slow(slow_adapter: Path, tmp_path: Path) -> None:
    """A group writes and reads through its adapter; passed on, all wait for who gets it slowly."""
    text, path = slow_adapter.read_text(encoding="utf-8"), tmp_path / "fast-storage.xml"
    fast, count = re.subn(r'(id="storage-(read|write)" bandwidth=)"[^"]+"', r'\1"1TBps"', text)
    assert count == 2
    path.write_text(fast, encoding="utf-8")
    settings = on_slow(path, "~times.checkpoint_write_s", "restart.readers=one-group")
    storage = durations_of(load_scenario("spare-sound", settings)).storage
    assert storage is not None
    size_bytes = storage.save_s(3) * SLOW
    assert storage.save_s(0) == pytest.approx(size_bytes / SOUND, rel=1e-3)
    read_s, passed_s = size_bytes / SOUND, size_bytes / SLOW
    assert storage.load_s((0, 1, 2)) == pytest.approx(2 * read_s, rel=1e-2)
    assert storage.load_s((0, 1, 3)) == pytest.approx(read_s + passed_s, rel=1e-2)
    assert storage.load_s((3, 4, 5)) == pytest.approx(2 * passed_s, rel=1e-2)


def test_a_run_is_faster_once_the_slow_one_has_gone(slow_adapter: Path, tmp_path: Path) -> None:
    """Its group dies for good in the second step, and a sound one in the control."""
    took_s, played = {}, 0
    for gone in (3, 5):
        changes = ["strategy.name=replica-drop", "job.steps=20", "job.compute_jitter=0"]
        changes += traced(tmp_path, f"100,group-{gone},hardware,,,1000000")
        scenario = load_scenario("spare-sound", on_slow(slow_adapter, *changes))
        record = alike(scenario, rel=1e-9)
        took_s[gone], played = record["time_s"], record["played_steps"]
    rings = durations_of(scenario).rings
    assert rings is not None
    slow_s, sound_s = (
        rings.sync_s(StepShares(tuple(group for group in range(8) if group != gone)))
        for gone in (5, 3)
    )
    steps = (took_s[5] - took_s[3]) / (slow_s - sound_s)
    assert steps == pytest.approx(played - 1, rel=1e-9)


def test_nobody_is_asked_where_all_are_alike() -> None:
    alike = durations_of(load_scenario("spare-sound", ["job.groups=8"]))
    assert (alike.rings, alike.storage) == (None, None)
