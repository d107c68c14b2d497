"""Both engines agree on every scheme under every preset of recovery, moves of state included."""

from __future__ import annotations

from itertools import cycle, product

import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.config.tables.recovery import PRESETS
from faultline.experiments.runs.single_run import run
from faultline.strategies.registry import all_strategies

SETTINGS = {
    "job.steps": 25,
    "job.time_limit_s": 3000.0,
    "failures.mtbf_s": 40.0,
    "checkpoint.interval_steps": 5,
    "times.checkpoint_write_s": 5.0,
    "times.restart_s": None,
    "recovery.detect_s": None,
    "recovery.launch_s": 4.0,
    "rejoin.repair_s": 90.0,
}
COUNTS = ("failures", "restarts", "rejoined", "reorderings", "states_refused", "standby_failures")
SCHEMES = sorted(all_strategies())
EACH_ONCE = set(zip(SCHEMES, cycle(PRESETS), strict=False))


@pytest.mark.parametrize(
    ("scheme", "preset"),
    [
        pytest.param(*pair, marks=() if pair in EACH_ONCE else pytest.mark.slow)
        for pair in product(SCHEMES, PRESETS)
    ],
)
def test_engines_agree(scheme: str, preset: str) -> None:
    """Within 1 %; what happens is the same."""
    redundancy = 2 if "spare" in scheme or "replication" in scheme else None
    named = {"strategy.name": scheme, "strategy.redundancy": redundancy}
    asked = load_scenario("mecefo-7b").with_({**SETTINGS, **named, "recovery.preset": preset})
    ours, theirs = run(asked, 1), run(asked, 1, "simgrid")
    assert [theirs[name] for name in COUNTS] == [ours[name] for name in COUNTS]
    assert ours["failures"] > 0
    for name in ("time_s", "restart_s", "reconfigure_s", "load_s", "patch_compute_s"):
        assert theirs[name] == pytest.approx(ours[name], rel=0.01, abs=1e-3), name
