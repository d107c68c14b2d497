"""Plans beside independent closed forms: Daly's expected time of a job with checkpoints."""

from __future__ import annotations

from itertools import product
from math import exp

import pytest
from faultline.experiments.planner.planning import Effort, answer_plan
from faultline.experiments.planner.situation import read_situation

from tests.experiments.planner.small_jobs import STORAGE
from tests.stated_times import NOTHING_MEASURED

STEP_S, STEPS, LOAD_S = 5.0, 20_000, 10.0
CASES = list(product((3000.0, 10_000.0, 40_000.0), (120.0, 900.0), (15.0, 60.0)))


def daly_s(mtbf_s: float, restart_s: float, save_s: float, interval_steps: int) -> float:
    """Return the expected time: M exp(R / M) (exp((tau + C) / M) - 1) for each interval tau.

    Daly 2006, *A higher order estimate of the optimum checkpoint interval for restart dumps*,
    equation 13: exponential failures, which strike restarts and checkpoints too.
    """
    interval_s = interval_steps * STEP_S
    each_s = mtbf_s * exp(restart_s / mtbf_s) * (exp((interval_s + save_s) / mtbf_s) - 1.0)
    return STEPS / interval_steps * each_s


@pytest.mark.parametrize(("mtbf_s", "restart_s", "save_s"), CASES)
def test_checkpoints_alone_take_dalys_time(mtbf_s: float, restart_s: float, save_s: float) -> None:
    settings = [
        *(*NOTHING_MEASURED, "job.groups=10", "job.gpus=80", f"job.steps={STEPS}"),
        *(f"times.compute_s={STEP_S - 0.01}", "times.all_reduce_s=0.01", "job.compute_jitter=0"),
        *("~times.all_reduce_per_group_s", "failures.distribution=exponential"),
        *(f"failures.mtbf_s={mtbf_s}", f"times.restart_s={restart_s}", "failures.clock=renewal"),
        *(f"times.checkpoint_write_s={save_s}", f"times.checkpoint_load_s={LOAD_S}"),
        "restart.failure_during=begins-anew",
    ]
    situation = read_situation("spare-sound", settings)
    effort = Effort(32, steps=STEPS)
    answer = answer_plan(situation, ["checkpoint"], STORAGE, effort, at_values=True)
    (row,) = answer.rows
    expected_s = daly_s(mtbf_s, restart_s + LOAD_S, save_s, row.choice.interval_steps)
    assert answer.costs is not None
    runs_s = answer.costs.costs[0]
    error_s = float(runs_s.std(ddof=1)) / runs_s.size**0.5
    tolerance_s = 3.0 * error_s + 0.01 * expected_s
    assert row.judgement.bands.mean == pytest.approx(expected_s, abs=tolerance_s)
