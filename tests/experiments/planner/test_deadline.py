"""Work that ends at a time, whatever it waits for."""

from __future__ import annotations

import signal
import time
from contextlib import suppress

import pytest
from faultline.experiments.planner.deadline import OutOfTimeError, deadline


def sleep_within(ends_s: float) -> None:
    with deadline(ends_s):
        time.sleep(30.0)


def test_what_takes_longer_is_interrupted_and_the_rest_of_the_outer_time_stays() -> None:
    before, began_s = signal.getitimer(signal.ITIMER_REAL), time.monotonic()

    def twice() -> None:
        with suppress(OutOfTimeError):
            sleep_within(began_s + 0.2)
        time.sleep(30.0)

    with pytest.raises(OutOfTimeError), deadline(began_s + 1.5):
        twice()
    assert time.monotonic() - began_s == pytest.approx(1.5, abs=1.0)
    # A clock of the test runner goes on.
    assert signal.getitimer(signal.ITIMER_REAL)[0] == pytest.approx(before[0], abs=10.0)


def test_handlers_of_exceptions_do_not_stop_the_clock() -> None:
    def handled() -> None:
        with suppress(Exception):
            time.sleep(30.0)

    with pytest.raises(OutOfTimeError), deadline(time.monotonic() + 0.1):
        handled()


def test_a_time_that_is_over_begins_nothing() -> None:
    with pytest.raises(OutOfTimeError), deadline(time.monotonic()):
        pytest.fail("begun")
