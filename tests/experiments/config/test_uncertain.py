"""Priors under ``[uncertain]``: what is refused, in one line, and how they are distributed."""

from pathlib import Path

import numpy as np
import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario_file import load_scenario, read_source
from faultline.experiments.config.uncertain import Kind, Prior
from faultline.experiments.job.resolved_keys import resolve_source, scenario_toml
from faultline.experiments.runs.single_run import run, stated_hash
from scipy import stats
from scipy.stats.distributions import rv_frozen

_SHARES = np.linspace(0.001, 0.999, 199)
_STATED = '"recovery.detect_s" = { low = 5, high = 60, kind = "log-uniform", source = "Unicron" }'
_TIMES = "version = 2\n[times]\nall_reduce_s = 1.0\ncheckpoint_write_s = 30.0\nrestart_s = 60.0\n"


def _file(folder: Path, line: str) -> str:
    path = folder / "job.toml"
    path.write_text(f"{_TIMES}[uncertain]\n{line}\n")
    return str(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            _STATED.replace("detect_s", "detection_s"),
            "unknown key; did you mean 'recovery.detect_s'?",
        ),
        (_STATED.replace("recovery.detect_s", "strategy.name"), "is not a number"),
        (_STATED.replace("low = 5", "low = 65"), "low must be less than high (got 65 and 60)"),
        (_STATED.replace("low = 5", "low = 0"), "low must be greater than 0"),
        (_STATED.replace(', source = "Unicron"', ""), "source: is missing"),
        (_STATED.replace("log-uniform", "triangular"), "needs a mode"),
        (
            _STATED.replace("log-uniform", "lognormal").replace("low = 5", "low = 5, mode = 61"),
            "mode must be between low and high (got 61, not in 5 to 60)",
        ),
        (
            _STATED.replace("log-uniform", "uniform").replace("low = 5", "low = -5"),
            "must be between 0 and 1e+09, as recovery.detect_s (got -5)",
        ),
    ],
)
def test_a_wrong_prior_is_refused_in_one_line_with_its_place(
    tmp_path: Path, line: str, message: str
) -> None:
    path = _file(tmp_path, line)
    with pytest.raises(UserError) as refused:
        load_scenario(path)
    assert str(refused.value).startswith(f"{path}:7: uncertain.")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("prior", "expected"),
    [
        (Prior(kind="uniform", low=2, high=6, source="s"), stats.uniform(2, 4)),
        (Prior(kind="log-uniform", low=2, high=60, source="s"), stats.loguniform(2, 60)),
        (
            Prior(kind="triangular", low=2, high=10, mode=3, source="s"),
            stats.triang(1 / 8, loc=2, scale=8),
        ),
        (Prior(kind="triangular", low=2, high=3, mode=2, source="s"), stats.triang(0, 2, 1)),
    ],
)
def test_bounded_priors_are_the_named_distributions(prior: Prior, expected: rv_frozen) -> None:
    np.testing.assert_allclose(prior.quantile(_SHARES), expected.ppf(_SHARES), rtol=1e-12)
    assert prior.median == pytest.approx(expected.median())


@pytest.mark.parametrize("kind", ["normal", "lognormal"])
def test_normal_priors_state_their_5_and_95_percent_quantiles(kind: Kind) -> None:
    prior = Prior(kind=kind, low=400, high=800, source="s")
    assert prior.quantile(np.array([0.05, 0.95])) == pytest.approx([400, 800])
    centred = prior.quantile(_SHARES) if kind == "normal" else np.log(prior.quantile(_SHARES))
    np.testing.assert_allclose(
        (centred - centred.mean()) / (centred[-1] - centred.mean()),
        stats.norm.ppf(_SHARES) / stats.norm.ppf(_SHARES[-1]),
        atol=1e-9,
    )


def test_a_run_ignores_priors_and_a_shown_scenario_keeps_them(tmp_path: Path) -> None:
    path = _file(tmp_path, _STATED)
    uncertain, certain = load_scenario(path), load_scenario(path, {"uncertain": None})
    assert stated_hash(uncertain) == stated_hash(certain)
    short = {"job.steps": 50, "failures.mtbf_s": 300.0}
    assert run(uncertain.change(short), seed=1) == run(certain.change(short), seed=1)
    shown = scenario_toml(resolve_source(read_source(path)))
    (tmp_path / "again.toml").write_text(shown)
    assert load_scenario(str(tmp_path / "again.toml")).uncertain == uncertain.uncertain
