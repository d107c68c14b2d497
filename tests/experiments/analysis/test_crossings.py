"""Where the lead changes along an axis, by hand: the place, its interval, and open ends."""

from __future__ import annotations

from math import exp, inf, log, sqrt

import numpy as np
import pytest
from faultline.experiments.analysis.crossings import changes_of_lead

LOG_RATES = np.log([60.0, 600.0, 6000.0])


def test_a_change_lies_where_the_line_between_two_rates_is_zero() -> None:
    """+1 at 600 s and -3 at 6000 s: a quarter of the way, in the logarithm of the rate."""
    (change,) = changes_of_lead(LOG_RATES, np.array([[2.0], [1.0], [-3.0]]))
    assert exp(change.at) == pytest.approx(600.0 * 10**0.25)
    assert change.first_leads_after
    assert change.low == change.at == change.high


def test_the_interval_holds_the_rates_at_which_seeds_are_undecided() -> None:
    """Two seeds apart by 2 e everywhere: the mean is 0 +- 12.706 e, Student's t of 1 degree.

    The mean lead falls by 4 from one rate to the next, so that the ends are 12.706 e / 4 of the way
    from the change.
    """
    e = 0.05
    leads = np.array([[6.0, 6.0], [2.0, 2.0], [-2.0, -2.0]]) + np.array([[-e, e]])
    (change,) = changes_of_lead(LOG_RATES, leads)
    assert exp(change.at) == pytest.approx(600.0 * sqrt(10.0))
    reach = 12.706 * e / 4.0 * log(10.0)
    assert change.high - change.at == pytest.approx(reach, rel=0.02)
    assert change.at - change.low == pytest.approx(reach, rel=0.02)


def test_an_interval_that_nothing_ends_ends_with_the_rates() -> None:
    leads = np.array([[3.0, -2.0], [2.0, -1.0], [-2.0, 1.0]])
    (change,) = changes_of_lead(LOG_RATES, leads)
    assert (change.low, change.high) == (LOG_RATES[0], LOG_RATES[-1])


def test_next_to_a_job_that_does_not_finish_the_change_is_somewhere_between() -> None:
    (change,) = changes_of_lead(LOG_RATES, np.array([[inf, inf], [inf, 1.0], [-0.1, -0.2]]))
    assert (change.low, change.high) == (LOG_RATES[1], LOG_RATES[2])
    assert exp(change.at) == pytest.approx(600.0 * sqrt(10.0))
