"""Runs scenes of flows on a platform, one after the other, and times them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

Flow = tuple[str, str, float]
"""Source host, destination host, size in bytes."""


def simulate_scenes(platform: Path, scenes: Sequence[Sequence[Flow]]) -> list[float]:
    """Return how long each scene of flows that start at once lasts, in s; 0 without flows.

    Flows that meet share a link equally (max-min fairness), as transfers of many small requests do
    on PCIe and in switches. SimGrid alone would give each a part in inverse proportion to its
    latency, as TCP does: a copy to host memory of 250 ns would leave a message through the fabric
    an eighth of the PCIe link. So all flows run without latency, and a scene has the largest
    latency of its flows added.

    Needs a process of its own (`simulator.simgrid_engine.process.in_own_process`).
    """
    import simgrid
    from faultline.simulator.simgrid_engine.loading import load_engine, run_controller
    from faultline.simulator.simgrid_engine.storage_traffic import arrivals_s

    engine = load_engine(platform)
    latencies_s = [_latency_s(scene) for scene in scenes]
    for link in engine.all_links:
        link.set_latency(0.0)
    lasted_s: list[float] = []

    def simulate() -> None:
        for scene, latency_s in zip(scenes, latencies_s, strict=True):
            start_s = simgrid.Engine.clock
            arrivals_s(scene)
            lasted_s.append(simgrid.Engine.clock - start_s + latency_s)

    run_controller(engine, "scenes", simulate)
    return lasted_s


def _latency_s(scene: Sequence[Flow]) -> float:
    """Return the largest latency of a scene's flows."""
    import simgrid

    routes = (
        simgrid.Host.by_name(near).route_to(simgrid.Host.by_name(far)) for near, far, _ in scene
    )
    return max((latency_s for _, latency_s in routes), default=0.0)
