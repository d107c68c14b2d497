"""Where one scheme overtakes another: the rate, its interval, and saying so where none does."""

from __future__ import annotations

from math import exp, inf, isnan, log, sqrt

import numpy as np
import pandas as pd
import pytest
from faultline.experiments.studies.spare.crossings import (
    changes_of_lead,
    crossing_rows,
    crossing_sentence,
    crossings,
    printed_crossings,
)

RATES = np.log([60.0, 600.0, 6000.0])


def test_a_change_lies_where_the_line_between_two_rates_is_zero() -> None:
    """+1 at 600 s and -3 at 6000 s: a quarter of the way, in the logarithm of the rate."""
    (change,) = changes_of_lead(RATES, np.array([[2.0], [1.0], [-3.0]]))
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
    (change,) = changes_of_lead(RATES, leads)
    assert exp(change.at) == pytest.approx(600.0 * sqrt(10.0))
    reach = 12.706 * e / 4.0 * log(10.0)
    assert change.high - change.at == pytest.approx(reach, rel=0.02)
    assert change.at - change.low == pytest.approx(reach, rel=0.02)


def test_an_interval_that_nothing_ends_ends_with_the_rates() -> None:
    leads = np.array([[3.0, -2.0], [2.0, -1.0], [-2.0, 1.0]])
    (change,) = changes_of_lead(RATES, leads)
    assert (change.low, change.high) == (RATES[0], RATES[-1])


def test_next_to_a_job_that_does_not_finish_the_change_is_somewhere_between() -> None:
    (change,) = changes_of_lead(RATES, np.array([[inf, inf], [inf, 1.0], [-0.1, -0.2]]))
    assert (change.low, change.high) == (RATES[1], RATES[2])
    assert exp(change.at) == pytest.approx(600.0 * sqrt(10.0))


def runs_of(ratios: dict[str, list[float]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two seeds each, of a job whose ratios at 1 min, 10 min and 100 min are given."""
    job = {"rules": "spare-sound", "distribution": "weibull", "groups": 200}
    rows = [
        {**job, "mtbf_s": rate, "strategy": scheme, "seed": seed, "time_to_train_ratio": ratio}
        for scheme, values in ratios.items()
        for rate, ratio in zip((60.0, 600.0, 6000.0), values, strict=True)
        for seed in range(2)
    ]
    runs = pd.DataFrame(rows)
    return runs, runs[runs.seed == 0].assign(closed_form_ratio=runs.time_to_train_ratio)


def test_every_pair_has_its_row_and_a_lead_that_never_changes_says_so() -> None:
    """Checkpoints: 8, 4, 1; replication 4, 4, 4 is level at 10 min; SPARe leads until 2 = 2."""
    runs, curves = runs_of(
        {"checkpoint": [inf, 8.0, 1.0], "replication": [6.0, 4.0, 4.0], "spare": [3.0, 2.0, 2.0]}
    )
    table = crossings(runs, curves)
    found = table.set_index(["often", "seldom"])
    # From 8 : 4 to 1 : 4 in the logarithm: log 2 down to -2 log 2, a third of the way.
    assert found.loc[("replication", "checkpoint"), "mtbf_s"] == pytest.approx(600 * 10 ** (1 / 3))
    # From 8 : 2 to 1 : 2: two thirds.
    row = found.loc[("spare", "checkpoint")]
    assert row.mtbf_s == row.closed_form_s == pytest.approx(600 * 10 ** (2 / 3))
    assert isnan(found.loc[("spare", "replication"), "mtbf_s"])
    assert len(table) == 3

    rows = list(crossing_rows(table))
    assert [row.quantity for row in rows].count("crossing_mtbf_s") == 2
    assert [row.quantity for row in rows].count("closed_form_crossing_mtbf_s") == 2
    (never,) = (row for row in rows if row.quantity == "crossings")
    assert (never.scheme, never.simulated) == ("spare before replication", 0.0)
    assert len(printed_crossings(table).frame) == 3
    assert crossing_sentence(table) == (
        "Under sound rules checkpoints alone overtake SPARe where something fails every 46 min to "
        "46 min; replication is never soonest."
    )
