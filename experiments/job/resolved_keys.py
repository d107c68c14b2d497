"""A scenario with every value filled in, and where each of them comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from faultline.experiments.config.keys import KeyPath
from faultline.experiments.config.reference import KeyReference, scenario_reference
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import ScenarioSource
from faultline.experiments.job.failure_model import failure_model
from faultline.experiments.job.filled import filled_in
from faultline.experiments.job.resolved_job import ResolvedJob, resolve
from pydantic import BaseModel

Origin = Literal["stated", "--set", "derived", "default", "unset"]


@dataclass(frozen=True, slots=True)
class ResolvedKey:
    """A key of a resolved scenario.

    Attributes
    ----------
    reference : KeyReference
        Its documentation.
    value : object
        Its value; None where it is unset.
    origin : {"stated", "--set", "derived", "default", "unset"}
        Who gave it: the file, the command line, what else is asked for (the model, the platform,
        the closed forms), or nobody.
    counts : bool
        Whether anything depends on it, as the named choices stand.
    outcome : str
        What a choice came to where it stands for a number, such as a measured time; else empty.
    """

    reference: KeyReference
    value: Any
    origin: Origin
    counts: bool
    outcome: str


@dataclass(frozen=True, slots=True)
class ResolvedScenario:
    """A scenario with every value filled in.

    Attributes
    ----------
    question : ResolvedJob
        The scenario as it was asked, and what was found for what it left open.
    scenario : Scenario
        The same with every value stated: it gives the same records.
    keys : dict of tuple to ResolvedKey
        Every key by its path, in the order of the schema.
    """

    question: ResolvedJob
    scenario: Scenario
    keys: dict[KeyPath, ResolvedKey]


def resolve_source(source: ScenarioSource) -> ResolvedScenario:
    """Fill in what a scenario leaves open.

    Raises
    ------
    UserError, PlatformError, StrategyError, DistributionError
        If the scenario is no good; otherwise as `experiments.job.resolved_job.resolve`.
    """
    question = resolve(source.scenario())
    # Whoever is shown a scenario wants to know that it can be played.
    question.strategy()
    question.job(seed=0)
    filled = filled_in(question)
    outcomes = _outcomes(question)
    defaults = Scenario()
    keys = {
        path: ResolvedKey(
            reference,
            value_at(filled, path),
            _origin(source, value_at(filled, path), value_at(defaults, path), path),
            _counts(reference, filled),
            outcomes.get(reference.dotted, ""),
        )
        for path, reference in scenario_reference().items()
        if _has_value(filled, reference)
    }
    return ResolvedScenario(question, filled, keys)


def value_at(scenario: Scenario, path: KeyPath) -> Any:
    """Return what stands at a path of a scenario; None where nothing does."""
    value: Any = scenario
    for part in path:
        value = getattr(value, part, None)
    return value


def _outcomes(question: ResolvedJob) -> dict[str, str]:
    """Return what choices that stand for a time came to, by their dotted keys."""
    scenario, durations = question.scenario, question.durations
    groups = scenario.job.groups
    outcomes = {}
    if scenario.failures.model != "independent":
        mtbf_s = failure_model(scenario).mtbf_s
        outcomes["failures.model"] = f"a failure every {mtbf_s:.6g} s"
    if scenario.all_reduce.time == "measured":
        all_reduce_s = durations.all_reduce_s(groups)
        outcomes["all_reduce.time"] = f"{all_reduce_s:.6g} s with {groups:,} groups"
    if scenario.checkpoint.write == "measured":
        outcomes["checkpoint.write"] = f"{durations.save_s:.6g} s"
    if scenario.restart.load == "measured":
        outcomes["restart.load"] = f"{durations.load_s:.6g} s"
    if question.protected.in_background:
        outcomes["protection.name"] = _protection_outcome(question)
    if scenario.restart.time == "modelled":
        outcomes["restart.time"] = f"{durations.restart_s:.6g} s"
    return outcomes


def _protection_outcome(question: ResolvedJob) -> str:
    protected, said = question.protected, []
    if protected.snapshot_interval_steps:
        cost = protected.snapshot_cost
        said.append(
            f"a snapshot stalls for {cost.stall_s:.3g} s and is whole after {cost.lag_s:.3g} s"
        )
    if protected.protection.peers is not None:
        load = protected.protection.load_times(protected.times)
        said.append(f"loads in {load.local_s:.3g} s, {load.peers_s:.3g} s where a node was lost")
    if not said:
        said.append(f"a checkpoint stalls for {protected.persist_cost.stall_s:.3g} s")
    return "; ".join(said)


def _has_value(scenario: Scenario, reference: KeyReference) -> bool:
    """Whether a key is there and no table; a list of tables is one value."""
    above = value_at(scenario, reference.path[:-1])
    return isinstance(above, BaseModel) and not isinstance(
        value_at(scenario, reference.path), BaseModel
    )


def _counts(reference: KeyReference, scenario: Scenario) -> bool:
    return all(
        value_at(scenario, tuple(key.split("."))) in values
        for key, values in reference.only_with.items()
    )


def _origin(source: ScenarioSource, value: Any, default: Any, path: KeyPath) -> Origin:
    if source.setting_of(path) is not None:
        return "--set"
    stated: Any = source.tables
    for part in path:
        stated = stated.get(part) if isinstance(stated, dict) else None
    if stated is not None:
        return "stated"
    if value is None:
        return "unset"
    return "default" if value == default else "derived"
