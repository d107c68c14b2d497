"""Failures drawn from a failure model over some days, beside their expected number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TypeVar

import numpy as np
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.job.failure_model import failure_model, job_layout
from faultline.simulator.failures.distributions import Distribution, Exponential
from faultline.simulator.failures.failure import (
    STOPPING,
    UNSTATED_CAUSE,
    Failure,
    JobLayout,
    Kind,
    Level,
)
from faultline.simulator.failures.mix import CauseMix
from faultline.simulator.failures.models import FailureModel, IndependentGroups
from faultline.simulator.failures.reactions import Reactions
from faultline.simulator.failures.renewal_rate import renewal_rate

MOST_FAILURES = 1_000_000

_POINTS = 60

Choice = TypeVar("Choice")


@dataclass(frozen=True, slots=True)
class Expectation:
    """How many failures were to be expected."""

    mean: float  # Mean count.
    # Bounds of the middle 95 % of counts.
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class CauseSummary:
    """The failures by one cause."""

    name: str  # Name of the cause.
    level: Level | None  # Of the failed component; None if levels differ.
    kind: Kind | None  # The kind of repair; None if kinds differ.
    # Failures, and those among them that took more than one group down.
    drawn: int
    drawn_on_many: int
    # How many were to be expected; None for a trace, which is as it is.
    expected: Expectation | None


@dataclass(frozen=True, slots=True)
class Drawing:
    """Failures drawn from a model."""

    process: str  # The model in a word or two.
    layout: JobLayout  # The job's GPUs and groups.
    mtbf_s: float  # The model's mean time between failures of the whole system, in seconds.
    span_s: float  # How long was drawn, in seconds.
    failures: list[Failure]  # The failures, in the order of time.
    causes: list[CauseSummary]  # The causes, the most frequent first.
    # How many failures were to be expected until each of some times, evenly apart, the first of
    # them 0 and the last `span_s`; empty for a trace.
    course: list[Expectation]

    @property
    def expected(self) -> Expectation | None:
        """How many failures were to be expected in all; None for a trace."""
        return self.course[-1] if self.course else None

    @property
    def drawn_mtbf_s(self) -> float:
        """Mean time between the failures drawn, in seconds; infinite where there are none."""
        return self.span_s / len(self.failures) if self.failures else float("inf")

    @property
    def share_on_many(self) -> float:
        """Share of the failures that took more than one group down."""
        on_many = sum(len(failure.groups) > 1 for failure in self.failures)
        return on_many / len(self.failures) if self.failures else 0.0


def draw(scenario: Scenario, span_s: float, seed: int) -> Drawing:
    """Draw the failures of a scenario over a span, in seconds.

    It is a UserError if its failure model is no good, or a million failures are to be expected.
    """
    model = failure_model(scenario)
    sources = _sources(model)
    mean_s = model.mtbf_s
    if any(source.kind not in STOPPING for source in sources):
        # That of all that is drawn, and not only of what stops something.
        mean_s = 1.0 / sum(source.processes / source.between.mean_s for source in sources)
    if span_s > MOST_FAILURES * mean_s:
        raise UserError(
            f"--days {span_s / 86400:g}: about {span_s / mean_s:.2g} failures, one every "
            f"{mean_s:.3g} s; draw less than {MOST_FAILURES * mean_s / 86400:.2g} days"
        )
    failures = _untreated(model).failures_until(span_s, seed)
    return Drawing(
        scenario.failures.process,
        job_layout(scenario),
        mean_s,
        span_s,
        failures,
        _summaries(sources, failures, span_s),
        _course(sources, np.linspace(0.0, span_s, _POINTS + 1).tolist()) if sources else [],
    )


def _untreated(model: FailureModel) -> FailureModel:
    """Return a mix without any mitigation: the reader of its trace adds mitigations."""
    if not isinstance(model, CauseMix):
        return model
    return replace(model, reactions=Reactions(retry_s=inf))


@dataclass(frozen=True, slots=True)
class _Source:
    """Some renewal processes of one kind: all groups, or one cause."""

    cause: str
    level: Level
    kind: Kind
    between: Distribution
    processes: float

    def mean_failures(self, spans_s: Sequence[float]) -> list[float]:
        """Return the expected failures of all its processes, begun at time 0, until each time."""
        if isinstance(self.between, Exponential):
            return [self.processes * span_s / self.between.mean_s for span_s in spans_s]
        rate = renewal_rate(self.between)
        ends_s = np.array([0.0, *rate.ends_s])
        rates_per_s = np.array(rate.rates_per_s)
        until_end = np.concatenate([[0.0], np.cumsum(np.diff(ends_s) * rates_per_s[:-1])])
        interval = np.searchsorted(ends_s, spans_s, side="right") - 1
        counts = until_end[interval] + (spans_s - ends_s[interval]) * rates_per_s[interval]
        means: list[float] = (self.processes * counts).tolist()
        return means


def _sources(model: FailureModel) -> list[_Source]:
    """Return what failures are drawn from; nothing for a trace."""
    if isinstance(model, IndependentGroups):
        return [_Source(UNSTATED_CAUSE, "group", "hardware", model.distribution, model.groups)]
    if isinstance(model, CauseMix):
        gpus, excess = model.layout.gpus, model.dependence.correlated_excess
        return [
            _Source(
                cause.name,
                cause.level,
                cause.kind,
                cause.time_between_failures(gpus),
                cause.at_once * (excess if cause.kind in STOPPING else 1.0),
            )
            for cause in model.mixed
        ]
    return []


def _course(sources: Sequence[_Source], spans_s: Sequence[float]) -> list[Expectation]:
    """Return the expected count of independent renewal processes, begun at time 0, until each time.

    Exponential times make a Poisson process, whose quantiles are taken. Otherwise the mean is that
    of the renewal function, the variance that of its limit, ``t sigma^2 / mu^3`` (Cox 1962, Renewal
    Theory), and the quantiles are those of a normal distribution.
    """
    from scipy.stats import poisson

    counts = np.array([source.mean_failures(spans_s) for source in sources])
    means = counts.sum(axis=0)
    if all(isinstance(source.between, Exponential) for source in sources):
        least, most = poisson.interval(0.95, means)
    else:
        ratios = [source.between.variance_s2 / source.between.mean_s**2 for source in sources]
        reach = 1.96 * np.sqrt(ratios @ counts)
        least, most = np.maximum(means - reach, 0.0), means + reach
    return [
        Expectation(*bounds)
        for bounds in zip(means.tolist(), least.tolist(), most.tolist(), strict=True)
    ]


def _summaries(
    sources: list[_Source], failures: list[Failure], span_s: float
) -> list[CauseSummary]:
    by_cause: dict[str, list[Failure]] = {source.cause: [] for source in sources}
    for failure in failures:
        by_cause.setdefault(failure.cause, []).append(failure)
    by_source = {source.cause: source for source in sources}

    def summary(cause: str, mine: list[Failure]) -> CauseSummary:
        source = by_source.get(cause)
        known: Sequence[Failure | _Source] = mine if source is None else [source]
        return CauseSummary(
            cause,
            _the_only({one.level for one in known}),
            _the_only({one.kind for one in known}),
            len(mine),
            sum(len(failure.groups) > 1 for failure in mine),
            None if source is None else _course([source], [span_s])[0],
        )

    summaries = [summary(cause, mine) for cause, mine in by_cause.items()]
    return sorted(
        summaries, key=lambda one: one.expected.mean if one.expected else one.drawn, reverse=True
    )


def _the_only(values: set[Choice]) -> Choice | None:
    return next(iter(values)) if len(values) == 1 else None
