"""The shipped priors: sources, existing keys, and how they yield to what a scenario states."""

import pytest
from faultline.experiments.config.keys import path_of, schema_keys
from faultline.experiments.config.priors import ShippedPrior, priors_of, shipped_priors
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.uncertain import Prior

from tests.experiments.command_line import Cli

COMMAND = ("scenario",)
_EACH = [pytest.param(dotted, prior, id=dotted) for dotted, prior in shipped_priors().items()]
_STATED = {"kind": "uniform", "low": 1.0, "high": 2.0, "source": "measured"}


def _default(dotted: str) -> float:
    table, _, name = dotted.rpartition(".")
    if table == "recovery":
        return float(Scenario().recovery.price(name))
    return float(schema_keys(Scenario)[path_of(dotted)].field.default)


@pytest.mark.parametrize(("dotted", "prior"), _EACH)
def test_a_prior_has_published_values_and_contains_the_default_or_says_why_not(
    dotted: str, prior: ShippedPrior
) -> None:
    assert schema_keys(Scenario)[path_of(dotted)].is_number
    assert len(prior.source) > 10
    assert all(
        any(letter.isdigit() for letter in value) or "none" in value for value in prior.published
    )
    default = 1.0 if prior.times else _default(dotted)
    assert (prior.low <= default <= prior.high) == (prior.not_default is None)


def _keys(**tables: object) -> dict[str, bool]:
    scenario = Scenario().completed().change(tables)
    return {known.dotted: known.is_stated for known in priors_of(scenario)}


def test_what_a_scenario_states_is_no_longer_uncertain() -> None:
    assert "recovery.detect_s" in _keys()
    assert "recovery.detect_s" not in _keys(**{"recovery.detect_s": 10.0})
    assert "failures.mtbf_s" not in _keys(**{"failures.mtbf_s": 3600.0})


def test_a_stated_prior_replaces_the_shipped_one() -> None:
    scenario = Scenario().change({"uncertain": {"recovery.detect_s": _STATED}})
    [known] = [known for known in priors_of(scenario) if known.dotted == "recovery.detect_s"]
    assert known.is_stated
    assert known.prior == Prior.model_validate(_STATED)


def test_keys_without_effect_have_no_prior() -> None:
    assert "failures.shape" not in _keys()
    assert "failures.shape" in _keys(**{"failures.distribution": "weibull"})
    assert "failures.kinds.correlated_excess" in _keys(**{"failures.model": "mix"})
    assert "failures.mtbf_s" in _keys(**{"failures.model": "mix"})
    assert "recovery.standby_s" not in _keys()
    assert "recovery.standby_s" in _keys(**{"recovery.preset": "standby"})


def test_a_key_of_a_kind_that_the_mix_lacks_has_no_prior() -> None:
    """A mix that is fitted to a log of Slurm has neither flaps nor hangs."""
    of_kinds = {"failures.kinds.retry_s", "failures.kinds.hang_timeout_s"}
    assert not of_kinds & _keys(**{"failures.model": "mix", "failures.mix": "llama3"}).keys()
    assert of_kinds <= _keys(**{"failures.model": "mix", "failures.mix": "llama3-kinds"}).keys()


def test_a_repair_that_each_cause_states_has_no_prior() -> None:
    """The mix llama3 states all repairs; independent failures have the scenario's."""
    llama3 = {"failures.model": "mix", "failures.mix": "llama3"}
    assert "rejoin.repair_s" in _keys()
    assert "rejoin.repair_s" not in _keys(**llama3)


def test_a_preset_states_its_own_prices() -> None:
    assert "recovery.launch_s" in _keys()
    assert "recovery.launch_s" not in _keys(**{"recovery.preset": "hot-swap"})


def test_explain_prints_the_prior(cli: Cli) -> None:
    printed = cli("explain", "recovery.detect_s")
    assert "log-uniform, 5 to 60" in printed
    assert "Unicron, lost node: 5.6 s" in printed
    assert "prior" not in cli("explain", "job.groups")
