"""The durations of a job's phases on one platform, compared with another."""

from __future__ import annotations

from dataclasses import dataclass

from faultline.experiments.analysis.idle_edit import why_idle_edit
from faultline.experiments.config.cluster import cluster_file, platform_at
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import command_scenario, scenario_from
from faultline.experiments.job.platform_files import platform_file
from faultline.experiments.job.resolving import resolve
from faultline.platforms.preset_library import load_preset, preset_names
from faultline.platforms.spec_differences import Difference, platform_differences

_PARTS = {
    "compute_s": "  computing",
    "tensor_s": "  messages of tensor parallelism",
    "context_s": "  messages of context parallelism",
    "pipeline_s": "  messages between stages",
    "gather_s": "  gathers of sharded weights",
    "bubble_s": "  waiting for other stages or ranks",
    "data_parallel_s": "  gradients and weights between groups",
    "optimizer_s": "  the optimizer",
}
_SAME = 1e-9


@dataclass(frozen=True, slots=True)
class PhaseChange:
    """A phase on two platforms, in seconds, and the source of its time."""

    phase: str
    before_s: float
    after_s: float
    source: str

    @property
    def change(self) -> float:
        """The difference as a fraction of the first time; 0 if both are equal."""
        if abs(self.after_s - self.before_s) <= _SAME * max(self.before_s, self.after_s):
            return 0.0
        return self.after_s / self.before_s - 1.0 if self.before_s else float("inf")


@dataclass(frozen=True, slots=True)
class Edit:
    """The differences of an edited platform: in its file, and in a job."""

    scenario: Scenario
    phases: tuple[PhaseChange, ...]
    differences: tuple[Difference, ...]
    reasons: tuple[str, ...]  # Why no phase changes; empty if one does.


def compare_platforms(before: str, after: str, job: str | None, settings: list[str]) -> Edit:
    """Time the phases of a job on two platforms: files, or shipped clusters by name.

    The job is a scenario with changes, ``key=value``; by default each scale-up domain is a group.
    A missing platform or scenario, or a job that does not fit, is a UserError or PlatformError.
    """
    if job is None:
        job_table = {"groups": _domains(before)}
        tables = {"name": "a group a domain", "platform": {"file": before}, "job": job_table}
        scenario = scenario_from(tables, "platform diff")
    else:
        scenario = command_scenario(job, [*settings, f"platform.file={before!r}"])
    old, new = _phases_of(scenario), _phases_of(scenario.change({"platform.file": after}))
    phases = tuple(
        PhaseChange(name, before_s, new[name][0], source)
        for name, (before_s, source) in old.items()
        if name in new and (before_s or new[name][0])
    )
    edited = scenario.change({"platform.file": after})
    earlier, later = (platform_at(platform_file(each)) for each in (scenario, edited))
    differences = tuple(platform_differences(later, earlier, before))
    reasons: tuple[str, ...] = ()
    if differences and not any(phase.change for phase in phases):
        reasons = tuple(why_idle_edit(edited, earlier, later, differences))
    return Edit(scenario, phases, differences, reasons)


def _domains(name: str) -> int:
    if name in preset_names():
        return load_preset(name).scale_up.domains
    platform = platform_at(cluster_file(name))
    count = len(platform.domains)
    return count if count > 1 else len(platform.gpus)


def _phases_of(scenario: Scenario) -> dict[str, tuple[float, str]]:
    """Return the time of each phase of a job, in seconds, and its source; 0 if it has none."""
    job = resolve(scenario)
    durations, sources = job.durations, job.sources
    groups = scenario.job.groups
    found: dict[str, tuple[float, str]] = {"step": (job.ideal_step_s, sources["compute"])}
    if job.step is not None:
        found |= {name: (getattr(job.step, part), "measured") for part, name in _PARTS.items()}
    found |= {
        "all-reduce": (durations.all_reduce_s(groups), sources["all_reduce"]),
        "checkpoint": (durations.save_s, sources["checkpoint"]),
        "load": (durations.load_s, sources["load"]),
        "restart": (job.restart_s, sources["restart"]),
    }
    if job.protected.in_background:
        for name, cost in (
            ("snapshot", job.protected.snapshot_cost),
            ("snapshot to storage", job.protected.persist_cost),
        ):
            found[f"{name}: all wait"] = (cost.stall_s, sources["snapshot"])
            found[f"{name}: until it is whole"] = (cost.lag_s, sources["snapshot"])
    return found
