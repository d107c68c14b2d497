"""How long the phases of a scenario's job take: stated, modelled, or measured on its platform."""

from __future__ import annotations

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.job.platform_files import explaining_aborts, platform_file, traffic_of
from faultline.experiments.job.step_times import is_played, step_time_of
from faultline.simulator.durations import AllReduceTime, ConstantTime
from faultline.simulator.job import Durations
from faultline.simulator.probe_cache import cached_probe
from faultline.simulator.simgrid_engine.probes import ProbeResult


def durations_of(scenario: Scenario) -> Durations:
    """Return the times of the job's phases, measured where the scenario says so."""
    reduce, checkpoint, restart = scenario.all_reduce, scenario.checkpoint, scenario.restart
    all_reduce_s: AllReduceTime | None = None
    save_s, load_s, load_growth_s, unevenness = None, 0.0, 0.0, 0.0
    step = step_time_of(scenario) if reduce.time == "measured" else None
    if step is not None:
        all_reduce_s = step.sync_time(scenario.job.groups, scenario.model.context)
    if reduce.time == "stated":
        each_s, groups = reduce.time_per_group_s, scenario.job.groups
        all_s = reduce.time_s if each_s is None or reduce.time_s is not None else each_s * groups
        all_reduce_s = ConstantTime(_stated(all_s, "all_reduce.time", "time_s"))
    if checkpoint.write == "stated":
        save_s = _stated(checkpoint.write_s, "checkpoint.write", "write_s")
    if _is_probed(scenario):
        measured = measure(scenario)
        if all_reduce_s is None:
            all_reduce_s = measured.ring_time()
            unevenness = measured.ring_unevenness
        if checkpoint.write == "measured":
            save_s = measured.save_s
            unevenness = max(unevenness, measured.storage_unevenness)
        if restart.load == "measured":
            load_s, load_growth_s = measured.load_s, measured.load_growth_s
            unevenness = max(unevenness, measured.storage_unevenness)
    assert all_reduce_s is not None, "stated or measured"
    assert save_s is not None, "stated or measured"
    return Durations(
        all_reduce_s,
        save_s,
        load_s,
        restart_time_s(scenario),
        controller_time_s(scenario),
        restart.shrink_per_member_s,
        save_s if scenario.rejoin.time_s is None else scenario.rejoin.time_s,
        unevenness,
        load_growth_s,
    )


def is_measured(scenario: Scenario) -> bool:
    """Return whether any time of the job is to be measured on its platform: that takes a while."""
    return is_played(scenario) or _is_probed(scenario)


def _is_probed(scenario: Scenario) -> bool:
    """Return whether a time is to be measured besides those of an undisturbed step."""
    return "measured" in (
        "played" if is_played(scenario) else scenario.all_reduce.time,
        scenario.checkpoint.write,
        scenario.restart.load,
    )


def restart_time_s(scenario: Scenario) -> float:
    """Return the seconds of a group's restart without loading: stated, or modelled by GPUs."""
    restart = scenario.restart
    if restart.time == "stated":
        return _stated(restart.duration_s, "restart.time", "duration_s")
    growth = (
        scenario.job.all_gpus / restart.initialisation_gpus
    ) ** restart.initialisation_exponent
    return float(restart.scheduling_s + restart.initialisation_s * growth)


def controller_time_s(scenario: Scenario) -> float:
    """Return the seconds in which the job shrinks; where open, by the time of a new communicator.

    NCCLX (arXiv 2510.20171) makes one of 8k, 32k, 96k GPUs in 3.97, 11.9, 24.0 s.
    """
    stated = scenario.restart.controller_s
    return float(0.88 * (scenario.job.all_gpus / 1000) ** 0.72) if stated is None else stated


def _stated(value_s: float | None, choice: str, key: str) -> float:
    if value_s is None:
        table = choice.partition(".")[0]
        raise UserError(f'{choice} = "stated": needs {table}.{key}')
    return value_s


def measure(scenario: Scenario) -> ProbeResult:
    """Return what SimGrid measures for this job on its platform."""
    path = platform_file(scenario)
    with explaining_aborts(path):
        return cached_probe(path, traffic_of(scenario, path))
