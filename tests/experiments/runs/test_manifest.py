"""Sealed files: every bit comes back, and no damage goes unnoticed."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from faultline.experiments.runs.manifest import (
    DamagedError,
    seal,
    unseal,
)
from hypothesis import given, settings
from hypothesis import strategies as st

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8)
)
contents = st.dictionaries(
    st.text(max_size=5).filter(lambda key: key != "checksum"),
    st.one_of(
        scalars, st.lists(scalars, max_size=3), st.dictionaries(st.text(max_size=3), scalars)
    ),
    max_size=5,
)
SEALED = seal({"run_id": "0123456789abcdef", "record": {"time_s": 0.1, "restarts": 3}})


@settings(max_examples=50)
@given(content=contents)
def test_every_bit_comes_back_in_the_same_order(content: dict[str, Any]) -> None:
    back = unseal(seal(content))
    assert repr(back) == repr(content)


def test_numbers_that_json_does_not_know_come_back() -> None:
    back = unseal(seal({"ratio": math.inf, "none": math.nan, "seed": np.int64(3)}))
    assert back["ratio"] == math.inf
    assert math.isnan(back["none"])
    assert back["seed"] == 3


def test_a_file_that_was_cut_off_is_noticed() -> None:
    for length in range(len(SEALED) - 1):
        with pytest.raises(DamagedError):
            unseal(SEALED[:length])


def test_a_changed_letter_is_noticed() -> None:
    for position in range(len(SEALED) - 1):
        changed = bytearray(SEALED)
        changed[position] ^= 1
        with pytest.raises(DamagedError):
            unseal(bytes(changed))


@pytest.mark.parametrize(
    "foreign", [b"", b"[]", b"3", b'"text"', b"{}", b'{"run_id": 3}', b"\xff\xfe", b"[" * 100_000]
)
def test_what_was_never_sealed_is_noticed(foreign: bytes) -> None:
    with pytest.raises(DamagedError):
        unseal(foreign)


def test_an_edited_number_is_noticed() -> None:
    edited = json.loads(SEALED)
    edited["record"]["restarts"] = 4
    with pytest.raises(DamagedError, match="checksum"):
        unseal(json.dumps(edited).encode())
