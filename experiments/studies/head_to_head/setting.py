"""The platform, the model and the rules of the head-to-head; and its cells."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Literal

from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.platform_files import platform_file
from faultline.experiments.job.protected import protect
from faultline.experiments.job.resolved_job import durations_of, restart_time_s
from faultline.experiments.studies.head_to_head.failures import Process
from faultline.simulator.failures.failure import JobLayout
from faultline.simulator.job import Durations

PlaneName = Literal["restart", "domains", "settings", "stalls", "layers"]

SCENARIO = "head-to-head"
GROUPS = 64
GPUS_PER_GROUP = 512
# 419 interruptions in 54 days on 16,384 GPUs (Grattafiori et al. 2024, Llama 3).
GPU_MTBF_S = 54 * 86_400.0 / 419 * 16_384
_FAILURES_WANTED = 120
_LEAST_STEPS, _MOST_STEPS = 120, 5000


@dataclass(frozen=True, slots=True)
class Cell:
    """One set of circumstances.

    Attributes
    ----------
    plane : str
        Which picture it is in.
    x, y : float
        Where.
    mtbf_s, restart_s : float
        Mean time between failures of the whole job, and time of a restart without loading, in
        seconds.
    groups : int
        Groups of 512 GPUs.
    domain_share : float
        Share of the failures that break a whole scale-up domain.
    stall_s : float or None
        What every event costs everybody, in seconds; None for what each scheme says of its own.
    layers : int or None
        Layers of the model, where they are not those of the job.
    """

    plane: PlaneName
    x: float
    y: float
    mtbf_s: float
    restart_s: float
    groups: int = GROUPS
    domain_share: float = 0.0
    stall_s: float | None = None
    layers: int | None = None


@dataclass(frozen=True, slots=True)
class Ground:
    """What all cells have in common.

    Attributes
    ----------
    scenario : Scenario
        The job, with protection times stated as they were measured.
    durations : Durations
        As measured on the platform.
    protections : tuple of (str, Scenario)
        The scenario under each protection, its times as measured.
    """

    scenario: Scenario
    durations: Durations
    protections: tuple[tuple[str, Scenario], ...]

    def in_cell(self, cell: Cell, protection: str) -> Scenario:
        """Return the scenario of a cell under a protection."""
        base = dict(self.protections)[protection]
        job = base.job.model_copy(
            update={"groups": cell.groups, "gpus": cell.groups * GPUS_PER_GROUP}
        )
        failures = base.failures.model_copy(update={"mtbf_s": cell.mtbf_s})
        restart = base.restart.model_copy(update={"duration_s": cell.restart_s})
        changes = {"job": job, "failures": failures, "restart": restart}
        return base.model_copy(update=changes | _smaller_peers(base, cell.groups))

    def durations_in(self, cell: Cell, states_stall: bool = False) -> Durations:
        """Return the times of a cell's phases.

        Parameters
        ----------
        cell : Cell
            The circumstances.
        states_stall : bool
            Whether the scheme's options say what a failure costs that it masks; else, where all
            events cost the same, the controller takes that long.
        """
        durations = replace(self.durations, restart_s=cell.restart_s)
        if cell.stall_s is None:
            return durations
        controller_s = 0.0 if states_stall else cell.stall_s
        return replace(durations, controller_s=controller_s, rejoin_s=cell.stall_s)

    def steps_in(self, cell: Cell) -> int:
        """Return how many steps are played: for about 120 failures, from 120 to 5,000."""
        step_s = self.scenario.job.compute_s + self.durations.all_reduce_s(cell.groups)
        return min(_MOST_STEPS, max(_LEAST_STEPS, ceil(_FAILURES_WANTED * cell.mtbf_s / step_s)))

    def process(self, cell: Cell) -> Process:
        """Return the failures of a cell."""
        table = self.scenario.failures
        layout = JobLayout(
            cell.groups,
            GPUS_PER_GROUP,
            table.gpus_per_host or 8,
            table.gpus_per_domain or 32,
            GPUS_PER_GROUP,
        )
        return Process(layout, cell.mtbf_s, cell.domain_share)


def measured_ground(protections: Iterable[str]) -> Ground:
    """Measure on the platform what all cells have in common; known measurements are not repeated.

    Gradients are reduced at 16 bits a parameter, and the state that is saved and loaded has 14
    bytes a parameter: two probes, of which each gives its part.
    """
    scenario = load_scenario(SCENARIO)
    # Read once as a file: a preset is generated anew each time that it is asked for.
    platform = scenario.platform.model_copy(update={"file": str(platform_file(scenario))})
    scenario = scenario.model_copy(update={"platform": platform})
    whole_state = scenario.job.model_copy(
        update={"parameter_bytes": scenario.protection.state_bytes}
    )
    of_state = durations_of(scenario.model_copy(update={"job": whole_state}))
    durations = replace(
        durations_of(scenario),
        save_s=of_state.save_s,
        load_s=of_state.load_s,
        rejoin_s=of_state.rejoin_s,
    )
    beneath = tuple(
        (name, _with_times(scenario, name, durations)) for name in sorted(set(protections))
    )
    return Ground(scenario, durations, beneath)


def _smaller_peers(scenario: Scenario, groups: int) -> dict[str, Any]:
    """Let no more nodes share a snapshot than there are groups; small clusters have few."""
    table = scenario.protection
    changed = {}
    for name, key in (("reft", "sharding_group"), ("gemini", "replicas")):
        options = getattr(table, name, None)
        if options is not None and getattr(options, key, 0) > groups:
            changed[name] = options.model_copy(update={key: groups})
    return {"protection": table.model_copy(update=changed)} if changed else {}


def _with_times(scenario: Scenario, protection: str, durations: Durations) -> Scenario:
    """State what moving the state takes under a protection, as measured."""
    named = scenario.protection.model_copy(update={"name": protection})
    measured = scenario.model_copy(update={"protection": named})
    times = protect(measured, durations).times
    stated = {
        "times": "stated",
        "copy_s": times.copy_s + times.encode_s,
        "copy_interference_s": times.copy_interference_s,
        "send_s": times.send_s,
        "send_interference_s": times.send_interference_s,
        "load_s": times.load_s,
        "rebuild_s": times.rebuild_s,
        "fetch_s": times.fetch_s,
    }
    return measured.model_copy(update={"protection": named.model_copy(update=stated)})


def modelled_restart_s(gpus: int) -> float:
    """Return a restart's time by the number of GPUs, as ByteRobust measured, in seconds."""
    scenario = load_scenario(SCENARIO, ["restart.time=modelled", f"job.gpus={gpus}"])
    return restart_time_s(scenario)
