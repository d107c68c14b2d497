"""Failures drawn from a failure model over some days."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple, TypeVar

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.job.failure_model import failure_model, job_layout
from faultline.simulator.failures.failure import (
    STOPPING,
    UNSTATED_CAUSE,
    Failure,
    JobLayout,
    Kind,
    Level,
)
from faultline.simulator.failures.mix import Cause, CauseMix
from faultline.simulator.failures.models import (
    FailureModel,
    IndependentGroups,
    constant_rate,
    renewal_rate,
)
from faultline.simulator.failures.reactions import Reactions

_MOST_FAILURES = 1_000_000

Choice = TypeVar("Choice")


@dataclass(frozen=True, slots=True)
class CauseSummary:
    """The failures by one cause."""

    name: str  # Name of the cause.
    level: Level | None  # Of the failed component; None if levels differ.
    kind: Kind | None  # The kind of repair; None if kinds differ.
    # All failures, and those that stopped more than one group.
    drawn: int
    drawn_on_many: int
    # Expected failures in the drawn span; None for a trace, whose failures are not drawn.
    expected: float | None


@dataclass(frozen=True, slots=True)
class Drawing:
    """Failures drawn from a model."""

    process: str  # The model in a word or two.
    layout: JobLayout  # The job's GPUs and groups.
    mtbf_s: float  # The model's mean time between failures of the whole system, in seconds.
    span_s: float  # Length of the drawn span, in seconds.
    failures: list[Failure]  # The failures, in the order of time.
    causes: list[CauseSummary]  # The causes, the most frequent first; also those not drawn.

    @property
    def drawn_mtbf_s(self) -> float:
        """Mean time between the drawn failures, in seconds; infinite if there are none."""
        return self.span_s / len(self.failures) if self.failures else inf

    @property
    def expected(self) -> float | None:
        """Expected failures in the span; None for a trace."""
        numbers = [cause.expected for cause in self.causes if cause.expected is not None]
        return sum(numbers) if numbers else None

    @property
    def share_on_many(self) -> float:
        """Share of the failures that stopped more than one group."""
        on_many = sum(len(failure.groups) > 1 for failure in self.failures)
        return on_many / len(self.failures) if self.failures else 0.0


def draw(scenario: Scenario, span_s: float, seed: int) -> Drawing:
    """Draw the failures of a scenario over a span, in seconds.

    It is a UserError if its failure model is invalid, or a million failures are expected.
    """
    model = failure_model(scenario)
    mean_s = _mean_s(model)
    if span_s > _MOST_FAILURES * mean_s:
        raise UserError(
            f"--days {span_s / 86400:g}: about {span_s / mean_s:.2g} failures, one every "
            f"{mean_s:.3g} s; draw less than {_MOST_FAILURES * mean_s / 86400:.2g} days"
        )
    if isinstance(model, CauseMix):
        # The reader of the trace of a mix adds mitigations.
        model = replace(model, reactions=Reactions(retry_s=inf))
    failures = model.failures_until(span_s, seed)
    layout, process = job_layout(scenario), scenario.failures.process
    causes = _summaries(failures, _expected(model, span_s))
    return Drawing(process, layout, mean_s, span_s, failures, causes)


class _Expected(NamedTuple):
    """The expected failures by a cause."""

    level: Level | None  # None if levels differ.
    kind: Kind | None  # None if kinds differ.
    number: float


def _mean_s(model: FailureModel) -> float:
    """Return the mean time between failures in seconds, including those that stop no group."""
    if not isinstance(model, CauseMix):
        return model.mtbf_s
    excess = model.dependence.correlated_excess
    return 1.0 / sum(
        _mean_at_once(cause, model.layout)
        * (excess if cause.kind in STOPPING else 1.0)
        / cause.time_between_failures(model.layout.gpus).mean_s
        for cause in model.mixed
    )


def _expected(model: FailureModel, span_s: float) -> dict[str, _Expected]:
    """Return the expected failures over a span by cause; none for a trace."""
    if isinstance(model, IndependentGroups):
        number = model.groups * model.group_failure_rate().over(span_s)
        return {UNSTATED_CAUSE: _Expected(None, None, number)}
    if not isinstance(model, CauseMix):
        return {}
    expected = {}
    for cause in model.mixed:
        between = cause.time_between_failures(model.layout.gpus)
        # A memoryless rate needs no table.
        rate = constant_rate(1.0 / between.mean_s) if cause.shape is None else renewal_rate(between)
        number = rate.over(span_s) * _mean_at_once(cause, model.layout)
        if cause.kind in STOPPING:
            number *= model.dependence.correlated_excess
        expected[cause.name] = _Expected(cause.level, cause.kind, number)
    return expected


def _mean_at_once(cause: Cause, layout: JobLayout) -> float:
    """Return the mean number of components struck at once: geometric, and at most all."""
    others = 1.0 - 1.0 / cause.at_once
    return cause.at_once * (1.0 - others ** layout.components(cause.level))


def _summaries(failures: list[Failure], expected: Mapping[str, _Expected]) -> list[CauseSummary]:
    by_cause: dict[str, list[Failure]] = {name: [] for name in expected}
    for failure in failures:
        by_cause.setdefault(failure.cause, []).append(failure)
    causes = [
        CauseSummary(
            name,
            _the_only({one.level for one in mine}) if mine else expected[name].level,
            _the_only({one.kind for one in mine}) if mine else expected[name].kind,
            len(mine),
            sum(len(failure.groups) > 1 for failure in mine),
            expected[name].number if name in expected else None,
        )
        for name, mine in by_cause.items()
    ]
    return sorted(causes, key=lambda cause: (-cause.drawn, -(cause.expected or 0.0)))


def _the_only(values: set[Choice]) -> Choice | None:
    return next(iter(values)) if len(values) == 1 else None
