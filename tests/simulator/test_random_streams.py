"""Streams: numpy's own spawned sequences, whatever the seed."""

from __future__ import annotations

import numpy as np
from faultline.simulator.random_streams import Purpose, stream
from hypothesis import example, given
from hypothesis import strategies as st


@given(
    st.integers(0, 2**200), st.sampled_from(Purpose), st.one_of(st.integers(0, 99), st.integers(0))
)
@example(0, Purpose.GROUP_FAILURES, 0)
@example(2**32, Purpose.COMPUTE_JITTER, 2**32)
@example(2**128, Purpose.STANDBY_LIVES, 1)
def test_a_stream_is_the_child_of_its_seed_by_purpose_and_index(
    seed: int, purpose: Purpose, index: int
) -> None:
    spawned = np.random.SeedSequence(seed, spawn_key=(int(purpose), index))
    expected = np.random.Generator(np.random.PCG64(spawned)).random(3)
    assert (stream(seed, purpose, index).random(3) == expected).all()
