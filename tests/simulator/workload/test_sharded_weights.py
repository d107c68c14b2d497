"""Weights that replicas share: bytes of a GPU and of its messages, against closed forms."""

from __future__ import annotations

from typing import Any

import pytest
from faultline.simulator.workload.gpu_memory import Precision, gpu_memory
from faultline.simulator.workload.kernels import A100
from faultline.simulator.workload.known_models import KNOWN_MODELS
from faultline.simulator.workload.layout import Layout
from faultline.simulator.workload.parallel_job import ParallelJob
from faultline.simulator.workload.transformer import Transformer, WorkloadError
from faultline.strategies.interface.split_backward import SplitBackward

MODEL = Transformer(4096, 4 * 4096, 32, 24, 2048, 51_200)
LLAMA = KNOWN_MODELS["llama3-70b"]
SIXTEEN_BITS = Precision(gradient_bytes=2.0)


def memory(sharding: Any, data: int = 64, **more: Any) -> float:
    layout = Layout(data, 1, 1)
    held = gpu_memory(LLAMA, layout, 1, 4, precision=SIXTEEN_BITS, sharding=sharding, **more)
    return held.total - held.activations


def test_state_of_a_gpu_by_hand() -> None:
    """16 bytes per parameter over all replicas, or those of a domain; and what is gathered.

    Gathered are two units of weights and one of gradients, of 2 bytes. The largest unit of this
    model is its output, 128,256 rows of 8,192 and a norm.
    """
    parameters, unit = LLAMA.parameters, (128_256 + 1) * 8_192
    assert memory("none") == 16 * parameters
    assert memory("optimizer") == (4 + 12 / 64) * parameters
    assert memory("full") == pytest.approx(16 / 64 * parameters + 3 * 2 * unit)
    assert memory("hybrid", shards=8) == pytest.approx(16 / 8 * parameters + 3 * 2 * unit)
    kept = 16 / 64 * parameters + 2 * parameters + 2 * unit
    assert memory("full", keeps_gathered=True) == pytest.approx(kept)
    assert memory("full", data=1) == memory("none", data=1)


def job_of(**changes: Any) -> ParallelJob:
    layout = changes.pop("layout", Layout(16, 1, 1))
    usual: dict[str, Any] = {"sharding": "full", "domain_replicas": 8} | changes
    return ParallelJob(MODEL, layout, 2, 8, A100, **usual)


@pytest.mark.parametrize("layout", [Layout(16, 1, 1), Layout(16, 4, 2), Layout(16, 2, 1, 3)])
def test_each_pass_gathers_all_weights_of_its_part(layout: Layout) -> None:
    """(d - 1)/d of 2 bytes per weight, and of 4 per gradient, at 96 % of the adapters."""
    job = job_of(layout=layout)
    pattern, numbers = job.pattern(), job.stage_parameters()
    for stage, weights in enumerate(numbers):
        parts = pattern.parts[stage :: layout.pipeline]
        sent = 15 / 16 * weights / 0.96
        assert sum(part.forward.gather_bytes for part in parts) == pytest.approx(2 * sent)
        assert sum(part.backward.gather_bytes for part in parts) == pytest.approx(2 * sent)
        assert sum(part.backward.reduce_bytes for part in parts) == pytest.approx(4 * sent)
        assert sum(part.forward.units for part in parts) == MODEL.layers / layout.pipeline
        assert all(part.forward.reduce_bytes == 0.0 for part in parts)
    assert not any(pattern.gradient_bytes)
    assert not any(pattern.hidden_gradient_bytes)
    # Each replica updates its share.
    plain = job_of(layout=layout, sharding="none").pattern()
    assert pattern.optimizer_flop[0] == pytest.approx(plain.optimizer_flop[0] / 16)


def test_kept_weights_are_not_gathered_again() -> None:
    part = job_of(reshard_after_forward=False).pattern().parts[0]
    assert part.forward.gather_bytes > part.backward.gather_bytes == 0.0


def test_rings_inside_a_domain_are_as_fast_as_published_ones() -> None:
    """Of each unit: by size, on NVLinks that reach less than their bandwidth."""
    part = job_of(layout=Layout(8, 1, 1)).pattern().parts[0]
    unit = 2 * job_of().stage_parameters()[0] / MODEL.layers
    ring = A100.ring(unit, 8, 1)
    assert part.forward.gather_bytes == pytest.approx(MODEL.layers * ring.size_bytes)
    assert part.forward.gather_hops == pytest.approx(MODEL.layers * ring.hops)


def test_hybrid_gathers_inside_and_reduces_between_domains() -> None:
    """Eight share all state; two such sets all-reduce 4 bytes per gradient at the end of a step."""
    hybrid, alone = job_of(sharding="hybrid"), job_of(layout=Layout(8, 1, 1))
    pattern, weights = hybrid.pattern(), hybrid.stage_parameters()[0]
    assert hybrid.shards == 8
    assert pattern.parts == alone.pattern().parts
    assert pattern.gradient_bytes[0] == pytest.approx(2 * 1 / 2 * 4 * weights / 0.96)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sharding": "hybrid", "domain_replicas": 1}, "several replicas in a scale-up domain"),
        ({"sharding": "hybrid", "domain_replicas": 6}, "do not divide 16"),
        ({"split": SplitBackward(2 / 3)}, "1f1b"),
    ],
)
def test_layouts_without_shared_weights_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        job_of(**changes)
