"""Steps whose replicas share weights: their messages and overlap, against hand calculations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_reader import read_platform
from faultline.platforms.xml_writer import write_xml
from faultline.simulator.job.durations import StepTime
from faultline.simulator.pattern.activity_graph import Fold, passes_graph
from faultline.simulator.pattern.step_pattern import (
    PartWork,
    PassWork,
    StepPattern,
    edges_across,
    edges_within,
)
from faultline.simulator.workload.layout import Layout, place_on_platform

from tests.simulator.timing.test_step_times import NIC, NVLINK, SPEED, time_steps

UNITS, MICRO_BATCHES = 10, 3


def pattern_of(replicas: int, gather_s: float, reduce_s: float, overlap: float) -> StepPattern:
    """Return a step of one stage: units of 1 ms forward, 2 ms backward, messages on NVLinks."""
    forward, backward = (PassWork(UNITS * each * 1e-3 * SPEED) for each in (1, 2))
    size, reduced = UNITS * gather_s * NVLINK, UNITS * reduce_s * NVLINK
    part = PartWork(
        forward.with_units(UNITS, (size, 0.0), (0.0, 0.0)),
        backward.with_units(UNITS, (size, 0.0), (reduced, 0.0)),
    )
    nothing = (0.0,)
    return StepPattern(
        replicas, 1, 1, 1, MICRO_BATCHES, (part,), 0.0, 1.0, nothing, nothing, nothing,
        unit_overlap=overlap,
    )  # fmt: skip


def timed(
    folder: Path, *patterns: StepPattern, folds: bool = True, servers: int = 1
) -> list[StepTime]:
    path = folder / "servers.xml"
    write_xml(load_preset("hgx-h100", domains=servers, domains_per_leaf=servers), path)
    layout = Layout(patterns[0].data, 1, 1)
    hosts = place_on_platform(layout, read_platform(path))
    return time_steps(path, [(hosts, pattern) for pattern in patterns], folds=folds)


def expected_ms(gather: float, reduce: float) -> float:
    """Return the time of a micro-batch if all but the ends overlaps; links are shared.

    Forward: the first gather; then the slower of computing and gathering; the last computation.
    Backward likewise. Only the last reduction delays anything: it shares the link with the first
    gather of the next micro-batch.
    """
    forward = gather + (UNITS - 1) * max(1.0, gather) + 1.0
    link = (UNITS - 1) * gather + max(0.0, (UNITS - 2)) * reduce
    assert link < (UNITS - 1) * 2.0, (
        "only a link that keeps up with the computation is added by hand"
    )
    return forward + gather + UNITS * 2.0


@pytest.mark.parametrize("folds", [True, False])
@pytest.mark.parametrize("gather", [0.25, 0.9, 1.5])
def test_gathers_hide_behind_the_unit_before(gather: float, folds: bool, tmp_path: Path) -> None:
    """G + (n - 1) max(c, g) + c forward; backward they are faster than computations of 2 ms."""
    (time,) = timed(tmp_path, pattern_of(8, gather * 1e-3, 0.1e-3, 1.0), folds=folds)
    passes_s = (MICRO_BATCHES * expected_ms(gather, 0.1) + (MICRO_BATCHES - 1) * 0.1) * 1e-3
    assert time.passes_s == pytest.approx(passes_s, rel=2e-3)
    assert time.compute_s == pytest.approx(MICRO_BATCHES * UNITS * 3e-3)
    assert time.gather_s == pytest.approx(time.passes_s - time.compute_s)
    assert time.bubble_s == pytest.approx(0.0, abs=1e-9)
    # The gradients of the last unit reach their shards after the last computation.
    assert time.data_parallel_s == pytest.approx(0.1e-3, rel=2e-2)


def test_what_does_not_overlap_is_waited_for(tmp_path: Path) -> None:
    """Without overlap all gathers and reductions delay the passes; they share the link."""
    shown, hidden = timed(
        tmp_path, pattern_of(8, 0.25e-3, 0.1e-3, 0.0), pattern_of(8, 0.25e-3, 0.1e-3, 1.0)
    )
    sent_s = MICRO_BATCHES * UNITS * (2 * 0.25e-3 + 0.1e-3)
    assert shown.gather_s == pytest.approx(sent_s, rel=1e-2)
    ends_s = MICRO_BATCHES * 2 * 0.25e-3 + (MICRO_BATCHES - 1) * 0.1e-3
    assert hidden.gather_s == pytest.approx(ends_s, rel=1e-2)


def test_weights_that_are_not_prefetched_delay_the_backward_pass_alone(tmp_path: Path) -> None:
    """All of the second gathers are waited for, and the first unit of the first ones."""
    usual = pattern_of(8, 0.25e-3, 0.1e-3, 1.0)
    ahead, late = timed(tmp_path, usual, replace(usual, backward_prefetch=False))
    more_s = MICRO_BATCHES * (UNITS - 1) * 0.25e-3
    assert late.gather_s - ahead.gather_s == pytest.approx(more_s, rel=1e-2)


def test_kept_weights_are_gathered_once(tmp_path: Path) -> None:
    both = pattern_of(8, 0.25e-3, 0.0, 0.0)
    part = both.parts[0]
    backward = part.backward.with_units(UNITS, (0.0, 0.0), (0.0, 0.0))
    once = replace(both, parts=(replace(part, backward=backward),))
    twice, kept = timed(tmp_path, both, once)
    assert kept.gather_s == pytest.approx(twice.gather_s / 2, rel=1e-3)


def test_gathered_bytes_are_those_of_the_pattern() -> None:
    """However they are split into messages before and beside the computations of a pass."""
    for overlap in (0.0, 0.4, 1.0):
        pattern = pattern_of(4, 0.25e-3, 0.1e-3, overlap)
        graph = passes_graph(pattern, Fold.whole(pattern))
        sent = dict.fromkeys(("unit", "gradient"), 0.0)
        for activity in graph.activities:
            if activity.peer is not None:
                sent[activity.kind] += activity.amount
        part = pattern.parts[0]
        gathered = part.forward.gather_bytes + part.backward.gather_bytes
        whole = 4 * MICRO_BATCHES * (gathered + part.backward.reduce_bytes)
        assert sum(sent.values()) == pytest.approx(whole)
        computed = sum(each.amount for each in graph.activities if each.kind == "compute")
        assert computed == pytest.approx(4 * MICRO_BATCHES * pattern.stage_flop[0])


def test_rings_of_hybrid_sharding() -> None:
    """A ring in each domain gathers; each member meets those of its place in other domains."""
    domains = "AABB"
    assert [edge[:2] for edge in edges_within(domains)] == [(0, 1), (1, 0), (2, 3), (3, 2)]
    assert [edge[:2] for edge in edges_across(domains)] == [(0, 2), (1, 3), (2, 0), (3, 1)]
    assert all(edge.share == 1.0 for edge in edges_within(domains))
    assert edges_within("ABC") == ()


def test_hybrid_gathers_use_no_adapter(tmp_path: Path) -> None:
    """Gathers of 0.25 ms of NVLink would take nine times as long over adapters."""
    hybrid = replace(
        pattern_of(16, 0.25e-3, 0.1e-3, 1.0),
        shards_in_domains=True,
        gradient_bytes=(8 * 1e-3 * NIC,),
    )
    (time,) = timed(tmp_path, hybrid, servers=2)
    ends_s = MICRO_BATCHES * 2 * 0.25e-3 + (MICRO_BATCHES - 1) * 0.1e-3
    assert time.gather_s == pytest.approx(ends_s, rel=1e-2)
    # Of gradients an adapter carries the eighth that its GPU has.
    assert time.data_parallel_s == pytest.approx(1e-3 + 0.1e-3, rel=0.1)
