"""What tests of the simulator share: a job that both engines run in turn."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_reader import read_platform
from faultline.platforms.xml_writer import write_xml
from faultline.simulator.accounting.progress import Progress
from faultline.simulator.accounting.timeline import Event
from faultline.simulator.job.job import Job
from faultline.simulator.processes.process import run_on_simgrid
from faultline.simulator.simgrid.traffic import Traffic
from faultline.strategies.interface.scheme import Strategy

from tests.simulator.helpers import OnEngine, replayed


@pytest.fixture(scope="session")
def platform_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Return what writes the platform of so many groups."""
    directory = tmp_path_factory.mktemp("platforms")

    @cache
    def of(groups: int) -> Path:
        path = directory / f"{groups}.xml"
        write_xml(load_preset("spare-600k", groups=groups), path)
        return path

    return of


@pytest.fixture(scope="session")
def servers_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return what writes the platform of servers of eight H100, for all who ask for the same."""
    directory = tmp_path_factory.mktemp("servers")

    def of(**overrides: object) -> Path:
        path = directory / f"{sha256(repr(overrides).encode()).hexdigest()}.xml"
        if not path.exists():
            write_xml(load_preset("hgx-h100", **overrides), path)
        return path

    return of


@pytest.fixture(params=["replay", "simgrid"])
def on_engine(request: pytest.FixtureRequest, platform_of: Callable[[int], Path]) -> OnEngine:
    """Return what runs a job whose times are all stated; every second is booked once."""

    def simulated(job: Job, strategy: Strategy) -> tuple[list[Event], Progress]:
        if request.param == "replay":
            events: list[Event] = []
            progress = replayed(job, strategy, events.append)
        else:
            path = platform_of(strategy.groups)
            hosts = [[name] for name in read_platform(path).gpu_names]
            traffic = Traffic(hosts, "", 0.0, all_reduce=False, save=False, load=False)
            result = run_on_simgrid(job, strategy, path, traffic, events=True)
            events, progress = result.events, result.progress
        assert sum(progress.seconds.values()) == pytest.approx(progress.now_s)
        return events, progress

    return simulated
