"""SimGrid's configuration for networks, and the reason of each option.

SimGrid's default model is fitted to TCP over Ethernet. GPUs communicate by RDMA and NVLink: these
have no TCP window, and no acknowledgements that use bandwidth in the other direction. With this
configuration, a single flow takes exactly the sum of its links' latencies plus its size over the
smallest bandwidth. Concurrent flows share a link by max-min fairness.
"""

from __future__ import annotations

ENGINE_CONFIGURATION: dict[str, str] = {
    # Plain fluid model: shares are max-min fair.
    "network/model": "CM02",
    # By default, each flow also uses 5 % of its bandwidth in reverse, for TCP acknowledgements.
    "network/crosstraffic": "0",
    # A TCP window of W bytes caps a flow at W / (2 * latency): 101 GB/s on an NVLink path of 5 us.
    # RDMA has no window.
    "network/TCP-gamma": "0",
    # By default, flows over slow or long links get less than their fair share, as with TCP.
    "network/weight-S": "0",
    # Latencies and bandwidths are those of the file, without correction factors.
    "network/latency-factor": "1",
    "network/bandwidth-factor": "1",
    # By default, a flow from a host to itself takes SimGrid's loopback of 498 MB/s and 15 us.
    "network/loopback-bw": "1e15",
    "network/loopback-lat": "0",
}
"""SimGrid options of every simulation, by name."""


def engine_arguments() -> list[str]:
    """Return the options as arguments of ``Engine``: ``["--cfg=network/model:CM02", ...]``."""
    return [f"--cfg={name}:{value}" for name, value in ENGINE_CONFIGURATION.items()]
