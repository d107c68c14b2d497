"""Starts SimGrid in this process: once, with the network model that Faultline means."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import simgrid
from faultline.platforms.network_model import engine_arguments
from faultline.platforms.xml_names import CONTROLLER_HOST


def load_engine(platform: Path) -> simgrid.Engine:
    """Create this process's engine and load a platform XML; possible once a process.

    The platform is sealed: before that SimGrid knows no routes.
    """
    _stay_on_one_core()
    engine = simgrid.Engine(["faultline", "--log=root.thres:error", *engine_arguments()])
    engine.load_platform(str(platform))
    engine.netzone_root.seal()
    return engine


def _stay_on_one_core() -> None:
    """Keep this process on the core that the system has put it on, if the system allows it.

    Actors are threads of which one runs at a time: handing over from core to core takes ten times
    as long as on the same one.
    """
    with suppress(AttributeError, OSError):
        os.sched_setaffinity(0, {ctypes.CDLL(None).sched_getcpu()})


def run_controller(engine: simgrid.Engine, name: str, body: Callable[[], object]) -> None:
    """Start an actor on the controller's host and run until no actor but daemons is left."""
    actor_on(CONTROLLER_HOST, name, body)
    engine.run()


def alone_s(engine: simgrid.Engine, act: Callable[[], object]) -> float:
    """Let one actor act on an idle platform, from time 0; return when it has ended, in seconds."""
    run_controller(engine, "alone", act)
    return float(engine.clock)


def lasting_s(act: Callable[[], object]) -> float:
    """Let the calling actor act; return how long that takes, in seconds."""
    start_s = float(simgrid.Engine.clock)
    act()
    return float(simgrid.Engine.clock) - start_s


def start_members(hosts: Sequence[str], body: Callable[[int], object]) -> None:
    """Start an actor on each host, which calls `body` with the position of its host."""
    for position, host in enumerate(hosts):
        actor_on(host, f"member-{position}", partial(body, position))


def actor_on(host: str, name: str, body: Callable[[], object], *, daemon: bool = False) -> None:
    """Start an actor; a daemon does not keep the simulation going."""
    actor = simgrid.Host.by_name(host).add_actor(name, body)
    if daemon:
        actor.daemonize()
