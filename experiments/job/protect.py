"""How the state of a scenario is kept: the protection, its times, and the memory it needs."""

from __future__ import annotations

from dataclasses import replace

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.job.platform_files import spec_of
from faultline.experiments.job.protected import Protected
from faultline.experiments.job.transfer_times import (
    measured_times,
    no_times,
    protected_job,
    with_gathering,
)
from faultline.simulator.job import Durations
from faultline.simulator.simgrid_engine.state_transfers import StateTransferTimes
from faultline.strategies.protection.base import Protection
from faultline.strategies.protection.registry import protection_class
from faultline.strategies.protection.storage import Storage


def protect(scenario: Scenario, durations: Durations) -> Protected:
    """Return how the state of a scenario's job is kept, all but the interval.

    Raises
    ------
    StrategyError, UserError, PlatformError
        If the job is too small for it, its platform does not say what is needed, or a node has too
        little memory.
    """
    table = scenario.protection
    chosen = protection_class(table.name)
    protection = chosen(protected_job(scenario), table.options())
    if chosen is Storage:
        return Protected(protection, no_times(durations.save_s))
    if table.times == "stated":
        times = StateTransferTimes(
            copy_s=table.copy_s,
            copy_interference_s=table.copy_interference_s,
            encode_s=0.0,
            send_s=table.send_s,
            send_interference_s=table.send_interference_s,
            load_s=table.load_s,
            rebuild_s=table.rebuild_s,
            fetch_s=table.fetch_s,
            persist_s=durations.save_s,
            host_memory_bytes=_memory_of_platform(scenario),
        )
    else:
        times = replace(measured_times(scenario, protection), persist_s=durations.save_s)
        if protection.gathers:
            times = with_gathering(times, scenario, durations)
    _check_memory(scenario, protection, times.host_memory_bytes)
    return Protected(protection, times)


def _memory_of_platform(scenario: Scenario) -> float | None:
    spec = spec_of(scenario)
    if spec is None or spec.host.memory_bytes is None:
        return None
    return spec.host.memory_bytes


def _check_memory(scenario: Scenario, protection: Protection, of_platform: float | None) -> None:
    table, spec = scenario.protection, spec_of(scenario)
    if spec is not None and spec.plane is not None and of_platform is not None:
        # A node of a rail plane is one GPU's part of a server.
        of_platform *= protection.job.gpus_per_node
    available = table.host_memory_bytes or of_platform
    needed = protection.memory_bytes_per_node
    if available is not None and needed > available:
        raise UserError(
            f'protection.name = "{table.name}": needs {needed / 1e9:,.0f} GB of host memory a '
            f"node, a node has {available / 1e9:,.0f} GB; use more nodes a replica or larger "
            "groups of peers, or set protection.host_memory_bytes if it has more"
        )
