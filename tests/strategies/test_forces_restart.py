"""The probability that the next failure forces a restart: against the schemes themselves."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from faultline.strategies.base import WipeOut
from faultline.strategies.closed_forms.stacked_types import StackedTypes
from faultline.strategies.closed_forms.wipe_out import DisjointSets
from faultline.strategies.golomb import ruler_for
from faultline.strategies.registry import build_strategy

from tests.strategies.closed_forms.layouts import outliving_by_enumeration, sets_of


def hosts_of_types(groups: int, redundancy: int) -> list[set[int]]:
    """SPARe's hosts of each shard type, a set a type."""
    offsets = ruler_for(groups, redundancy)
    return [{(place - offset) % groups for offset in offsets} for place in range(groups)]


@pytest.mark.parametrize(("groups", "redundancy"), [(8, 1), (9, 3), (11, 2), (11, 4), (12, 12)])
def test_replication_is_exact_over_all_subsets(groups: int, redundancy: int) -> None:
    """1 - P(k + 1)/P(k), with P from every subset of the groups."""
    outliving = outliving_by_enumeration(groups, sets_of(groups, redundancy))
    survivable = [p for p in outliving if p > 0]
    expected = 1 - np.array([*survivable[1:], 0.0]) / np.array(survivable)
    found = DisjointSets(groups, redundancy).forces_restart()
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert found[-1] == 1.0


@pytest.mark.parametrize(("groups", "redundancy"), [(14, 2), (16, 3)])
def test_spare_is_close_over_all_subsets(groups: int, redundancy: int) -> None:
    """The closed form is for many groups, its errors are of order 1/N where lives mostly end."""
    outliving = np.array(outliving_by_enumeration(groups, hosts_of_types(groups, redundancy)))
    found = np.array(StackedTypes(groups, redundancy).forces_restart())
    assert found[: redundancy - 1].tolist() == [0.0] * (redundancy - 1)
    # Where the next failure is likely to be met at all.
    met = [k for k in range(len(found) - 1) if outliving[k] > 0.2 and outliving[k + 1] > 0]
    assert len(met) > redundancy
    for k in met:
        assert found[k] == pytest.approx(1 - outliving[k + 1] / outliving[k], abs=1 / groups), k


@pytest.mark.parametrize(
    ("scheme", "groups", "redundancy"),
    [("spare", 40, 2), ("spare", 40, 3), ("replication", 40, 2), ("replication", 40, 3)],
)
def test_the_schemes_restart_as_often_as_foretold(
    scheme: str, groups: int, redundancy: int
) -> None:
    """1,500 lives of the scheme itself, one failure at a time in random order.

    Of the lives that reach k failed groups a binomial share ends with the next one: within four
    standard errors, and 2 points for SPARe, whose form leaves out cycles of three types.
    """
    rng = np.random.default_rng(7)
    strategy = build_strategy(scheme, groups, redundancy)
    law = strategy.forces_restart()
    reached, ended = np.zeros(groups + 1), np.zeros(groups + 1)
    for _ in range(1500):
        strategy.restart()
        for down, group in enumerate(rng.permutation(groups).tolist()):
            reached[down] += 1
            if isinstance(strategy.on_failures([group]), WipeOut):
                ended[down] += 1
                break
    bias = 0.02 if scheme == "spare" else 0.0
    compared = [down for down in range(len(law)) if reached[down] >= 200]
    assert len(compared) > redundancy + 1
    for down in compared:
        p = law[down]
        error = sqrt(max(p * (1 - p), 1 / reached[down]) / reached[down])
        assert abs(ended[down] / reached[down] - p) <= 4 * error + bias, down


@pytest.mark.parametrize("scheme", ["spare", "replication"])
@pytest.mark.parametrize("redundancy", [2, 3, 5, 9])
def test_it_grows_with_every_group_that_is_down(scheme: str, redundancy: int) -> None:
    law = np.array(build_strategy(scheme, 200, redundancy).forces_restart())
    assert np.all(np.diff(law) >= -1e-9)
    assert 0.0 <= law[0] <= law[-1] <= 1.0


def test_without_copies_the_next_failure_always_does() -> None:
    assert build_strategy("checkpoint", 200, 1).forces_restart() == (1.0,)
