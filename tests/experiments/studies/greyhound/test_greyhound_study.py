"""Greyhound's published speeds, from the loop's runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from faultline.experiments.runs.single_run import run
from faultline.experiments.studies.greyhound import study
from faultline.experiments.studies.greyhound.study import draw, injected
from matplotlib.figure import Figure


def speed(tmp_path: Path, setting: tuple[int, ...], reaction: str) -> float:
    record = run(injected(tmp_path, setting, reaction).scenario, 0)
    return 60.0 * record["completed_steps"] / record["time_s"]


@pytest.mark.paper("Greyhound", "steps a minute of 256 H800 with remedies", "reproduce-greyhound")
def test_as_many_steps_a_minute_as_published(tmp_path: Path) -> None:
    """29.8 of 37.4 where 18.9 are done without: of the usual setting, and with three at once."""
    assert speed(tmp_path, study.USUAL, "ignore") == pytest.approx(study.WITHOUT, rel=1e-3)
    found = speed(tmp_path, study.USUAL, "ski-rental")
    assert found == pytest.approx(study.WITH, rel=0.15)
    more = (*study.USUAL[:3], 3, 24)
    assert speed(tmp_path, more, "ignore") == pytest.approx(study.WITHOUT, rel=1e-3)
    assert study.WITHOUT < speed(tmp_path, more, "ski-rental") < found


@pytest.mark.parametrize(("links", "at_once"), [(0, 1), (4, 3), (8, 1)])
def test_something_is_slow_all_the_time(links: int, at_once: int) -> None:
    rows = study.injections(links, at_once, 10)
    assert len(rows) == len({what for _, what, _, _ in rows}) == 12
    assert sum(what.startswith("adapter") for _, what, _, _ in rows) == links
    last_s = max(begin_s + lasts_s for begin_s, _, lasts_s, _ in rows)
    for time_s in range(0, int(last_s), 30):
        slow = sum(begin_s <= time_s < begin_s + lasts_s for begin_s, _, lasts_s, _ in rows)
        assert 1 <= slow <= at_once + 2


def test_bands_and_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved_bytes: Callable[[Figure], int]
) -> None:
    """32 micro-batches: one replica that is slow leaves 1.275, 1.125 and 1.25, by hand."""
    monkeypatch.setattr(study, "MICRO_BATCHES", (32,))
    points = list(study.one_slow(tmp_path))
    runs = [{**dict(one.labels), **run(one.scenario, 0)} for one in points]
    left = study.left_table(pd.DataFrame(runs))
    dealt = study.band_table(left[left.reaction == "redeal"], "left", ["replicas", "published"])
    assert list(dealt["mean"]) == pytest.approx([1.275, 1.125, 1.25], rel=2e-3)
    assert list(dealt.published) == [1.3, 1.1, 1.2]
    # Steps in 60 s.
    done = [20.0] * len(study.REACTIONS) + [20.0, 30.0]
    reactions = [*study.REACTIONS, "ski-rental", "ski-rental"]
    speeds = study.speed_table(
        pd.DataFrame({"reaction": reactions, "completed_steps": done, "time_s": 60.0})
    )
    band = study.band_table(speeds, "speed", ["inputs", "reaction", "published"]).iloc[-1]
    assert band.tolist() == ["swept", "ski-rental", 29.8, 25.0, 20.0, 30.0]
    assert saved_bytes(draw(left, speeds)) > 10_000
