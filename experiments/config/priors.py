"""The shipped priors (``tables/priors.toml``), and the priors of a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from faultline.experiments.config.keys import path_of, value_at
from faultline.experiments.config.reference import in_columns, unmet_condition
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.tables.recovery import PRESETS
from faultline.experiments.config.uncertain import Prior, check_priors
from faultline.platforms.toml_lines import load_toml
from faultline.simulator.failures.failure import STOPPING, stops_machine
from pydantic import Field

_DEFAULT_PRESET = "scalable"
_MTBF, _REPAIR = "failures.mtbf_s", "rejoin.repair_s"
_NEED_REPAIR = STOPPING | {"slow", "planned"}
"""Kinds of failure after which a machine may be repaired."""
_KIND_OF = {
    "failures.kinds.slow_found_s": "slow",
    "failures.kinds.retry_s": "flap",
    "failures.kinds.hang_timeout_s": "hang",
    "failures.kinds.migrate_s": "planned",
}
"""The kind of failure without which a key has no effect."""
_CHOSEN_LATER = ("strategy.name", "protection.name", "failures.rate")


class ShippedPrior(Prior):
    """A shipped prior, and the published values that support it."""

    published: list[str] = Field(min_length=1)  # Values with their units or meanings.
    times: bool = False  # Whether low and high are multiples of the scenario's value.
    each_scheme: bool = False  # Whether there is a value per scheme.
    not_default: str | None = None  # Reason if the key's default is out of the range.


@dataclass(frozen=True, slots=True)
class UncertainKey:
    """A key with its prior."""

    dotted: str
    prior: Prior
    is_stated: bool  # Whether the scenario states the prior; else it is shipped.
    times: bool = False  # Whether the prior is of a factor on the scenario's value.
    each_scheme: bool = False  # Whether there is a value per scheme.


@cache
def shipped_priors() -> Mapping[str, ShippedPrior]:
    """Return the shipped priors by their dotted keys, in the order of the file."""
    text = files("faultline.experiments.config.tables").joinpath("priors.toml").read_text("utf-8")
    priors = {
        dotted: ShippedPrior.model_validate(table) for dotted, table in load_toml(text).items()
    }
    check_priors({dotted: prior for dotted, prior in priors.items() if not prior.times}, Scenario)
    return priors


def priors_of(scenario: Scenario) -> list[UncertainKey]:
    """Return the uncertain keys of a scenario.

    These are the keys of its ``[uncertain]``, and those with a shipped prior that it does not state
    and that have an effect under some scheme or protection.
    """
    stated = scenario.stated()
    keys = [
        UncertainKey(dotted, prior, is_stated=True) for dotted, prior in scenario.uncertain.items()
    ]
    for dotted, prior in shipped_priors().items():
        path = path_of(dotted)
        if dotted in scenario.uncertain or value_at(stated, path) is not None:
            continue
        if _is_of_preset(dotted, scenario) or _is_idle(dotted, scenario):
            continue
        keys.append(UncertainKey(dotted, prior, False, prior.times, prior.each_scheme))
    return keys


def _is_of_preset(dotted: str, scenario: Scenario) -> bool:
    """Return whether a preset other than the default one states the key."""
    table, _, name = dotted.partition(".")
    chosen, usual = PRESETS[scenario.recovery.preset], PRESETS[_DEFAULT_PRESET]
    return table == "recovery" and chosen.get(name) != usual.get(name)


def _is_idle(dotted: str, scenario: Scenario) -> bool:
    if dotted == _MTBF and scenario.failures.model == "trace":
        return True
    if scenario.failures.model == "mix" and (dotted in _KIND_OF or dotted == _REPAIR):
        # Importing the reader of mixes takes time, and few scenarios need it.
        from faultline.experiments.config.mix_file import load_mix

        causes = load_mix(scenario.failures.mix or "llama3").cause
        if dotted == _REPAIR:
            transient = scenario.recovery.transient
            broken = [one for one in causes if stops_machine(one.kind, one.level, transient)]
            return all(one.repair is not None for one in broken if one.kind in _NEED_REPAIR)
        if all(cause.kind != _KIND_OF[dotted] for cause in causes):
            return True
    return unmet_condition(path_of(dotted), scenario, _CHOSEN_LATER) is not None


def explained_prior(prior: ShippedPrior) -> list[str]:
    """Return the entry of a prior for a terminal, in lines."""
    of_value = " times the scenario's value" if prior.times else ""
    own = ", a value per scheme" if prior.each_scheme else ""
    facts = {
        "prior": f"{prior.text()}{of_value}{own}",
        "published": "; ".join(prior.published),
        "source": prior.source,
        "not the default": prior.not_default or "",
    }
    return in_columns({name: fact for name, fact in facts.items() if fact}, "  ")
