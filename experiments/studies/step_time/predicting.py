"""Fits a stack's efficiency on one row, and predicts the others: every step is simulated.

The study simulates a part of the job on a part of the cluster. Replicas are equal, and published
fabrics have full bandwidth between them, so the replicas of two servers represent all: each ring
between replicas enters and leaves a server in the same way. Bytes are those of all replicas.

Collectives inside a scale-up domain are simulated as in a step. Their bytes follow from the
published curves, so their bus bandwidth only checks that the runner reproduces its input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import NormalDist
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pandas as pd
from faultline.experiments.studies.data import read_rows
from faultline.experiments.studies.step_time.published import Case, PublishedChoice
from faultline.platforms.preset_library import load_preset
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.xml_reader import read_platform
from faultline.platforms.xml_writer import write_xml
from faultline.simulator.job.durations import StepTime
from faultline.simulator.pattern.step_pattern import PartWork, PassWork, StepPattern
from faultline.simulator.timing.step_times import TimeStep, with_step_timer
from faultline.simulator.workload.kernels import A100, GB200, H100, Kernels
from faultline.simulator.workload.layout import Layout, place_on_platform
from faultline.simulator.workload.parallel_job import ParallelJob

Result = TypeVar("Result")


def cluster(name: str, domains: int) -> ClusterSpec:
    """Return some scale-up domains of a kind on one leaf switch per rail."""
    size: dict[str, object] = {"scale_up.domains": domains, "scale_out.domains_per_leaf": domains}
    return load_preset(name, **size)


def gpus_per_domain(name: str) -> int:
    """Return the GPUs of a scale-up domain of a kind of cluster."""
    return cluster(name, 2).scale_up.gpus_per_domain


@dataclass(frozen=True, slots=True)
class Window:
    """The replicas of a job that fit into two blocks of scale-up domains."""

    layout: Layout  # The simulated replicas.
    domains: int  # Scale-up domains they need.
    slots: int  # Number of replicas that share a domain at a stage.

    @classmethod
    def of(cls, layout: Layout, domain_gpus: int) -> Window:
        """Return the window of a job on domains of a size."""
        slots = domain_gpus // layout.tensor
        data = min(layout.data, 2 * slots)
        return cls(replace(layout, data=data), layout.pipeline * -(-data // slots), slots)

    def pattern(self, job: ParallelJob) -> StepPattern:
        """Return the step of the window's replicas."""
        pattern, kernels = job.pattern(), job.kernels

        def ring(size_bytes: float) -> float:
            if job.layout.data > self.slots:
                return size_bytes
            # A ring within a domain uses NVLink, at a ring's share of it.
            sent = size_bytes * kernels.scale_out_share
            return sent / kernels.scale_up_share(sent)

        return replace(
            pattern,
            data=self.layout.data,
            context=min(job.context, self.layout.data),
            hidden_gradient_bytes=tuple(map(ring, pattern.hidden_gradient_bytes)),
            hidden_weight_bytes=tuple(map(ring, pattern.hidden_weight_bytes)),
            gradient_bytes=tuple(map(ring, pattern.gradient_bytes)),
        )


class WindowTimer:
    """Times steps of jobs on windows of one platform."""

    def __init__(self, platform: Path, timer: TimeStep) -> None:
        self._platform, self._timer = read_platform(platform), timer
        self._domain_gpus = min(map(len, self._platform.domains.values()))
        self._known: dict[StepPattern, StepTime] = {}

    def __call__(self, job: ParallelJob, slowdown: float = 0.0) -> StepTime:
        """Return the time of a step whose middle stage has `slowdown` more compute time.

        Each stage waits for the slowest of its GPUs, in all replicas.
        """
        window = Window.of(job.layout, self._domain_gpus)
        slowest = slowest_gpu(job.layout.data * job.layout.tensor)
        pattern = _slowed(window.pattern(job), slowest, slowdown)
        if pattern not in self._known:
            hosts = place_on_platform(window.layout, self._platform)
            self._known[pattern] = self._timer(hosts, pattern)
        return self._known[pattern]


def _slowed(pattern: StepPattern, everywhere: float, in_the_middle: float) -> StepPattern:
    factors = [1.0 + everywhere] * pattern.pipeline
    factors[pattern.pipeline // 2] *= 1.0 + in_the_middle
    parts = tuple(
        part.slower(factors[number % pattern.pipeline]) for number, part in enumerate(pattern.parts)
    )
    return replace(pattern, parts=parts)


def _on_cluster(name: str, domains: int, run: Callable[[Path, TimeStep], Result]) -> Result:
    """Call a function with the platform file of some domains, and a timer of steps on it."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / f"{name}-{domains}.xml"
        write_xml(cluster(name, domains), path)
        return with_step_timer(path, partial(run, path))


_TOLERANCE = 1e-4
"""Relative tolerance of a fitted step time."""
_MOST_STEPS = 12

TimeJob = Callable[[ParallelJob, float], StepTime]
"""Times a job with a relative slowdown of one stage."""


@dataclass(frozen=True, slots=True)
class Group:
    """Cases with a common efficiency, simulated in one process."""

    cases: tuple[Case, ...]  # Predicted rows.
    fitted: Case  # The row for the fit of the efficiency.
    # Efficiency by choices for the fitted row, if already known.
    efficiencies: Mapping[PublishedChoice, float] = field(default_factory=dict)


def simulated_choices(case: Case) -> tuple[PublishedChoice, ...]:
    """Return the simulated choices of a case: the default, and the ends of each."""
    default = case.choices[0]
    simulated = [default]
    for place in range(len(default)):
        rest = (*default[:place], *default[place + 1 :])
        varied = [each for each in case.choices if (*each[:place], *each[place + 1 :]) == rest]
        simulated += (min(varied), max(varied))
    return tuple(dict.fromkeys(simulated))


@dataclass(frozen=True, slots=True)
class Predicted:
    """The result of a group."""

    efficiencies: dict[PublishedChoice, float]  # Efficiency by choices for the fitted row.
    rows: pd.DataFrame  # A row per case and choice.


def simulate(group: Group) -> Predicted:
    """Fit a group's efficiency if it is unknown, and run its cases."""
    kind = group.fitted.software.cluster
    size = gpus_per_domain(kind)
    everything = group.cases if group.efficiencies else (group.fitted, *group.cases)
    domains = max(Window.of(case.layout, size).domains for case in everything)
    return _on_cluster(kind, max(2, domains), partial(_simulate, group))


def _simulate(group: Group, platform: Path, timer: TimeStep) -> Predicted:
    time_job = WindowTimer(platform, timer)
    fitted = group.fitted
    efficiencies = dict(group.efficiencies) or {
        choice: fit(fitted, choice, time_job) for choice in simulated_choices(fitted)
    }
    usual = efficiencies[fitted.choices[0]]
    rows: list[dict[str, Any]] = []
    for case in group.cases:
        alike = case.model.layers == fitted.model.layers
        alike = alike and case.layout.pipeline == fitted.layout.pipeline
        for choice in simulated_choices(case):
            # If the fitted row has the same choice, both share its efficiency.
            efficiency = efficiencies.get(choice, usual) if alike else usual
            time = expected_step(case, case.job(efficiency, choice), time_job)
            rows.append(
                {
                    "case": case.label,
                    "parts": choice.virtual_stages,
                    "micro_batch": choice.micro_batch,
                    "stated": choice == case.choices[0],
                    "efficiency": efficiency,
                    "step_s": time.step_s,
                    **asdict(time),
                }
            )
    return Predicted(efficiencies, pd.DataFrame(rows))


def expected_step(case: Case, job: ParallelJob, time_job: TimeJob) -> StepTime:
    """Return a step's mean time over clusters with randomly placed slow hosts, if there are any.

    All stages wait for a slow one, and two are no worse than one. So only the probability matters
    that none of the job's hosts is slow.
    """
    stack = case.software
    undisturbed = time_job(job, 0.0)
    if not stack.slow_hosts:
        return undisturbed
    slow_s = asdict(time_job(job, stack.slowdown))
    none_slow = (1.0 - stack.slow_hosts) ** (case.gpus / gpus_per_domain(stack.cluster))
    mean = {
        part: none_slow * part_s + (1.0 - none_slow) * slow_s[part]
        for part, part_s in asdict(undisturbed).items()
    }
    return replace(undisturbed, **mean)


_HOST_SPREAD = 0.05
"""Spread of the speeds of eight equal GPUs in a host (Bekman, ML engineering handbook)."""


def slowest_gpu(gpus: int) -> float:
    """Return the relative excess of the slowest GPU's compute time over that of the median GPU.

    Speeds are normal. The slowest and the fastest of eight differ by `_HOST_SPREAD`. The result is
    the median of the slowest; for a single GPU it is zero.
    """

    def deviations(count: int) -> float:
        """Return the median of the largest of `count` standard normal numbers."""
        return NormalDist().inv_cdf(0.5 ** (1.0 / count))

    return _HOST_SPREAD / 2.0 * deviations(gpus) / deviations(8)


def fit(case: Case, choice: PublishedChoice, time_job: TimeJob) -> float:
    """Return the efficiency at which the simulated step time equals the published one.

    A step's time is nearly a + b / efficiency, so secants over its inverse converge at once.
    """
    unit, value = case.outputs[0]
    assert value is not None, f"{case.label} is not published: nothing to fit on"
    target_s = case.in_unit(value, unit)

    def excess_s(inverse: float) -> float:
        return expected_step(case, case.job(1.0 / inverse, choice), time_job).step_s - target_s

    previous, inverse = 1.0, 1.3
    previous_error_s, error_s = excess_s(previous), excess_s(inverse)
    for _ in range(_MOST_STEPS):
        if abs(error_s) <= _TOLERANCE * target_s:
            return 1.0 / inverse
        slope = (error_s - previous_error_s) / (inverse - previous)
        previous, previous_error_s = inverse, error_s
        inverse -= error_s / slope
        error_s = excess_s(inverse)
    raise RuntimeError(f"no efficiency explains {case.label}")


_MIB = 2**20
_PLATFORMS: Mapping[str, tuple[str, Kernels]] = {
    "A100": ("hgx-a100", A100),
    "H100": ("hgx-h100", H100),
    "NVL72": ("gb200-nvl72", GB200),
}
GPUS = tuple(_PLATFORMS)
"""Kinds of scale-up domain, by GPU."""


def bus_bandwidths(gpu: str) -> pd.DataFrame:
    """Return a row per collective and size: published and simulated bandwidth, in GB/s."""
    cluster, kernels = _PLATFORMS[gpu]
    rows = read_rows("step_time", "collectives")
    measured = pd.DataFrame(row for row in rows if row["gpu"] == gpu)
    return measured.assign(simulated=_on_cluster(cluster, 2, partial(_rates, kernels, measured)))


def _rates(
    kernels: Kernels, measured: pd.DataFrame, platform: Path, timer: TimeStep
) -> list[float]:
    rates = []
    for row in measured.itertuples():
        hosts = place_on_platform(Layout(1, 1, row.ranks), read_platform(platform))
        size_bytes, passes = float(row.mib * _MIB), 1 if row.collective == "all-gather" else 2
        sent = passes * (row.ranks - 1) / row.ranks * size_bytes
        carried = kernels.ring(size_bytes, row.ranks, passes)
        if row.collective == "all-reduce":
            carried = kernels.all_reduce(size_bytes, row.ranks)
        part = PartWork(PassWork(0.0, carried.size_bytes, tensor_hops=carried.hops))
        step = StepPattern(1, 1, row.ranks, 1, 1, (part,), 0.0, 1.0, (0.0,), (0.0,), (0.0,))
        rates.append(sent / timer(hosts, step).step_s / 1e9)
    return rates
