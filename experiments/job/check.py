"""All that is wrong with a scenario, from its text to whether it can be played."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from faultline.experiments.config.errors import EXPLAINED, UserError
from faultline.experiments.config.keys import Location, Mistake
from faultline.experiments.config.reference import scenario_reference
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import ScenarioSource, read_source
from faultline.experiments.job.job_shape import scheme_options
from faultline.experiments.job.platform_files import check_platform
from faultline.experiments.job.resolved_job import resolve_playable
from faultline.platforms.errors import one_line
from faultline.strategies.registry import strategy_class
from pydantic import ValidationError

MOST_MISTAKES = 100
"""What is wrong with one file beyond these is counted, and not told."""

_LEADING_KEY = re.compile(r"[a-z_]+(?:\.[a-z_]+)+")


def check_scenario(name_or_path: str) -> list[str]:
    """Return every mistake of a scenario as one line with its place; none if it can be played.

    What values make impossible together is looked at only where each of them is right by itself.
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
    # Text first: what follows may be wrong only because a part of the file could not be read.
    told = [partial(source.told_syntax, mistake) for mistake in source.syntax_mistakes]
    mistakes.sort(key=lambda mistake: source.line_of(mistake.location) or 0)
    told += [partial(source.told, mistake) for mistake in mistakes]
    lines = [one_line(tell()) for tell in told[:MOST_MISTAKES]]
    if len(told) > MOST_MISTAKES:
        lines.append(f"{source.origin}: and {len(told) - MOST_MISTAKES:,} more")
    return lines


def _platform_checks(source: ScenarioSource) -> Iterator[Callable[[], object]]:
    """Check what can be checked of a scenario that is wrong elsewhere."""
    try:
        scenario = Scenario.model_validate({"platform": source.tables.get("platform", {})})
    except ValidationError:
        return
    yield lambda: check_platform(scenario)


def _checks(scenario: Scenario, source: ScenarioSource) -> Iterator[Callable[[], object]]:
    chosen = scenario.strategy
    yield lambda: check_platform(scenario)
    if chosen.redundancy is not None:
        scheme, redundancy = strategy_class(chosen.name), chosen.redundancy
        yield lambda: scheme(scenario.job.groups, redundancy, scheme_options(scenario))
    # With the numbers of its model: without them it would not be the job that is asked for.
    yield lambda: resolve_playable(source.scenario())


def _refusals(checks: Iterable[Callable[[], object]]) -> list[Mistake]:
    """Return what the checks raise; once, if several raise the same."""
    told: dict[str, None] = {}
    for check in checks:
        if (refusal := _refusal(check)) is not None:
            told[refusal] = None
    return [Mistake(_location(refusal), partial(str, refusal)) for refusal in told]


def _refusal(check: Callable[[], object]) -> str | None:
    try:
        check()
    except EXPLAINED as error:
        return str(error)
    return None


def _location(refusal: str) -> Location:
    """Return the path of the key that a message begins with; empty if it begins with none."""
    leading = _LEADING_KEY.match(refusal)
    path = tuple(leading[0].split(".")) if leading else ()
    return path if path in scenario_reference() else ()
