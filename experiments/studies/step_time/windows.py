"""The part of a cluster that is played for all of it, and the part of a job.

Replicas are equal, and the published fabrics have full bandwidth between them, so the replicas of
two servers stand for all: each ring between replicas enters and leaves a server as it does
everywhere. Bytes are those of the true number of replicas.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from faultline.platforms.preset_library import load_preset
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.xml_reader import read_platform
from faultline.platforms.xml_writer import write_xml
from faultline.simulator.pattern.step_pattern import StepPattern
from faultline.simulator.simgrid_engine.step_timing import StepTime, Timer
from faultline.simulator.workload.layout import Layout, place_on_platform
from faultline.simulator.workload.parallel_job import ParallelJob

_A100 = {
    "gpu.name": "A100 SXM4 80GB",
    "scale_up.nvlink": "nvlink3",
    "scale_up.bandwidth": "300GB/s",
}
"""What an A800 server is changed into: one with all of its NVLinks."""


def cluster(name: str, domains: int) -> ClusterSpec:
    """Return so many scale-up domains of a kind on one leaf switch a rail."""
    preset, changes = ("hgx-a800", _A100) if name == "hgx-a100" else (name, {})
    size: dict[str, object] = {
        "scale_up.domains": domains,
        "scale_out.domains_per_leaf": domains,
    }
    return load_preset(preset, **changes, **size).model_copy(update={"name": name})


def gpus_per_domain(name: str) -> int:
    """Return the GPUs of a scale-up domain of a kind of cluster."""
    return cluster(name, 2).scale_up.gpus_per_domain


@dataclass(frozen=True, slots=True)
class Window:
    """As many replicas of a job as two blocks of scale-up domains hold."""

    layout: Layout  # The replicas that are played.
    domains: int  # Scale-up domains they need.
    slots: int  # Replicas of which a stage shares a domain.

    @classmethod
    def of(cls, layout: Layout, domain_gpus: int) -> Window:
        """Return the window of a job on domains of a size."""
        slots = domain_gpus // layout.tensor
        data = min(layout.data, 2 * slots)
        return cls(replace(layout, data=data), layout.pipeline * -(-data // slots), slots)

    def pattern(self, job: ParallelJob) -> StepPattern:
        """Return what the replicas of the window do.

        A ring that does not leave a domain goes over NVLink, at a ring's share of it.
        """
        pattern = job.pattern()
        kernels = job.kernels

        def ring(size_bytes: float) -> float:
            if job.layout.data > self.slots:
                return size_bytes
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
    """Times steps of jobs on windows of one platform.

    Parameters
    ----------
    platform : Path
        Platform XML.
    timer : callable
        Times what hosts of that platform play.
    """

    def __init__(self, platform: Path, timer: Timer) -> None:
        self._platform, self._timer = read_platform(platform), timer
        self._domain_gpus = min(map(len, self._platform.domains.values()))
        self._known: dict[StepPattern, StepTime] = {}

    def __call__(self, job: ParallelJob, slowdown: float = 0.0) -> StepTime:
        """Return how long a step takes if its middle stage computes longer by a part."""
        window = Window.of(job.layout, self._domain_gpus)
        pattern = _with_slow_stage(window.pattern(job), slowdown)
        if pattern not in self._known:
            hosts = place_on_platform(window.layout, self._platform)
            self._known[pattern] = self._timer(hosts, pattern)
        return self._known[pattern]


def _with_slow_stage(pattern: StepPattern, slowdown: float) -> StepPattern:
    stage = pattern.pipeline // 2
    parts = tuple(
        replace(
            part,
            forward_flop=(1.0 + slowdown) * part.forward_flop,
            backward_flop=(1.0 + slowdown) * part.backward_flop,
        )
        if number % pattern.pipeline == stage
        else part
        for number, part in enumerate(pattern.parts)
    )
    return replace(pattern, parts=parts)


def write_platform(name: str, domains: int, directory: Path) -> Path:
    """Write the platform of so many domains into a directory, and return its file."""
    path = directory / f"{name}-{domains}.xml"
    write_xml(cluster(name, domains), path)
    return path
