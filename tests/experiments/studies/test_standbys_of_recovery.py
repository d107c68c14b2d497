"""The number of standbys that ByteRobust keeps."""

from __future__ import annotations

from math import comb

import pytest
from faultline.experiments.studies.recovery.standbys import excess_of_few, standbys_for


@pytest.mark.parametrize(("machines", "failures", "quantile"), [(128, 0.15, 0.99), (9, 4.0, 0.8)])
def test_standbys_are_a_quantile_of_a_binomial(
    machines: int, failures: float, quantile: float
) -> None:
    p, below, number = failures / machines, 0.0, -1
    while below < quantile:
        number += 1
        below += comb(machines, number) * p**number * (1 - p) ** (machines - number)
    assert standbys_for(machines, failures, quantile) == number
    short = (1 - below) / (1 - (1 - p) ** machines)
    assert excess_of_few(machines, failures, number, 10.0, 50.0) == pytest.approx(4 * short)
