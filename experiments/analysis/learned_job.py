"""The scenario of a job from what its log says."""

from __future__ import annotations

import json
from collections.abc import Iterable

from faultline.experiments.analysis.intervals import Interval
from faultline.experiments.analysis.job_fit import JobFit
from faultline.experiments.analysis.quantities import counted
from faultline.experiments.config.logs.goodput_log import GoodputLog
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import ScenarioSource
from faultline.experiments.config.toml_text import parse_toml

_Z90_OVER_Z95 = 1.644854 / 1.959964
_STEPS = 100_000


def learned_job(fit: JobFit, log: GoodputLog, gpus_per_node: int = 8) -> Scenario:
    """Return the scenario of a fitted job: one group under checkpointing."""
    text = scenario_text(fit, log, gpus_per_node)
    return ScenarioSource(f"scenario of {log.name}", parse_toml(text)[0], text=text).scenario()


def scenario_text(fit: JobFit, log: GoodputLog, gpus_per_node: int) -> str:
    """Return the text of a scenario of a fitted job.

    Parameters
    ----------
    fit : JobFit
        The fitted times.
    log : GoodputLog
        The log.
    gpus_per_node : int
        GPUs of each node.
    """
    name = log.jobs[0] if log.jobs else "learned"
    starts, counts = fit.between_starts, fit.counts
    restart_s = _sum(fit.start_to_load_s, fit.warm_up_s)
    return "\n".join(
        (
            "version = 2",
            f"name = {json.dumps(name)}",
            f"description = {json.dumps(f'Learned from {log.name}: {log.note}')}",
            "",
            "[job]",
            f"gpus = {log.nodes * gpus_per_node}",
            "groups = 1                 # not in the log: state your data-parallel groups",
            f"steps = {_STEPS}             # not in the log: state the steps of the whole job",
            "",
            "[strategy]",
            'name = "checkpoint"',
            "",
            "[failures]                 # "
            f"{counted(starts.starts, 'time')} from start to start, Weibull, maximum likelihood",
            'model = "independent"',
            'distribution = "weibull"',
            f"shape = {starts.shape.mean:.4g}",
            f"mtbf_s = {starts.mean_s.mean:.6g}",
            "",
            "[restart]",
            'failure_during = "begins-anew"',
            "",
            "[checkpoint]",
            f"interval_steps = {fit.interval_steps}",
            "",
            "[times]",
            f"# A whole step: mean of {counted(counts['step'], 'time')} between checkpoints.",
            f"compute_s = {fit.step_s.mean:.6g}",
            "all_reduce_s = 0.0         # in compute_s",
            "# Not in the log: for how long a checkpoint stops the job. It counts in compute_s:",
            f"# if you state it, take a {fit.interval_steps}th of it off there.",
            "checkpoint_write_s = 0.001",
            "checkpoint_load_s = 0.0    # in restart_s",
            f"# Start to load, {fit.start_to_load_s.mean:.4g} s (mean of {counts['load']}), and "
            f"warm-up, {fit.warm_up_s.mean:.4g} s (mean of {counts['warm-up']}).",
            f"restart_s = {restart_s.mean:.6g}",
            "",
            "[uncertain]                # 5 % and 95 % quantiles",
            *_priors(
                (
                    ("failures.mtbf_s", "lognormal", starts.mean_s),
                    ("failures.shape", "lognormal", starts.shape),
                    ("times.compute_s", "normal", fit.step_s),
                    ("times.restart_s", "normal", restart_s),
                ),
                log.name,
            ),
            "",
        )
    )


def _sum(one: Interval, other: Interval) -> Interval:
    """Return the sum of two independent means."""
    mean = one.mean + other.mean
    half = ((one.high - one.mean) ** 2 + (other.high - other.mean) ** 2) ** 0.5
    return Interval(mean, mean - half, mean + half)


def _priors(keys: Iterable[tuple[str, str, Interval]], source: str) -> list[str]:
    """Return the lines of the priors: their 90 % intervals from 95 % ones."""
    lines = []
    for dotted, kind, interval in keys:
        ratio = _Z90_OVER_Z95
        if kind == "lognormal":
            low = interval.mean * (interval.low / interval.mean) ** ratio
            high = interval.mean * (interval.high / interval.mean) ** ratio
        else:
            low = interval.mean + ratio * (interval.low - interval.mean)
            high = interval.mean + ratio * (interval.high - interval.mean)
        low, high = float(f"{low:.6g}"), float(f"{high:.6g}")
        if 0.0 < low < high:
            fields = f'kind = "{kind}", low = {low!r}, high = {high!r}'
            lines.append(f'"{dotted}" = {{ {fields}, source = {json.dumps(source)} }}')
    return lines
