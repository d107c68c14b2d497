"""Starts SimGrid in this process: once, with the network model that Faultline means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import simgrid
from faultline.platforms.network_model import engine_arguments


def load_engine(platform: Path, options: Sequence[str] = ()) -> simgrid.Engine:
    """Create this process's engine and load a platform XML; possible once a process."""
    asked = ("--log=root.thres:error", *engine_arguments(), *options)
    engine = simgrid.Engine(["faultline", *asked])
    engine.load_platform(str(platform))
    return engine


def actor_on(host: str, name: str, body: Callable[[], None], *, daemon: bool = False) -> None:
    """Start an actor; a daemon does not keep the simulation going."""
    actor = simgrid.Host.by_name(host).add_actor(name, body)
    if daemon:
        actor.daemonize()


def run_to_the_end(engine: simgrid.Engine) -> None:
    """Run until no actor but daemons is left."""
    engine.run()
