"""The advice over the priors, followed in worlds that it has not seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from faultline.experiments.analysis.intervals import interval_of
from faultline.experiments.job.sampled_job import quantiles_of
from faultline.experiments.planner.planning import answer_plan
from faultline.experiments.planner.simulation import simulate_worlds
from faultline.experiments.planner.situation import read_situation

from tests.experiments.analysis.sobol import sobol_design

JOB = """
version = 2
name = "contested"
[job]
groups = 24
gpus = 768
steps = 2000
[times]
compute_s = 30.0
all_reduce_s = 2.0
checkpoint_write_s = 20.0
restart_s = 400.0
shrink_s = 30.0
[rejoin]
when = "at-restart"
[failures]
mtbf_s = 6000.0
[uncertain]
"failures.mtbf_s" = { kind = "log-uniform", low = 800, high = 10000, source = "a test" }
"times.restart_s" = { kind = "log-uniform", low = 300, high = 6000, source = "a test" }
"""
"""At the scenario's values checkpoints win; they lose most where restarts are more and longer."""

WORLDS = 200
OTHER_SEEDS = 1_000_000


@pytest.mark.slow
def test_the_realised_regret_is_as_stated_and_below_that_of_the_answer_at_the_values(
    tmp_path: Path,
) -> None:
    path = tmp_path / "contested.toml"
    path.write_text(JOB, encoding="utf-8")
    situation = read_situation(str(path))
    schemes = ["checkpoint", "replication", "spare"]
    at_values = answer_plan(situation, schemes, ["storage"], at_values=True)
    assert at_values.rows[0].choice.scheme == "checkpoint"
    answer = answer_plan(situation, schemes, ["storage"])
    assert answer.costs is not None
    assert answer.rows[0].choice.scheme == "spare"
    quantiles = quantiles_of(answer.keys, schemes, situation.mtbf_s)
    worlds = sobol_design(quantiles, WORLDS, seed=7)
    choices = [*answer.choices, at_values.rows[0].choice]
    cap_s = answer.costs.cap_s
    lives = simulate_worlds(
        choices, [worlds] * len(choices), range(WORLDS), answer.steps, cap_s, OTHER_SEEDS
    )
    means_s = np.array([np.minimum(one.time_s, cap_s).mean(axis=1) for one in lives])
    regrets_s = means_s - means_s[:-1].min(axis=0)
    advised = answer.costs.candidates.index(answer.advised)
    realised = interval_of(regrets_s[advised].tolist())
    of_values = interval_of(regrets_s[-1].tolist())
    stated = answer.rows[0].judgement.regret
    assert stated.low < realised.mean < stated.high
    assert realised.high < of_values.low
