"""The order of a stage's passes: properties that every schedule has."""

from __future__ import annotations

from itertools import product

from faultline.simulator.pattern.pipeline_schedule import Pass, stage_passes
from hypothesis import given
from hypothesis import strategies as st

DEGREES = {
    "stages": st.integers(1, 6),
    "virtual_stages": st.integers(1, 4),
    "rounds": st.integers(1, 4),
    "stage": st.integers(0, 5),
}


@given(**DEGREES)
def test_every_pass_comes_once_and_forward_first(
    stages: int, virtual_stages: int, rounds: int, stage: int
) -> None:
    stage %= stages
    micro_batches = rounds * stages
    passes = list(stage_passes(stage, stages, virtual_stages, micro_batches))
    parts = range(stage, stages * virtual_stages, stages)
    expected = {Pass(*each) for each in product((True, False), parts, range(micro_batches))}
    assert len(passes) == len(expected)
    assert set(passes) == expected
    place = {pass_: number for number, pass_ in enumerate(passes)}
    for part, micro_batch in product(parts, range(micro_batches)):
        assert place[Pass(True, part, micro_batch)] < place[Pass(False, part, micro_batch)]


@given(stages=st.integers(1, 8), micro_batches=st.integers(1, 20), stage=st.integers(0, 7))
def test_a_stage_keeps_no_more_micro_batches_than_stages_follow_it(
    stages: int, micro_batches: int, stage: int
) -> None:
    """One forward, one backward: stage i keeps min(p - i, m) sets of activations."""
    stage %= stages
    kept = most = 0
    for pass_ in stage_passes(stage, stages, 1, micro_batches):
        kept += 1 if pass_.forward else -1
        most = max(most, kept)
    assert kept == 0
    assert most == min(stages - stage, micro_batches)


def test_interleaving_as_its_authors_draw_it() -> None:
    """Narayanan et al. 2021, figure 4: the first of four stages takes four of part 0, then part 4.

    It has 2 (p - 1) + (v - 1) p = 10 forward passes ahead of its first backward pass.
    """
    passes = list(stage_passes(0, 4, 2, 8))
    ahead = [(pass_.part, pass_.micro_batch) for pass_ in passes[:11]]
    first_round = [(0, 0), (0, 1), (0, 2), (0, 3), (4, 0), (4, 1), (4, 2), (4, 3)]
    assert ahead == [*first_round, (0, 4), (0, 5), (0, 6)]
    assert passes[11] == Pass(False, 4, 0)
