"""Rates, shapes, lemons and repair times from a log of failures; and a mix of causes from them.

The times between failures get a Weibull distribution and tests of its fit. Lemons are nodes that
fail more than others: each node's rate has a gamma-distributed factor.

References
----------
Cohen 1965, Maximum likelihood estimation in the Weibull distribution, Technometrics 7.
Garwood 1936, Fiducial limits for the Poisson distribution, Biometrika 28.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import cache
from math import exp, log, sqrt

import numpy as np
from faultline.experiments.analysis.burst_fit import Bursts, fit_bursts
from faultline.experiments.analysis.intervals import CONFIDENCE, Interval
from faultline.experiments.config.logs.failure_log import FailureLog, Logged
from faultline.experiments.config.mix_file import PER_1000_NODE_DAYS
from faultline.simulator.failures.distributions import Weibull
from faultline.simulator.failures.failure import Kind, Level
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special, stats

# Bounds of values in a mix; a smaller shape would have an infinite dispersion.
_LEAST_SHAPE, _MOST_SHAPE = 0.1, 1000.0
_LEAST_RATE, _MOST_RATE = 1e-9, 1e9
_LEAST_S, _MOST_S, _MOST_SIGMA = 1e-6, 1e10, 10.0

LEAST_FAILURES = 10
"""Least number of failures, and of nodes, for a fit of their difference."""

LEAST_GAPS = 10
"""Least number of gaps for a fit of a shape."""

_WORST = 0.05
_NORMAL = float(stats.norm.ppf(0.5 + CONFIDENCE / 2))
_DRAWS, _NEWTON_STEPS = 499, 12
_MOST_DRAWN = 200
"""Number of gaps above which distances, times the root of the number, no longer depend on it."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Gaps:
    """Times between failures, and their fitted distribution."""

    # The gaps, ascending, in seconds, without those between failures of the same instant.
    times_s: Floats
    same_instant: int  # Failures at the same instant as the one before.
    shape: Interval | None  # Of a Weibull distribution; None for fewer than `LEAST_GAPS` gaps.
    # Scale of that distribution, in seconds; the mean gap if there is no shape.
    scale_s: float
    # Probability that gaps drawn from such a distribution fit it worse (Kolmogorov and Smirnov,
    # parameters fitted, by simulation).
    p_exponential: float | None
    p_weibull: float | None

    @property
    def memoryless(self) -> bool:
        """Whether the data do not contradict a shape of 1."""
        return self.shape is None or self.shape.low <= 1.0 <= self.shape.high


@dataclass(frozen=True, slots=True)
class Repair:
    """Times to repair, in seconds."""

    count: int  # Number of known repair times.
    # Of these times.
    mean_s: float
    median_s: float
    # Median and width of a lognormal distribution fitted to them.
    scale_s: float
    sigma: float
    times_s: Floats  # All known times, ascending.


@dataclass(frozen=True, slots=True)
class CauseFit:
    """The fitted values of a cause, or of all failures together."""

    name: str  # The cause.
    # Of its failures; the most frequent ones of all failures together.
    level: Level
    kind: Kind
    count: int  # Its failures.
    rate_per_gpu_s: Interval  # Failures per second and GPU.
    gaps: Gaps  # Times between its failures in the whole cluster.
    repair: Repair | None  # Repair times, if the log has them.

    @property
    def per_1000_node_days(self) -> Interval:
        """Failures per 1,000 days of a node of eight GPUs."""
        return Interval(*(PER_1000_NODE_DAYS * one for one in astuple(self.rate_per_gpu_s)))


@dataclass(frozen=True, slots=True)
class Lemons:
    """Differences of failure rates among nodes: a gamma-distributed factor of mean 1."""

    counts: NDArray[np.int64]  # Failures of each node.
    # Shape of the gamma distribution; a smaller shape means that fewer nodes have more of the
    # failures. Infinite if nodes are as alike as chance allows.
    shape: Interval
    p_alike: float  # Probability of as much difference if all nodes are alike (likelihood ratio).
    # Share of the failures on the worst 5 % of nodes, by the fitted distribution.
    worst_share: float


@dataclass(frozen=True, slots=True)
class Fit:
    """All values fitted to a log."""

    log: FailureLog
    whole: CauseFit  # All failures together.
    causes: tuple[CauseFit, ...]  # By cause, the most frequent first.
    lemons: Lemons | None  # None if too few failures of nodes, or less than half, name theirs.
    bursts: Bursts | None  # None for too few failures.


def fit(failures: FailureLog) -> Fit:
    """Fit a log of failures."""
    # A cause whose failures differ in level or kind is several: each strikes what it did strike.
    by_cause: dict[tuple[str, Level, Kind], list[Logged]] = defaultdict(list)
    for one in failures.failures:
        by_cause[one.cause, one.level, one.kind].append(one)
    often = sorted(by_cause.items(), key=lambda item: (-len(item[1]), item[0]))
    return Fit(
        failures,
        _fit_cause("all", failures.failures, failures, failures.gpu_s),
        tuple(_fit_cause(name, mine, failures) for (name, _, _), mine in often),
        fit_lemons(failures_of_nodes(failures)) if _names_nodes(failures) else None,
        fit_bursts([one.time_s for one in failures.failures], failures.span_s),
    )


def _fit_cause(
    name: str, mine: Sequence[Logged], failures: FailureLog, gpu_s: float | None = None
) -> CauseFit:
    """Fit failures of one cause, by the observed GPU-seconds of their kind, or by `gpu_s`."""
    kind: Kind = Counter(one.kind for one in mine).most_common(1)[0][0]
    gaps = fit_gaps([one.time_s for one in mine], failures.span_s)
    dispersion = 1.0
    if gaps.shape is not None and not gaps.memoryless:
        weibull = Weibull(max(_LEAST_SHAPE, gaps.shape.mean), 1.0)
        dispersion = weibull.variance_s2 / weibull.mean_s**2
    return CauseFit(
        name,
        Counter(one.level for one in mine).most_common(1)[0][0],
        kind,
        len(mine),
        rate(len(mine), failures.gpu_s_of(kind) if gpu_s is None else gpu_s, dispersion),
        gaps,
        fit_repair([one.repair_s for one in mine if one.repair_s]),
    )


def rate(count: int, exposure: float, dispersion: float = 1.0) -> Interval:
    """Return the rate of failures in an exposure with its exact Poisson interval (Garwood 1936).

    The dispersion is variance over mean of the count, if gaps scatter more than memoryless ones:
    `dispersion` failures then count as one. Values below 1 count as 1.
    """
    spread = max(1.0, dispersion)
    worth = count / spread
    low = float(stats.chi2.ppf((1 - CONFIDENCE) / 2, 2 * worth)) / 2 if count else 0.0
    high = float(stats.chi2.ppf((1 + CONFIDENCE) / 2, 2 * worth + 2)) / 2
    return Interval(count / exposure, low * spread / exposure, high * spread / exposure)


def fit_repair(times_s: Sequence[float]) -> Repair | None:
    """Fit times to repair; None if there are none."""
    if not times_s:
        return None
    times = np.sort(np.asarray(times_s, dtype=float))
    logs = np.log(times)
    return Repair(
        len(times),
        float(times.mean()),
        float(np.median(times)),
        float(exp(logs.mean())),
        float(logs.std(ddof=1)) if len(times) > 1 else 0.0,
        times,
    )


def _names_nodes(failures: FailureLog) -> bool:
    """Return whether most failures of nodes name theirs; a few that do may be of a few nodes."""
    named = [one.number is not None for one in failures.failures if one.level in ("host", "gpu")]
    return 2 * sum(named) > len(named)


def failures_of_nodes(failures: FailureLog) -> NDArray[np.int64]:
    """Return the number of failures of each node, of the levels node and GPU, that name it."""
    counts = np.zeros(len(failures.nodes) - failures.idle_nodes, dtype=np.int64)
    for one in failures.failures:
        if one.number is None:
            continue
        if one.level == "host":
            counts[one.number] += 1
        elif one.level == "gpu":
            counts[one.number // failures.gpus_per_node] += 1
    return counts


def fit_lemons(counts: NDArray[np.int64]) -> Lemons | None:
    """Fit a gamma-distributed factor to failures by node; None for too few failures or nodes."""
    if len(counts) < LEAST_FAILURES or counts.sum() < LEAST_FAILURES:
        return None
    values, nodes = np.unique(counts, return_counts=True)
    mean = float(counts.mean())

    def likelihood(log_shape: float) -> float:
        shape = exp(log_shape)
        each = (
            special.gammaln(values + shape)
            - special.gammaln(shape)
            + shape * log(shape / (shape + mean))
            + values * log(mean / (shape + mean))
        )
        return float(nodes @ each)

    drop = float(stats.chi2.ppf(CONFIDENCE, 1)) / 2

    def bound(best: float, at: float, end: float, otherwise: float) -> float:
        """Return the end, on one side, of the shapes with a likelihood close to the best."""
        if likelihood(end) >= best - drop:
            return otherwise
        ends = min(at, end), max(at, end)
        return exp(float(optimize.brentq(lambda x: likelihood(x) - best + drop, *ends)))

    least, most = log(1e-3), log(1e5)
    found = optimize.minimize_scalar(
        lambda at: -likelihood(at), bounds=(least, most), method="bounded"
    )
    best, at = -float(found.fun), float(found.x)
    alike = float(nodes @ (values * log(mean) - mean))
    ratio = max(0.0, 2 * (best - alike))
    if ratio < 1e-3 or at > log(1e4):
        low = bound(alike, most, least, exp(least))
        return Lemons(counts, Interval(np.inf, low, np.inf), 1.0, _WORST)
    shape = exp(at)
    interval = Interval(shape, bound(best, at, least, exp(least)), bound(best, at, most, np.inf))
    worst = float(stats.gamma.sf(stats.gamma.ppf(1 - _WORST, shape), shape + 1))
    return Lemons(counts, interval, float(stats.chi2.sf(ratio, 1)) / 2, worst)


def fit_gaps(times_s: Sequence[float], span_s: float) -> Gaps:
    """Fit the times between failures; the time after the last one counts as censored."""
    ordered = np.sort(np.asarray(times_s, dtype=float))
    between = np.diff(ordered)
    gaps = np.sort(between[between > 0.0])
    same = int(len(between) - len(gaps))
    if len(gaps) < LEAST_GAPS:
        mean_s = float(gaps.mean()) if len(gaps) else span_s
        return Gaps(gaps, same, None, mean_s, None, None)
    shape = weibull_shape(gaps, [span_s - float(ordered[-1])])
    longest_s = float(gaps[-1])
    scale_s = longest_s * float(np.mean((gaps / longest_s) ** shape) ** (1.0 / shape))
    # Interval of the logarithm of the shape, by Fisher's information.
    half = _NORMAL * sqrt(6.0) / (np.pi * sqrt(len(gaps)))
    interval = Interval(shape, shape * exp(-half), shape * exp(half))
    weibull = _distance(-np.expm1(-((gaps / scale_s) ** shape)))
    exponential = _distance(-np.expm1(-gaps / gaps.mean()))
    drawn_exponential, drawn_weibull = _drawn_distances(min(len(gaps), _MOST_DRAWN))
    return Gaps(
        gaps,
        same,
        interval,
        scale_s,
        float((1 + np.sum(drawn_exponential >= exponential)) / (1 + _DRAWS)),
        float((1 + np.sum(drawn_weibull >= weibull)) / (1 + _DRAWS)),
    )


def weibull_shape(ended: ArrayLike, under_way: ArrayLike = ()) -> float:
    """Return the shape of greatest likelihood (Cohen 1965, equation 2.5) of positive times.

    Times under way are lower bounds. The shape is at most 1,000; equal times have that shape.
    """
    done, going = np.asarray(ended, dtype=float), np.asarray(under_way, dtype=float)
    every = np.concatenate([done, going[going > 0.0]])
    logs = np.log(every / every.max())
    mean = float(logs[: len(done)].mean())

    def slope(shape: float) -> float:
        weights = np.exp(shape * logs)
        return 1.0 / shape + mean - float(weights @ logs / weights.sum())

    return float(optimize.brentq(slope, 1e-3, 1e3)) if slope(1e3) < 0.0 else 1e3


def _distance(chances: Floats) -> float:
    """Return Kolmogorov's distance of ascending chances from uniform ones, times the root of n."""
    number = len(chances)
    places = np.arange(number + 1) / number
    above, below = places[1:] - chances, chances - places[:-1]
    return float(max(above.max(), below.max()) * sqrt(number))


@cache
def _drawn_distances(number: int) -> tuple[Floats, Floats]:
    """Return distances of `number` memoryless gaps from fitted exponentials and Weibulls.

    They depend on neither mean nor shape.
    """
    drawn = np.sort(np.random.default_rng(number).standard_exponential((_DRAWS, number)), axis=1)
    exponential = [_distance(-np.expm1(-gaps / gaps.mean())) for gaps in drawn]
    logs = np.log(drawn)
    shapes = np.ones((_DRAWS, 1))
    for _ in range(_NEWTON_STEPS):
        weights = np.exp(shapes * logs)
        whole = weights.sum(axis=1, keepdims=True)
        first = (weights * logs).sum(axis=1, keepdims=True) / whole
        second = (weights * logs**2).sum(axis=1, keepdims=True) / whole
        slope = 1.0 / shapes + logs.mean(axis=1, keepdims=True) - first
        shapes += slope / (1.0 / shapes**2 + second - first**2)
    powers = np.exp(shapes * logs)
    weibull = [_distance(-np.expm1(-power / power.mean())) for power in powers]
    return np.array(exponential), np.array(weibull)


def mix_text(fitted: Fit) -> str:
    """Return the fitted values as a mix of causes in TOML, with lognormal repairs.

    A cause has a shape if its gaps are not memoryless and no bursts explain that.
    """
    failures = fitted.log
    bursts = fitted.bursts if fitted.bursts is not None and fitted.bursts.found else None
    days = failures.span_s / 86_400.0
    source = (
        f"fitted to {failures.name} ({failures.form}): {len(failures.failures)} failures of "
        f"{len(failures.nodes)} nodes of {failures.gpus_per_node} GPUs in {days:.4g} days"
    )
    lines = [f"source = {json.dumps(source)}"]
    if fitted.lemons is not None and fitted.lemons.shape.mean < float("inf"):
        lines.append(
            "# Nodes differ: failures.kinds.lemon_shape, of a gamma-distributed factor on their "
            f"rates, is {_text_of(fitted.lemons.shape)}."
        )
    if bursts is not None:
        lines.append(
            "# Failures come in bursts: failures.kinds.correlated_excess is "
            f"{_text_of(bursts.excess)}, excess_within_s "
            f"{_text_of(bursts.within_s)}. The rates below hold with"
        )
        lines.append('# failures.rate = "mtbf", which counts whole bursts.')
    taken: set[str] = set()
    count_of = Counter(cause.name for cause in fitted.causes)
    for cause in fitted.causes:
        stated = cause.name if count_of[cause.name] == 1 else f"{cause.name} {cause.level}"
        lines += ["", *_cause_lines(cause, _name(stated, taken), has_shape=bursts is None)]
    return "\n".join(lines) + "\n"


def _cause_lines(cause: CauseFit, name: str, has_shape: bool) -> list[str]:
    rate = cause.per_1000_node_days
    value = min(_MOST_RATE, max(_LEAST_RATE, rate.mean))
    lines = [
        "[[cause]]",
        f"name = {json.dumps(name)}",
        f"per_1000_node_days = {value:.6g}  # {cause.count} failures; 95 %: "
        f"{rate.low:.4g} to {rate.high:.4g}",
        f'level = "{cause.level}"',
        f'kind = "{cause.kind}"',
    ]
    if cause.repair is not None:
        lines.append(_repair_line(cause.repair))
    shape = cause.gaps.shape
    if has_shape and shape is not None and not cause.gaps.memoryless:
        kept = min(_MOST_SHAPE, max(_LEAST_SHAPE, shape.mean))
        lines.append(f"shape = {kept:.4g}  # 95 %: {shape.low:.3g} to {shape.high:.3g}")
    return lines


def _repair_line(repair: Repair) -> str:
    median = f'"{min(_MOST_S, max(_LEAST_S, repair.scale_s)):.6g}s"'
    # Beyond the longest repair a wide lognormal is a guess, so the mean of the log is kept.
    of_the_mean = sqrt(2.0 * max(0.0, log(repair.mean_s / repair.scale_s)))
    sigma = min(_MOST_SIGMA, repair.sigma, of_the_mean)
    time = f"{{ median = {median}, sigma = {sigma:.3g} }}" if sigma > 1e-3 else median
    return f"repair = {time}  # {repair.count} repairs; mean {repair.mean_s:.4g} s"


def _text_of(one: Interval) -> str:
    return f"{one.mean:.3g} ({one.low:.3g} to {one.high:.3g})"


def _name(cause: str, taken: set[str]) -> str:
    """Return a unique name that a mix accepts: lower-case letters, digits and hyphens."""
    plain = re.sub(r"[^a-z0-9]+", "-", cause.lower()).strip("-")[:50] or "cause"
    name, number = plain, 1
    while name in taken:
        number += 1
        name = f"{plain}-{number}"
    taken.add(name)
    return name
