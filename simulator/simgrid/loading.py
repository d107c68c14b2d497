"""Starts SimGrid in this process, once, with Faultline's network model; starts actors."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import simgrid
from faultline.platforms.network_model import engine_arguments
from faultline.platforms.xml_names import CONTROLLER_HOST


def load_engine(platform: Path) -> simgrid.Engine:
    """Create this process's engine and load a platform XML; possible once per process."""
    _stay_on_one_core()
    engine = simgrid.Engine(["faultline", "--log=root.thres:error", *engine_arguments()])
    engine.load_platform(str(platform))
    if simgrid.Host.by_name_or_null(CONTROLLER_HOST) is None:
        # Actors that control a simulation send nothing, so their host needs no routes.
        engine.netzone_root.add_host(CONTROLLER_HOST, "1Gf")
    # SimGrid knows routes only of a sealed platform.
    engine.netzone_root.seal()
    return engine


def _stay_on_one_core() -> None:
    """Keep this process on its current core, if the system allows it.

    Actors are threads, one of which runs at a time: a switch between cores takes ten times as long
    as on one core.
    """
    with suppress(AttributeError, OSError):
        os.sched_setaffinity(0, {ctypes.CDLL(None).sched_getcpu()})


def run_controller(engine: simgrid.Engine, name: str, body: Callable[[], object]) -> None:
    """Start an actor on the controller's host; run until only daemons remain."""
    actor_on(CONTROLLER_HOST, name, body)
    engine.run()


def alone_s(engine: simgrid.Engine, act: Callable[[], object]) -> float:
    """Call a function in an actor on an idle platform; return when it has ended, in seconds."""
    run_controller(engine, "alone", act)
    return float(engine.clock)


def lasting_s(act: Callable[[], object]) -> float:
    """Call a function in the calling actor; return how long it takes, in simulated seconds."""
    start_s = float(simgrid.Engine.clock)
    act()
    return float(simgrid.Engine.clock) - start_s


def actor_on(host: str, name: str, body: Callable[[], object], *, daemon: bool = False) -> None:
    """Start an actor; a daemon does not keep the simulation going."""
    actor = simgrid.Host.by_name(host).add_actor(name, body)
    if daemon:
        actor.daemonize()
