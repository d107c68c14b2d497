"""Jobs that were made up to contradict a plan: their advice in new worlds, with new failures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from faultline.experiments.analysis.design import design_by_name
from faultline.experiments.job.sampled_job import quantiles_of
from faultline.experiments.planner.planning import Effort, answer_plan
from faultline.experiments.planner.simulation import simulate_worlds
from faultline.experiments.planner.situation import read_situation

SCHEMES = ["checkpoint", "replica-drop", "spare"]
WORLDS = 64
OTHER_SEED = 977

RUNS_OUT = """
[job]
groups = 12
gpus = 384
steps = 30_000
[times]
compute_s = 18.0
all_reduce_s = 1.0
checkpoint_write_s = 90.0
[failures]
mtbf_s = "3h"
[recovery]
hardware = "reschedule"
free_machines = 3
shortage = "wait"
[rejoin]
repair_s = "10h"
"""
"""Three free machines, and 3.3 under repair on average."""

CONTESTED = """
[job]
groups = 192
gpus = 6144
steps = 25_000
[times]
compute_s = 22.0
all_reduce_s = 1.2
checkpoint_write_s = 15.0
restart_s = 240.0
[failures]
mtbf_s = "50min"
distribution = "exponential"
"""
"""Checkpoints win if repairs take long, and replica drop wins if they do not."""

FEW_BUT_LONG = """
[job]
groups = 32
gpus = 1024
steps = 40_000
[times]
compute_s = 20.0
all_reduce_s = 1.0
checkpoint_write_s = 60.0
[failures]
mtbf_s = "15h"
[recovery]
hardware = "requeue"
requeue_s = "5h"
shortage = "requeue"
"""
"""Some fifteen failures, each of which is followed by hours in the queue if the job restarts."""

LEMONS = """
[job]
groups = 16
gpus = 2048
steps = 25_000
[times]
compute_s = 20.0
all_reduce_s = 1.0
checkpoint_write_s = 30.0
[failures]
model = "mix"
mix = "rsc-1"
[failures.kinds]
lemon_shape = 0.15
correlated_excess = 2.5
recurrence = 0.35
[recovery]
hardware = "reschedule"
shortage = "reschedule"
"""
"""A few nodes fail most of the time, in bursts, and a third of the repairs miss the cause."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "job",
    [RUNS_OUT, CONTESTED, FEW_BUT_LONG, LEMONS],
    ids=["runs-out", "contested", "few-but-long", "lemons"],
)
def test_new_worlds_do_not_contradict_the_advice(tmp_path: Path, job: str) -> None:
    """No other candidate is sooner by more than the stated loss, but for three standard errors."""
    path = tmp_path / "job.toml"
    path.write_text(f'version = 2\n[platform]\nfile = "hgx-h100"\n{job}', encoding="utf-8")
    situation = read_situation(str(path))
    answer = answer_plan(situation, SCHEMES, ["just-in-time"], Effort(16))
    assert answer.costs is not None
    design = design_by_name(
        quantiles_of(answer.keys, SCHEMES, situation.mtbf_s), WORLDS, OTHER_SEED
    )
    choices, cap_s = [row.choice for row in answer.rows], answer.costs.cap_s
    lives = simulate_worlds(
        choices,
        [design] * len(choices),
        range(WORLDS),
        answer.steps,
        cap_s,
        first_seed=OTHER_SEED << 32,
    )
    advised, *others = (np.minimum(one.time_s, cap_s).mean(axis=1) for one in lives)
    stated_s = answer.rows[0].judgement.regret.mean
    for other in others:
        later = advised - other
        error_s = later.std(ddof=1) / np.sqrt(WORLDS)
        assert later.mean() < stated_s + 3.0 * error_s
