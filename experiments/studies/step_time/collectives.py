"""Bus bandwidth of collectives inside a scale-up domain, played as a step plays them.

They are given bytes that follow from the published curves, so this checks that the player gives
back what it was given, latencies included; it predicts nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pandas as pd
from faultline.experiments.analysis.printing import Printed
from faultline.experiments.studies.base import Row, row_of
from faultline.experiments.studies.step_time.windows import write_platform
from faultline.platforms.xml_reader import read_platform
from faultline.simulator.pattern.step_pattern import PartWork, StepPattern
from faultline.simulator.simgrid_engine.step_timing import Timer, with_timer
from faultline.simulator.workload.kernels import A100, GB200, H100, Kernels
from faultline.simulator.workload.layout import Layout, place_on_platform

_MIB = 2**20


class _Measured(NamedTuple):
    """What was published of a collective: GPUs, MiB, GB/s."""

    collective: str
    ranks: int
    mib: int
    published: float


class _Server(NamedTuple):
    """A platform, its GPUs' kernels, and what was published of them."""

    platform: str
    kernels: Kernels
    measured: tuple[_Measured, ...]


def _all_reduces(published: Mapping[int, float]) -> Iterator[_Measured]:
    return (_Measured("all-reduce", 8, mib, rate) for mib, rate in published.items())


# nccl-tests on eight GPUs; 32 of an NVL72 with large buffers. H100 and GB200 reduce in the switch.
_SERVERS: Mapping[str, _Server] = {
    "A100": _Server(
        "hgx-a100",
        A100,
        tuple(_all_reduces({1: 18, 4: 72, 16: 106, 64: 172, 256: 194, 1024: 229})),
    ),
    "H100": _Server(
        "hgx-h100",
        H100,
        (
            *_all_reduces({1: 67, 4: 135, 16: 237, 64: 362, 256: 422, 1024: 466}),
            _Measured("all-reduce by rings", 8, 1024, 370),
            _Measured("all-gather", 8, 1024, 362),
        ),
    ),
    "NVL72": _Server(
        "gb200-nvl72",
        GB200,
        (
            _Measured("all-reduce", 32, 16384, 850),
            _Measured("all-reduce by rings", 32, 16384, 680),
        ),
    ),
}

GPUS = tuple(_SERVERS)
"""Kinds of scale-up domain, by GPU."""


def bus_bandwidths(gpu: str) -> pd.DataFrame:
    """Return a row a collective and size: what is published and what is played, in GB/s."""
    server = _SERVERS[gpu]
    with TemporaryDirectory() as directory:
        platform = write_platform(server.platform, 2, Path(directory))
        rates = with_timer(platform, partial(_rates, platform, server))
    return pd.DataFrame(
        [
            {"gpu": gpu, **one._asdict(), "simulated": rate}
            for one, rate in zip(server.measured, rates, strict=True)
        ]
    )


def _rates(platform: Path, server: _Server, timer: Timer) -> list[float]:
    rates = []
    for collective, ranks, mib, _ in server.measured:
        hosts = place_on_platform(Layout(1, 1, ranks), read_platform(platform))
        size_bytes, passes = float(mib * _MIB), 1 if collective == "all-gather" else 2
        sent = passes * (ranks - 1) / ranks * size_bytes
        on_link = server.kernels.ring_bytes(size_bytes, ranks, passes)
        if collective == "all-reduce":
            on_link = server.kernels.all_reduce_bytes(size_bytes, ranks)
        part = PartWork(0.0, 0.0, on_link)
        step = StepPattern(1, 1, ranks, 1, 1, (part,), 0.0, 1.0, (0.0,), (0.0,), (0.0,))
        rates.append(sent / timer(hosts, step).step_s / 1e9)
    return rates


def rows(table: pd.DataFrame) -> Iterator[Row]:
    """Return every bandwidth."""
    for cell in table.itertuples():
        what, setting = f"{cell.collective} of {cell.ranks}", f"D {cell.gpu} {cell.mib} MiB"
        yield row_of("bus bandwidth", what, setting, cell.published, [cell.simulated], "GB/s")


def printed(table: pd.DataFrame) -> Printed:
    """Return the bandwidths."""
    return Printed(
        "Bus bandwidth of collectives inside a scale-up domain, GB/s",
        table,
        {"published": "{:.0f}", "simulated": "{:.0f}"},
        {"gpu": "GPU", "ranks": "GPUs", "mib": "MiB", "simulated": "played"},
        "A check of the player, not a prediction: it is given the published curves.",
    )
