"""``import faultline``: what a notebook calls, and what it shows."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import faultline as fl
import pandas as pd
import pytest
from faultline.experiments.analysis.quantities import number_text
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.notebook.functions import scenario_with

from tests.child_processes import output_of_python, run_python

SHORT = {"job.steps": 100, "job.groups": 24}


def test_the_import_alone_brings_nothing_along() -> None:
    heavy = {"numpy", "pandas", "pydantic", "rich"}
    code = f"import sys, faultline; print(sorted({heavy} & set(sys.modules)))"
    assert output_of_python("-c", code) == "[]\n"


def test_changes_are_the_same_however_they_are_written() -> None:
    ways = [
        fl.run("spare-study", {"job.steps": 100, "job.groups": 24}, seed=3),
        fl.run("spare-study", job__steps=100, job__groups=24, seed=3),
        fl.run("spare-study", job={"steps": 100, "groups": 24}, seed=3),
        fl.run(load_scenario("spare-study", SHORT), seed=3),
    ]
    assert all(one == ways[0] for one in ways)
    assert fl.run("spare-study", SHORT, seed=4) != ways[0]


@pytest.mark.parametrize("call", [fl.run, fl.timeline, fl.Job])
def test_a_change_without_effect_is_refused_as_on_the_command_line(
    call: Callable[..., object],
) -> None:
    """Of a scenario by name and of one that was loaded."""
    for scenario in ("spare-sound", scenario_with("spare-sound")):
        with pytest.raises(UserError, match=r"^times.rejoin_s=60: has no effect with rejoin.when"):
            call(scenario, job__steps=5, times__rejoin_s=60)


@pytest.mark.parametrize(
    ("call", "printed"),
    [
        (lambda: fl.run("spare-study", SHORT, seed=-1), "seed = -1: use a whole number from 0"),
        (lambda: fl.run("spare-study", SHORT, engine="bogus"), "engine = 'bogus': use 'replay' or"),  # type: ignore[arg-type]
        (lambda: fl.sweep("spare-study", {"job.groups": 5}), "job.groups = 5: list its values"),  # type: ignore[dict-item]
        (lambda: fl.plan("spare-study", gpus=-3), "gpus = -3: use a whole number from 1"),
        (lambda: fl.compare(pd.DataFrame()), "these are no runs of a sweep"),
    ],
)
def test_absurd_arguments_are_refused_in_a_line(call: Callable[[], object], printed: str) -> None:
    with pytest.raises(UserError) as caught:
        call()
    assert str(caught.value).startswith(printed)


def test_the_mfu_is_that_of_the_models_flop() -> None:
    """By hand: 6 FLOP a parameter and token, and 12 s h a layer for the scores of attention."""
    servers = str(fl.Platform("hgx-h100", domains=8).path)
    job = fl.Job(
        "llama3-70b-stress", model__name="llama3-8b", job__groups=2, platform__file=servers
    )
    table = job.scenario.model
    tokens = 2 * 8192 * table.micro_batches * table.micro_batch_sequences
    per_token = 6 * (8.03e9 - 128_256 * 4096) + 12 * 32 * 4096 * 8192
    by_hand = per_token * tokens / (job.step_s * 64 * 989.4e12)
    assert job.gpus == 64
    assert job.mfu == pytest.approx(by_hand, rel=0.02)
    assert fl.Job("spare-study").mfu is None


def test_a_sweep_is_a_frame_and_is_compared(tmp_path: Path) -> None:
    grid = {"strategy.name": ["replication", "spare"]}
    kept = {"seeds": 2, "workers": 1, "file": tmp_path / "kept.sqlite"}
    frame = fl.sweep("spare-study", grid, **kept, **SHORT)  # type: ignore[arg-type]
    again = fl.sweep("spare-study", grid, seeds=2, workers=1, strategy={}, **SHORT)  # type: ignore[arg-type]
    pd.testing.assert_frame_equal(frame, again)
    assert list(frame["strategy.name"]) == ["replication"] * 2 + ["spare"] * 2
    found = fl.compare(frame, baseline="replication")
    (change,) = found.table["difference"]
    means = frame.groupby("strategy.name")["time_to_train_ratio"].mean()
    assert change == pytest.approx(means["spare"] - means["replication"])
    assert repr(found) == repr(fl.compare(tmp_path / "kept.sqlite", baseline="replication"))


def test_a_sweep_in_which_nothing_works_gives_the_reason() -> None:
    bad = {"job.gpus": [250], "job.groups": [24], "platform.file": ["hgx-h100"]}
    with pytest.raises(UserError, match="every run failed; the first: "):
        fl.sweep("spare-sound", bad, seeds=1, workers=1, job__steps=5)  # type: ignore[arg-type]


def test_a_plan_advises_and_shows_what_it_costs() -> None:
    plan = fl.plan(
        "spare-study",
        schemes=["checkpoint", "spare"],
        protections=["storage"],
        worlds=4,
        steps=100,
        price_per_gpu_hour=2.0,
        job__groups=24,
    )
    assert plan.sentence in " ".join(repr(plan).split())
    assert plan.scheme == plan.table["scheme"].iloc[0]
    shown = repr(plan)
    assert "M cost" in shown
    row = plan.table.loc[plan.table["scheme"] == "spare"].iloc[0]
    assert number_text(row["gpu_hours"] * 2.0 / 1e6, 3) in shown


def test_a_timeline_is_drawn_and_saved(tmp_path: Path) -> None:
    course = fl.timeline("spare-study", SHORT)
    assert course.record["time_s"] == pytest.approx(fl.run("spare-study", SHORT)["time_s"])
    assert course.activities["end_s"].iloc[-1] == pytest.approx(course.record["time_s"])
    assert course._repr_png_().startswith(b"\x89PNG")
    assert course.save(tmp_path / "run.json").stat().st_size > 1000


def test_a_platform_is_read_changed_and_drawn(tmp_path: Path) -> None:
    small = fl.Platform("hgx-h100", domains=2)
    assert small.gpus == 16
    copy = small.save(tmp_path / "copy.xml")
    assert fl.Platform(copy).gpus == 16
    with pytest.raises(UserError, match="edit the XML"):
        fl.Platform(copy, domains=3)
    with pytest.raises(fl.UserError, match=r"nope\.xml: cannot be read"):
        fl.Platform(tmp_path / "nope.xml")
    assert small._repr_png_().startswith(b"\x89PNG")


def test_a_script_need_not_be_guarded(tmp_path: Path) -> None:
    """Processes of SimGrid do not run it again: it would start others without end."""
    script = tmp_path / "short.py"
    line = 'import faultline as fl\nprint(round(fl.Job("spare-sound", job__groups=24).step_s))\n'
    script.write_text(line, encoding="utf-8")
    done = run_python(script, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1


@pytest.mark.slow
def test_the_code_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).parents[3] / "docs" / "running.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(block, {})
    assert "differences from scheme replication" in capsys.readouterr().out
