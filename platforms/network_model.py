"""How SimGrid is told to compute networks, and why.

SimGrid's default model is fitted to TCP over Ethernet. GPUs talk by RDMA and NVLink: no TCP window,
no acknowledgements that eat bandwidth of the way back, latencies and bandwidths as stated. With
this configuration, one flow takes exactly the sum of its links' latencies plus its size over the
narrowest bandwidth, and flows that meet share by max-min fairness.
"""

from __future__ import annotations

ENGINE_CONFIGURATION: dict[str, str] = {
    # Plain fluid model: shares are max-min fair.
    "network/model": "CM02",
    # Without it, every flow takes 5 % of the way back as if for TCP acknowledgements.
    "network/crosstraffic": "0",
    # A window of W bytes caps a flow at W / (2 * latency): 101 GB/s on an NVLink path of 5 us. RDMA
    # has none.
    "network/TCP-gamma": "0",
    # Otherwise flows over slow or long links get less than their fair share, as TCP's do.
    "network/weight-S": "0",
    # No hidden correction: what the file says is what a flow gets.
    "network/latency-factor": "1",
    "network/bandwidth-factor": "1",
    # Otherwise a flow from a host to itself would go over SimGrid's own loopback of 498 MB/s and 15
    # us.
    "network/loopback-bw": "1e15",
    "network/loopback-lat": "0",
}
"""SimGrid options of every simulation, by name."""


def engine_arguments() -> list[str]:
    """Return the options as arguments of ``Engine``: ``["--cfg=network/model:CM02", ...]``."""
    return [f"--cfg={name}:{value}" for name, value in ENGINE_CONFIGURATION.items()]
