"""Designs over uncertain inputs."""

import numpy as np
from faultline.experiments.analysis.design import design_by_name
from faultline.experiments.config.uncertain import Prior
from scipy import stats

from tests.experiments.analysis.sobol import sobol_design

_INPUTS = {
    "a": Prior(kind="log-uniform", low=5, high=60, source="s").quantile,
    "b": Prior(kind="normal", low=-1, high=1, source="s").quantile,
    "c": Prior(kind="uniform", low=0, high=1, source="s").quantile,
}


def test_one_seed_gives_one_design_and_another_seed_another() -> None:
    first, again, other = (sobol_design(_INPUTS, 32, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.values, again.values)
    assert not np.any(first.values == other.values)


def test_values_follow_the_priors() -> None:
    values = sobol_design(_INPUTS, 4096, seed=0).values
    for column, expected in zip(
        values.T, (stats.loguniform(5, 60), stats.norm(0, 1 / 1.6449), stats.uniform()), strict=True
    ):
        # A Sobol sequence is nearer to its distribution than independent draws are.
        assert stats.kstest(column, expected.cdf).statistic < 0.002


def test_a_design_without_inputs_has_its_samples() -> None:
    for made in (sobol_design, design_by_name):
        design = made({}, 8, 0)
        assert len(design) == 8
        assert design.sample(7) == {}


def test_an_input_is_drawn_by_its_name() -> None:
    """Fewer inputs, or others in front, do not draw it again; another name or seed does."""
    whole = design_by_name(_INPUTS, 64, seed=5)
    alone = design_by_name({"c": _INPUTS["c"]}, 64, seed=5)
    turned = design_by_name(dict(reversed(_INPUTS.items())), 64, seed=5)
    np.testing.assert_array_equal(whole.values[:, 2], alone.values[:, 0])
    np.testing.assert_array_equal(whole.values, turned.values[:, ::-1])
    renamed = design_by_name({"d": _INPUTS["c"]}, 64, seed=5)
    other = design_by_name(_INPUTS, 64, seed=6)
    assert not np.any(alone.values == renamed.values)
    assert not np.any(whole.values == other.values)


def test_each_power_of_two_of_samples_covers_each_input_evenly() -> None:
    design = design_by_name(_INPUTS, 100, seed=5)
    assert design.unit.shape == design.values.shape == (100, 3)
    for count in (2, 16, 64):
        for column in design.first(count).unit.T:
            assert sorted((column * count).astype(int)) == list(range(count))


def test_inputs_drawn_by_name_are_independent() -> None:
    """The largest of 45 correlations of 1,024 pairs: 5 standard errors are 0.16."""
    inputs = {f"input{place}": _INPUTS["c"] for place in range(10)}
    correlations = np.corrcoef(design_by_name(inputs, 1024, seed=0).unit.T)
    assert np.abs(correlations - np.eye(10)).max() < 0.16
