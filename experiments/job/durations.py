"""Times of the phases of a scenario's job: stated, modelled, or measured on its platform."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.tables.recovery import DETECTED_S
from faultline.experiments.job.hardware import source_of_machines
from faultline.experiments.job.placement import traffic_of
from faultline.experiments.job.platform_files import (
    explaining_aborts,
    platform_file,
    symmetry_of,
)
from faultline.experiments.job.step_times import (
    is_simulated,
    measures_compute,
    simulated_traffic,
)
from faultline.experiments.job.workload import Workload, workload_of
from faultline.simulator.job.durations import AllReduceTime, ConstantTime, Durations
from faultline.simulator.job.recovery_times import RecoveryPrices
from faultline.strategies.protection.storage import Storage

if TYPE_CHECKING:
    from faultline.simulator.job.background import WriteBesideSteps
    from faultline.simulator.simgrid.traffic import Flow, Traffic


def durations_of(scenario: Scenario, workload: Workload | None = None) -> Durations:
    """Return the times of the job's phases, measured if the scenario requests it.

    `workload` is the result of `workload_of`, if it is known.
    """
    from faultline.simulator.timing.transfer_times import SimulatedMoves

    workload = workload or workload_of(scenario)
    times, measured, groups = scenario.times, scenario.measured, scenario.job.groups
    all_reduce_s: AllReduceTime | None = None
    save_s, load_s = times.checkpoint_write_s, times.checkpoint_load_s or 0.0
    storage, rings_are_uneven = None, False
    if measured.all_reduce and workload.step is not None:
        all_reduce_s = workload.step.sync_time(groups, scenario.model.context)
    elif times.all_reduce_s is not None:
        all_reduce_s = ConstantTime(times.all_reduce_s)
    elif times.all_reduce_per_group_s is not None:
        all_reduce_s = ConstantTime(times.all_reduce_per_group_s * groups)
    if _is_probed(scenario):
        from faultline.simulator.timing.transfer_times import probe

        path, traffic = _placed(scenario)
        with explaining_aborts(path):
            probed = probe(path, traffic)
        if all_reduce_s is None:
            all_reduce_s = probed.ring_time()
            rings_are_uneven = probed.rings_are_uneven
        if measured.checkpoint:
            save_s = probed.save_s
        if measured.load:
            load_s = probed.load_s
        if measured.checkpoint or measured.load:
            from faultline.simulator.timing.transfer_times import SimulatedStorageTimes

            alike = partial(symmetry_of, path)
            assert save_s is not None, "stated or measured"
            storage = SimulatedStorageTimes(path, traffic, alike, save_s, load_s)
    written_beside = None
    if measured.checkpoint and scenario.protection.name != Storage.name:
        # In the background, the write and the steps slow each other down.
        written_beside = write_beside(scenario, platform_file(scenario))
    assert all_reduce_s is not None, "stated or measured"
    assert save_s is not None, "stated or measured"
    return Durations(
        all_reduce_s,
        save_s,
        load_s,
        recovery_prices(scenario, save_s),
        rings_are_uneven,
        storage,
        SimulatedMoves(partial(_placed, scenario), symmetry_of),
        written_beside,
    )


def _placed(scenario: Scenario) -> tuple[Path, Traffic]:
    path = platform_file(scenario)
    return path, traffic_of(scenario, path)


def write_beside(
    scenario: Scenario, path: Path, snapshot: tuple[Flow, ...] = ()
) -> WriteBesideSteps | None:
    """Return the mutual slowdown of a snapshot and steps; None if they share no link.

    Steps use no links if the all-reduce is not measured. `snapshot` has the flows to the memories
    of hosts. Without any, a group writes a checkpoint to storage.
    """
    if not scenario.measured.all_reduce:
        return None
    from faultline.simulator.timing.write_probe import write_beside_steps

    with explaining_aborts(path):
        traffic = simulated_traffic(scenario, path, snapshot)
        slowdown = write_beside_steps(path, traffic)
    return slowdown if slowdown.shares_links else None


def is_measured(scenario: Scenario) -> bool:
    """Return whether any time of the job is measured on its platform."""
    return is_simulated(scenario) or measures_compute(scenario) or _is_probed(scenario)


def _is_probed(scenario: Scenario) -> bool:
    """Return whether a time is measured besides those of an undisturbed step."""
    measured = scenario.measured
    return any(measured._replace(all_reduce=measured.all_reduce and not is_simulated(scenario)))


_GPUS_OF_PRICES = 2048
_REQUEUE_EXPONENT = 0.255
"""Growth of the time in the queue with the GPUs; derived from ByteRobust (arXiv 2509.16293): 454,
545 and 635 s on 2,048, 4,096 and 8,192 GPUs less hot updates of 46, 51 and 54 s."""


def recovery_prices(scenario: Scenario, save_s: float | None = None) -> RecoveryPrices:
    """Return the times of the phases of recoveries.

    `save_s`, the time to write a checkpoint in seconds, is the rejoin time of SPARe's study.
    """
    table, stated = scenario.recovery, scenario.times.recoveries()
    if table.preset == "published-spare" and save_s is not None:
        stated.setdefault("rejoin", save_s)
    gpus = scenario.job.all_gpus
    queue_s = table.requeue_s * (gpus / _GPUS_OF_PRICES) ** _REQUEUE_EXPONENT
    waits = {
        "requeue": queue_s,
        "reschedule": table.reschedule_s,
        "standby": table.standby_s,
        "in-place": 0.0,
        "repaired": 0.0,
    }
    hardware, watched = source_of_machines(scenario), scenario.detection.mode == "watchdog"
    elsewhere = "requeue" if table.shortage == "requeue" else "reschedule"
    longer_s = max(0.0, waits[elsewhere] - waits["standby"])
    return RecoveryPrices(
        gpus,
        detect_s=0.0 if watched else table.price("detect_s"),
        detect_by_s=DETECTED_S if table.detected == "by-kind" and not watched else {},
        diagnose_s=table.diagnose_s,
        hardware_s=waits[hardware],
        without_standby_s=longer_s if hardware == "standby" else 0.0,
        launch_s=table.price("launch_s"),
        warm_up_s=table.warm_up_s,
        communicator=table.communicator(),
        stated_s=stated,
        spread=table.spread,
        awaits_repair=hardware == "repaired",
        repair_s=scenario.rejoin.repair_s,
        factor=table.time_factor,
    )
