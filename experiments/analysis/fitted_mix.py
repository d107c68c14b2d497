"""A mix of causes, as a file, from what was fitted to a log."""

from __future__ import annotations

import json
import re

from faultline.experiments.analysis.failure_fit import CauseFit, Estimate, Fit, Repair
from faultline.experiments.config.logs.failure_log import FailureLog
from faultline.experiments.config.mix_file import GPUS_PER_NODE

PER_1000_NODE_DAYS = 1000 * GPUS_PER_NODE * 86_400.0
"""Times a rate a second and GPU."""

# What a mix may have.
_LEAST_SHAPE, _MOST_SHAPE = 0.1, 1000.0
_LEAST_RATE, _MOST_RATE = 1e-9, 1e9
_LEAST_S, _MOST_S, _MOST_SIGMA = 1e-6, 1e10, 10.0


def per_1000_node_days(rate_per_gpu_s: Estimate) -> Estimate:
    """Return a rate for 1,000 days of a node of eight GPUs."""
    value, low, high = (
        PER_1000_NODE_DAYS * one
        for one in (rate_per_gpu_s.value, rate_per_gpu_s.low, rate_per_gpu_s.high)
    )
    return Estimate(value, low, high)


def mix_text(fitted: Fit, failures: FailureLog) -> str:
    """Write what was fitted as a mix of causes in TOML.

    A shape is there where gaps are not memoryless. Repairs are lognormal.
    """
    days = failures.span_s / 86_400.0
    source = (
        f"fitted to {failures.name} ({failures.form}): {len(failures.failures)} failures of "
        f"{len(failures.nodes)} nodes of {failures.gpus_per_node} GPUs in {days:.4g} days"
    )
    lines = [f"source = {json.dumps(source)}"]
    if fitted.lemons is not None and fitted.lemons.shape.value < float("inf"):
        lines.append(
            "# Nodes differ: failures.kinds.lemon_shape, of a gamma-distributed factor on their "
            f"rates, is {_told(fitted.lemons.shape)}."
        )
    taken: set[str] = set()
    for cause in fitted.causes:
        lines += ["", *_cause_lines(cause, _name(cause.name, taken))]
    return "\n".join(lines) + "\n"


def _cause_lines(cause: CauseFit, name: str) -> list[str]:
    rate = per_1000_node_days(cause.rate_per_gpu_s)
    value = min(_MOST_RATE, max(_LEAST_RATE, rate.value))
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
    if shape is not None and not cause.gaps.memoryless:
        kept = min(_MOST_SHAPE, max(_LEAST_SHAPE, shape.value))
        lines.append(f"shape = {kept:.4g}  # 95 %: {shape.low:.3g} to {shape.high:.3g}")
    return lines


def _repair_line(repair: Repair) -> str:
    median = f'"{min(_MOST_S, max(_LEAST_S, repair.scale_s)):.6g}s"'
    sigma = min(_MOST_SIGMA, repair.sigma)
    time = f"{{ median = {median}, sigma = {sigma:.3g} }}" if sigma > 1e-3 else median
    return f"repair = {time}  # {repair.count} repairs; mean {repair.mean_s:.4g} s"


def _told(estimate: Estimate) -> str:
    return f"{estimate.value:.3g} ({estimate.low:.3g} to {estimate.high:.3g})"


def _name(cause: str, taken: set[str]) -> str:
    """Return a name that a mix may have: small letters, digits and hyphens, and none twice."""
    plain = re.sub(r"[^a-z0-9]+", "-", cause.lower()).strip("-")[:50] or "cause"
    name, number = plain, 1
    while name in taken:
        number += 1
        name = f"{plain}-{number}"
    taken.add(name)
    return name
