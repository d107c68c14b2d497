"""All mistakes of a scenario, from the syntax of its file to whether it can be simulated."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from faultline.experiments.config.errors import EXPLAINED, Location, Mistake, UserError
from faultline.experiments.config.keys import schema_keys
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import ScenarioSource, read_source
from faultline.experiments.config.tables.phases import SNAPSHOT_TIMES
from faultline.experiments.job.durations import is_measured
from faultline.experiments.job.job_shape import scheme_of
from faultline.experiments.job.placement import traffic_of
from faultline.experiments.job.platform_files import check_platform, platform_file
from faultline.experiments.job.resolving import resolve_runnable
from faultline.experiments.job.step_times import is_simulated, measures_compute, placed_step
from faultline.platforms.errors import one_line
from pydantic import ValidationError

MOST_MISTAKES = 100
"""Printed mistakes of one file; further ones are only counted."""

_LEADING_KEY = re.compile(r"[a-z_]+(?:\.[a-z_]+)+")


def check_scenario(name_or_path: str) -> list[str]:
    """Return every mistake of a scenario as one line with its place; none if it can be simulated.

    Combinations of values are checked only if each value is valid by itself.
    """
    try:
        source = read_source(name_or_path)
    except UserError as error:
        return [str(error)]
    scenario, mistakes = source.validate()
    if scenario is None:
        mistakes += _refusals(_platform_checks(source))
    elif not source.syntax_mistakes:
        mistakes += _refusals(_checks(scenario, source))
    # Syntax first: it may be the cause of the other mistakes.
    messages = [partial(source.syntax_error, mistake) for mistake in source.syntax_mistakes]
    mistakes.sort(key=lambda mistake: source.line_of(mistake.location) or 0)
    messages += [partial(source.text_of, mistake) for mistake in mistakes]
    lines = [one_line(message()) for message in messages[:MOST_MISTAKES]]
    if len(messages) > MOST_MISTAKES:
        lines.append(f"{source.origin}: and {len(messages) - MOST_MISTAKES:,} more")
    return lines


def _platform_checks(source: ScenarioSource) -> Iterator[Callable[[], object]]:
    """Check the platform of a scenario that is invalid elsewhere."""
    try:
        scenario = Scenario.model_validate({"platform": source.tables.get("platform", {})})
    except ValidationError:
        return
    yield lambda: check_platform(scenario)


def _checks(scenario: Scenario, source: ScenarioSource) -> Iterator[Callable[[], object]]:
    chosen = scenario.strategy
    yield lambda: check_platform(scenario)
    if chosen.redundancy is not None:
        redundancy = chosen.redundancy
        yield lambda: scheme_of(scenario, redundancy)
    # The model's numbers are part of the job.
    yield lambda: _check_place(source.used_scenario())
    yield lambda: resolve_runnable(_with_times(source.scenario()))


_NO_TIME_S = 1e-9


def _with_times(scenario: Scenario) -> Scenario:
    """Return a scenario that states all times, so that a check simulates nothing.

    The times replace measured ones, and are so short that they make no scenario impossible.
    """
    measured = scenario.measured
    is_open = {
        "compute_s": is_simulated(scenario) or measures_compute(scenario),
        "all_reduce_s": measured.all_reduce,
        "checkpoint_write_s": measured.checkpoint,
        "checkpoint_load_s": measured.load,
    }
    if scenario.protection.name != "storage":
        is_open |= {
            f"snapshot_{name}": getattr(scenario.times, f"snapshot_{name}") is None
            for name in SNAPSHOT_TIMES
        }
    return scenario.change({f"times.{name}": _NO_TIME_S for name in is_open if is_open[name]})


def _check_place(scenario: Scenario) -> None:
    """Refuse a platform that is too small for the job, if anything is measured on it."""
    if is_measured(scenario):
        path = platform_file(scenario)
        traffic_of(scenario, path)
        if is_simulated(scenario):
            placed_step(scenario, path)


def _refusals(checks: Iterable[Callable[[], object]]) -> list[Mistake]:
    """Return the distinct errors of the checks."""
    messages = filter(None, dict.fromkeys(map(_refusal, checks)))
    return [Mistake(_location(message), partial(str, message)) for message in messages]


def _refusal(check: Callable[[], object]) -> str | None:
    try:
        check()
    except EXPLAINED as error:
        return str(error)
    return None


def _location(refusal: str) -> Location:
    """Return the path of the key at the start of a message; empty if there is none."""
    leading = _LEADING_KEY.match(refusal)
    path = tuple(leading[0].split(".")) if leading else ()
    return path if path in schema_keys(Scenario) else ()
