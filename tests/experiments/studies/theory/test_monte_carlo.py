"""Random failures until a wipe-out: against the schemes themselves and against exact laws."""

from __future__ import annotations

import numpy as np
import pytest
from faultline.experiments.studies.theory.comparisons import (
    FEWER_GROUPS,
    PATCH_OPTIONS,
    all_cells,
    compare_counts,
    fewer_cells,
    with_errors,
)
from faultline.experiments.studies.theory.monte_carlo import (
    LAWS,
    Purpose,
    failures_until_wipe_out,
    first_loss,
    generator,
    lives,
    times_until_wipe_out_s,
    trials_for,
    work_per_failure,
)
from faultline.simulator.failures.distributions import Weibull
from faultline.strategies.base import WipeOut
from faultline.strategies.closed_forms.lifetimes import mean_time_to_wipe_out_s
from faultline.strategies.closed_forms.stacked_work import least_stacks
from faultline.strategies.golomb import largest_redundancy
from faultline.strategies.registry import build_strategy
from faultline.strategies.spare import Spare
from hypothesis import given
from hypothesis import strategies as st


@given(data=st.data())
def test_the_first_loss_is_where_the_scheme_gives_up(data: st.DataObject) -> None:
    """Failing groups one by one, the scheme itself ends at the same failure."""
    scheme = data.draw(st.sampled_from(["spare", "replication"]))
    groups = data.draw(st.integers(2, 40))
    most = largest_redundancy(groups) if scheme == "spare" else min(groups, 8)
    redundancy = data.draw(st.integers(1, most))
    order = data.draw(st.permutations(range(groups)))
    ranks = np.empty((1, groups))
    ranks[0, list(order)] = np.arange(1, groups + 1)
    played = build_strategy(scheme, groups, redundancy)
    verdicts = (played.on_failures([group]) for group in order)
    end = next(count for count, verdict in enumerate(verdicts, 1) if isinstance(verdict, WipeOut))
    assert first_loss(scheme, ranks, redundancy).tolist() == [end]


@pytest.mark.parametrize("scheme", ["spare", "replication"])
def test_counts_depend_on_the_seed_alone(scheme: str) -> None:
    counts = [
        failures_until_wipe_out(scheme, 60, 4, 500, generator(seed, Purpose.COUNTS, 60, 4))
        for seed in (1, 1, 2)
    ]
    assert counts[0].tolist() == counts[1].tolist()
    assert counts[0].tolist() != counts[2].tolist()


@pytest.mark.parametrize(
    ("scheme", "groups", "redundancy"),
    [("replication", 200, 3), ("replication", 50, 7), ("spare", 200, 2), ("spare", 200, 9)],
)
def test_the_law_is_that_of_random_failures(scheme: str, groups: int, redundancy: int) -> None:
    """P(k) at every k, within four standard errors and what the SPARe form leaves out (0.3 %)."""
    trials = 20_000
    rng = generator(3, Purpose.COUNTS, groups, redundancy)
    counts = failures_until_wipe_out(scheme, groups, redundancy, trials, rng)
    outlived = (counts[:, None] > np.arange(groups)).mean(axis=0)
    law = LAWS[scheme](groups, redundancy).outliving
    left_out = 0.004 if scheme == "spare" else 0.0
    spread = np.sqrt(law * (1 - law) / trials)
    assert np.all(np.abs(outlived - law) <= 4 * spread + left_out + 1e-9)


def test_trials_bring_the_standard_error_below_what_was_asked() -> None:
    chosen = [("spare", 60, 2), ("spare", 200, 5), ("replication", 60, 3)]
    rows = with_errors([compare_counts((cell, 0.01, 4)) for cell in chosen])
    assert (rows.trials >= 1000).all()
    assert (rows.standard_error / rows.simulated < 0.01).all()
    assert trials_for(LAWS["spare"](200, 2), 0.001) == pytest.approx(
        4 * trials_for(LAWS["spare"](200, 2), 0.002), rel=0.001
    )


def test_a_comparison_says_how_far_every_form_is_off() -> None:
    chosen = [("spare", 100, 2), ("spare", 100, 6), ("replication", 100, 4)]
    compared = [compare_counts((cell, 0.005, 0)) for cell in chosen]
    rows = with_errors(compared).set_index(["scheme", "redundancy"])
    for cell, row in rows.iterrows():
        noise = 4 * row.standard_error / row.simulated
        assert abs(row.closed_error) < noise + (0.003 if cell[0] == "spare" else 0.0)
    assert rows.loc[("replication", 4)].plain_error_fatal < -0.25
    spare = rows.loc[("spare", 6)]
    # The mean of a life's mean weighs short lives more, whose last failures need fewer stacks.
    assert spare.least_work_by_life < spare.least_work
    assert spare.independent < spare.closed
    assert abs(spare.closed_work_error) < 4 * spare.least_work_standard_error + 0.002


def test_the_grid_is_every_redundancy_with_a_ruler() -> None:
    cells = all_cells()
    assert {groups for _, groups, _ in cells} >= {50, 200, 600, 1000, 10_000}
    for groups in FEWER_GROUPS:
        spare = [r for scheme, n, r in cells if (scheme, n) == ("spare", groups)]
        assert spare == list(range(2, largest_redundancy(groups) + 1))
    assert set(fewer_cells()) < set(cells)


@pytest.mark.parametrize("shape", [0.5, 1.0, 1.7])
def test_time_to_a_wipe_out_is_the_quadrature(shape: float) -> None:
    """Within four standard errors, and 0.3 % for SPARe; both schemes meet the same failures."""
    groups, trials = 80, 20_000
    distribution = Weibull.from_mean(shape, 1000.0)
    rng = generator(0, Purpose.TIMES, groups, 7)
    cases = [("spare", 3), ("replication", 3), ("spare", 6)]
    simulated = times_until_wipe_out_s(
        cases, groups, trials, lambda size: distribution.scale_s * rng.weibull(shape, size)
    )
    for (scheme, redundancy), times_s in zip(cases, simulated, strict=True):
        law = LAWS[scheme](groups, redundancy)
        closed_s = mean_time_to_wipe_out_s(law, distribution.survival)
        noise_s = 4 * float(times_s.std()) / trials**0.5
        # The error of SPARe's law in p is one in t times dlog t/dlog p, 1/shape for small p.
        left_out_s = 0.003 / shape * closed_s if scheme == "spare" else 0.0
        assert abs(times_s.mean() - closed_s) < noise_s + left_out_s


@pytest.mark.parametrize(("groups", "redundancy", "trials"), [(50, 4, 600), (200, 9, 150)])
def test_stacks_and_patch_compute_are_those_of_the_real_matching(
    groups: int, redundancy: int, trials: int
) -> None:
    """The closed means within the paper's 4 %: patch compute, and with it all work of a failure."""
    table = lives(groups, redundancy, trials, seed=2)
    assert table.lives.iloc[0] == trials
    assert table.stacks.iloc[0] == 1.0
    assert table.loc[1, ["stacks", "one_stack", "as_needed"]].tolist() == [2.0, 1.0, 1.0]
    assert (table.stacks >= least_stacks(groups, redundancy)[table.failures]).all()
    assert (table.as_needed[1:] >= table.one_stack[1:] - 1e-12).all()
    for column, options in PATCH_OPTIONS.items():
        stacks, patch = work_per_failure(table, column)
        scheme = Spare(groups, redundancy, options)
        closed_stacks, closed_patch = scheme.failure_course().work_per_failure()
        # Lives differ in length: the noise of their mean work is that of a few hundred lives.
        assert closed_stacks == pytest.approx(stacks, rel=0.01)
        assert closed_patch == pytest.approx(patch, rel=0.06)
