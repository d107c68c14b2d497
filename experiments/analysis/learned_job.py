"""The scenario of a job, derived from its log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from math import inf, isfinite

import numpy as np
from faultline.experiments.analysis.failure_fit import Fit
from faultline.experiments.analysis.intervals import Interval
from faultline.experiments.analysis.job_fit import JobFit
from faultline.experiments.analysis.quantities import counted
from faultline.experiments.config.logs.goodput_log import GoodputLog
from faultline.experiments.config.mix_file import GPUS_PER_NODE
from faultline.experiments.config.scenario import Scenario
from faultline.simulator.failures.failure import Failure

_Z90_OVER_Z95 = 1.644854 / 1.959964
_STEPS = 100_000
_WRITE_S = 0.001
_DRAWN_NODES = 0
"""Seed for the node of each stop of a replayed job."""


def learned_job(fit: JobFit) -> Scenario:
    """Return the scenario of a fitted job: one group under checkpointing, as `scenario_text`."""
    starts = fit.between_starts
    return Scenario().change(
        {
            "job": {"gpus": max(1, fit.log.nodes) * GPUS_PER_NODE, "groups": 1, "steps": _STEPS},
            "strategy.name": "checkpoint",
            "failures": {
                "model": "independent",
                "distribution": "weibull",
                "shape": starts.shape.mean,
                "mtbf_s": starts.mean_s.mean,
            },
            "restart.failure_during": "begins-anew",
            "checkpoint.interval_steps": fit.interval_steps,
            "times": {
                "compute_s": fit.step_s.mean,
                "all_reduce_s": 0.0,
                "checkpoint_write_s": _WRITE_S,
                "checkpoint_load_s": 0.0,
                "restart_s": _sum(fit.start_to_load_s, fit.warm_up_s).mean,
            },
        }
    )


def stops_of(log: GoodputLog) -> list[Failure]:
    """Return the stops of a job as failures of a trace, each on a randomly drawn node.

    A goodput event log has the time of each restart, but not the node that had stopped the job.
    """
    nodes = np.random.default_rng(_DRAWN_NODES).integers(max(1, log.nodes), size=len(log.lives))
    return [
        Failure(life.start_s - log.start_s, "host", int(node), "stop", "hardware", None, range(0))
        for life, node in zip(log.lives[1:], nodes, strict=False)
    ]


def scenario_text(
    gpus_per_node: int,
    times: JobFit | None = None,
    failures: Fit | None = None,
    mix: str = "",
    stops: str | None = None,
) -> str:
    """Return the text of the scenario of a job from its logs, of which there is at least one.

    `times` comes from the goodput event log; without it, all times have the scenario's defaults.
    `failures` comes from the log of failures by node; without it, each group fails at the job's
    rate. `mix` names the file of causes beside the scenario. `stops` names a trace with the stops
    of the goodput event log; with it, the scenario replays that log.
    """
    nodes = times.log.nodes if times and times.log.nodes else 0
    nodes = nodes or (failures.log.job_nodes or len(failures.log.nodes) if failures else 0)
    sources = [f"{times.log.name}: {times.log.note}"] if times else []
    sources += [f"{failures.log.name}: {failures.log.form}"] if failures else []
    name = times.log.jobs[0] if times and times.log.jobs else "learned"
    failing, priors = _failures(times, failures, mix, max(1, nodes) * gpus_per_node)
    steps = f"{_STEPS}             # not in the log: state the steps of the whole job"
    if stops is not None and times is not None:
        failing, priors = _replayed(times.log, stops, gpus_per_node), []
        steps = f"{max(1, times.log.steps_kept)}                # those that the log kept"
    timing, of_times = _times(times) if times else (_UNKNOWN_TIMES, [])
    return "\n".join(
        (
            "version = 2",
            f"name = {json.dumps(name)}",
            f"description = {json.dumps('Learned from ' + '; '.join(sources))}",
            "",
            "[job]",
            f"gpus = {max(1, nodes) * gpus_per_node}" + _size_note(times, failures),
            "groups = 1                 # not in the log: state your data-parallel groups",
            f"steps = {steps}",
            "",
            "[strategy]",
            'name = "checkpoint"',
            "",
            *failing,
            "",
            *timing,
            "",
            *_uncertain([*priors, *of_times] if stops is None else []),
            "",
        )
    )


def _replayed(log: GoodputLog, stops: str, gpus_per_node: int) -> list[str]:
    """Return the table of failures that replays a log."""
    return [
        f"[failures]                 # {counted(len(log.lives) - 1, 'stop')}, as they happened",
        'model = "trace"',
        f"trace = {json.dumps(stops)}",
        f"gpus_per_host = {gpus_per_node}",
        f"trace_span_s = {log.span_s:.6g}",
        'after_end = "repeat"       # for what takes longer than the log',
    ]


def _uncertain(priors: Sequence[str]) -> list[str]:
    """Return the table of priors; it is empty if a log is replayed."""
    return ["[uncertain]                # 5 % and 95 % quantiles", *priors] if priors else []


def _size_note(times: JobFit | None, failures: Fit | None) -> str:
    """Return the comment after the GPUs of the job."""
    if times and times.log.nodes:
        return ""
    if failures is None:
        return "                   # not in the log: state your GPUs"
    whose = "the largest job of the log" if failures.log.job_nodes else "all nodes: state the job's"
    return f"                # {whose}"


_UNKNOWN_TIMES = [
    "# Not in the log: the times of a step, of checkpoints and of restarts. They follow from",
    "# [model] and [recovery], or state them in [times].",
]


def _times(fit: JobFit) -> tuple[list[str], list[str]]:
    """Return the tables of a job's times, and the lines of their priors."""
    counts = fit.counts
    restart_s = _sum(fit.start_to_load_s, fit.warm_up_s)
    lines = [
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
        f"checkpoint_write_s = {_WRITE_S}",
        "checkpoint_load_s = 0.0    # in restart_s",
        f"# Start to load, {fit.start_to_load_s.mean:.4g} s (mean of {counts['load']}), and "
        f"warm-up, {fit.warm_up_s.mean:.4g} s (mean of {counts['warm-up']}).",
        f"restart_s = {restart_s.mean:.6g}",
    ]
    priors = (
        ("times.compute_s", "normal", fit.step_s),
        ("times.restart_s", "normal", restart_s),
    )
    return lines, _priors(priors, fit.log.name)


def _failures(
    times: JobFit | None, failures: Fit | None, mix: str, gpus: int
) -> tuple[list[str], list[str]]:
    """Return the tables of a job's failures, and the lines of their priors."""
    if failures is None:
        assert times is not None
        starts = times.between_starts
        lines = [
            "[failures]                 # "
            f"{counted(starts.starts, 'time')} from start to start, Weibull, maximum likelihood",
            'model = "independent"',
            'distribution = "weibull"',
            f"shape = {starts.shape.mean:.4g}",
            f"mtbf_s = {starts.mean_s.mean:.6g}",
        ]
        known = [("failures.mtbf_s", starts.mean_s), ("failures.shape", starts.shape)]
        return lines, _priors([(key, "lognormal", one) for key, one in known], times.log.name)
    if times is not None:
        mtbf_s = times.between_starts.mean_s
        source = f"{counted(times.between_starts.starts, 'time')} from start to start"
    else:
        rate = failures.whole.rate_per_gpu_s
        low, mean, high = (1.0 / (one * gpus) for one in (rate.high, rate.mean, rate.low))
        mtbf_s = Interval(mean, low, high)
        source = f"{counted(failures.whole.count, 'failure')} of {gpus:,} GPUs"
    lines = [
        "[failures]",
        'model = "mix"',
        f"mix = {json.dumps(mix)}",
        'rate = "mtbf"              # the causes of the mix, at the rate below',
        f"mtbf_s = {mtbf_s.mean:.6g}  # {source}; it falls with the GPUs of the job",
    ]
    lemons, bursts = failures.lemons, failures.bursts
    known = [("failures.mtbf_s", mtbf_s)]
    kinds = []
    if lemons is not None and isfinite(lemons.shape.mean):
        kinds.append(
            f"lemon_shape = {lemons.shape.mean:.4g}        # nodes differ (gamma, likelihood)"
        )
        known.append(("failures.kinds.lemon_shape", lemons.shape))
    if bursts is not None and bursts.found:
        kinds.append(f"correlated_excess = {bursts.excess.mean:.4g}  # bursts (Palm likelihood)")
        kinds.append(f"excess_within_s = {bursts.within_s.mean:.4g}")
        known.append(("failures.kinds.correlated_excess", bursts.excess))
        known.append(("failures.kinds.excess_within_s", bursts.within_s))
    if kinds:
        lines += ["", "[failures.kinds]", *kinds]
    return lines, _priors([(key, "lognormal", one) for key, one in known], failures.log.name)


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
        if 0.0 < low < high < inf:
            fields = f'kind = "{kind}", low = {low!r}, high = {high!r}'
            lines.append(f'"{dotted}" = {{ {fields}, source = {json.dumps(source)} }}')
    return lines
