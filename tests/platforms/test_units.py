from time import process_time

import pytest
from faultline.platforms.errors import PlatformError
from faultline.platforms.units import (
    BANDWIDTH,
    POWER,
    SIZE,
    SPEED,
    TIME,
    Kind,
    format_quantity,
    parse_quantity,
)
from hypothesis import given
from hypothesis import strategies as st

KINDS = [SIZE, BANDWIDTH, TIME, SPEED, POWER]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("400Gbps", BANDWIDTH, 50e9),
        ("400 Gb/s", BANDWIDTH, 50e9),
        ("50GB/s", BANDWIDTH, 50e9),
        ("50GBps", BANDWIDTH, 50e9),
        ("1GiB/s", BANDWIDTH, 2**30),
        ("80GB", SIZE, 80e9),
        ("1KiB", SIZE, 1024),
        ("1us", TIME, 1e-6),
        ("1µs", TIME, 1e-6),
        ("0.5 h", TIME, 1800),
        ("400TFLOP/s", SPEED, 4e14),
        ("400TFLOPS", SPEED, 4e14),
        ("0.7kW", POWER, 700),
        ("0", SIZE, 0),
        (0, TIME, 0),
    ],
)
def test_quantities_as_people_write_them(text: object, kind: Kind, value: float) -> None:
    assert parse_quantity(text, kind) == value


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (400, BANDWIDTH, "'400' has no unit: a bandwidth is written like 400Gbps or 50GB/s"),
        ("90", TIME, "90 what? Write 90s if these are seconds"),
        ("1e9", SIZE, "1e9 what? Write 1GB if these are bytes"),
        ("64M", SIZE, "'64M' has an unknown unit: write 64MB"),
        ("80Gb", SIZE, "'80Gb' is in bits: sizes are in bytes, written like 80GB"),
        ("80GB", BANDWIDTH, "'80GB' is a size in bytes, not a bandwidth"),
        ("80GB/s", SIZE, "'80GB/s' is a bandwidth, not a size in bytes"),
        ("1US", TIME, "'1US' has an unknown unit: write 1us"),
        ("4tflop/s", SPEED, "'4tflop/s' has an unknown unit: write 4TFLOP/s"),
        ("400gbps", BANDWIDTH, "'400gbps' has an unknown unit 'gbps'"),
        ("-1us", TIME, "'-1us' is negative"),
        ("1e999B", SIZE, "'1e999B' is out of range"),
        ("1e-999999999B", SIZE, "'1e-999999999B' is out of range"),
        ("fast", BANDWIDTH, "'fast' is not a bandwidth: write a number and a unit"),
        (True, SIZE, "True is not a size in bytes"),
    ],
)
def test_what_is_wrong_is_refused_in_one_line(text: object, kind: Kind, message: str) -> None:
    with pytest.raises(PlatformError) as caught:
        parse_quantity(text, kind, where="here")
    assert str(caught.value).startswith(f"here: {message}")
    assert "\n" not in str(caught.value)


@given(st.sampled_from(KINDS), st.just(0.0) | st.floats(min_value=1e-30, max_value=1e25))
def test_what_is_written_is_read_back_exactly(kind: Kind, value: float) -> None:
    assert parse_quantity(format_quantity(value, kind), kind) == value


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (50e9, BANDWIDTH, "50GB/s"),
        (1e-6, TIME, "1us"),
        (0, TIME, "0s"),
        (80e9, SIZE, "80GB"),
        (0.5, SIZE, "0.5B"),
    ],
)
def test_what_is_written_reads_well(value: float, kind: Kind, text: str) -> None:
    assert format_quantity(value, kind) == text


def test_a_cell_of_blanks_takes_no_time() -> None:
    blanks = " " * 500_000
    began_s = process_time()
    for text in (f"1{blanks}x{blanks}y", f"{blanks}1{blanks}x{blanks}"):
        with pytest.raises(PlatformError, match="unknown unit"):
            parse_quantity(text, TIME)
    assert process_time() - began_s < 5.0
