"""A straggler slows a step among all other groups, on both engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from faultline.experiments.job.resolving import resolve
from faultline.experiments.runs.single_run import run

from tests.simulator.drawn_cases import DrawnCase, apart
from tests.simulator.helpers import EXACT

MODEL: dict[str, Any] = {
    "job.steps": 6,
    "strategy.name": "replica-drop",
    "model.name": "custom",
    "model.layers": 8,
    "model.hidden": 1024,
    "model.ffn_hidden": 4096,
    "model.heads": 16,
    "model.sequence_tokens": 1024,
    "model.vocabulary": 32_000,
    "model.compute_efficiency": 0.5,
    "model.sharding": "none",
    "model.micro_batches": 4,
    "times.restart_s": 1.0,
    "times.checkpoint_write_s": 0.01,
    "checkpoint.interval_steps": 100,
    "failures.kinds.slow_found_s": 0.001,
}
SHAPES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # The last stage computes the vocabulary, too: passes are no sum of equal micro-batches.
    "dealt anew over uneven stages": (
        {"job.groups": 2, "model.pipeline": 4, "model.tensor": 4, "failures.kinds.slow": "redeal"},
        {"domains": 8, "gpus_per_domain": 4, "rail_optimised": True},
    ),
    # Pipelines cross servers, and their routes meet on spines.
    "routes of groups collide": (
        {"job.groups": 4, "model.pipeline": 3, "model.tensor": 2, "model.layers": 6},
        {
            "domains": 6,
            "gpus_per_domain": 4,
            "domains_per_leaf": 2,
            "rail_optimised": False,
            "oversubscription": [4],
            "routing": "ecmp",
            "spines": 2,
        },
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_step_with_a_straggler_is_simulated_with_all_groups(name: str, tmp_path: Path) -> None:
    keys, platform = SHAPES[name]
    case = DrawnCase(0, MODEL | keys, ("0.001,gpu-5,slow,100,9,",), platform)
    resolved = resolve(case.scenario(tmp_path))
    replayed, simulated = run(resolved, 0), run(resolved, 0, "simgrid")
    different = apart(replayed, simulated)
    assert {column for column, by in different.items() if by > EXACT} == set()
    assert replayed["degraded_s"] > 0.0
    assert replayed.get("remedies.redeal", 0) == ("dealt" in name)
