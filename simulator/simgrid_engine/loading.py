"""Starts SimGrid in this process: once, with the network model that Faultline means."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import simgrid
from faultline.platforms.network_model import engine_arguments


def load_engine(platform: Path, options: Sequence[str] = ()) -> simgrid.Engine:
    """Create this process's engine and load a platform XML; possible once a process.

    The platform is sealed: before that SimGrid knows no routes.
    """
    _stay_on_one_core()
    asked = ("--log=root.thres:error", *engine_arguments(), *options)
    engine = simgrid.Engine(["faultline", *asked])
    engine.load_platform(str(platform))
    engine.netzone_root.seal()
    return engine


def _stay_on_one_core() -> None:
    """Keep this process on the core that the system has put it on, where the system lets it.

    Actors are threads of which one runs at a time: handing over from core to core takes ten times
    as long as on the same one.
    """
    with suppress(AttributeError, OSError):
        os.sched_setaffinity(0, {ctypes.CDLL(None).sched_getcpu()})


def actor_on(host: str, name: str, body: Callable[[], None], *, daemon: bool = False) -> None:
    """Start an actor; a daemon does not keep the simulation going."""
    actor = simgrid.Host.by_name(host).add_actor(name, body)
    if daemon:
        actor.daemonize()


def run_to_the_end(engine: simgrid.Engine) -> None:
    """Run until no actor but daemons is left."""
    engine.run()
