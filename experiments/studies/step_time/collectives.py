"""Bus bandwidth of all-reduces inside a server, played as a step plays them.

The rings are given bytes that follow from the published curve, so this checks that the player gives
back what it was given, latencies included; it predicts nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from faultline.experiments.analysis.printing import Printed
from faultline.experiments.studies.base import Row, row_of
from faultline.experiments.studies.step_time.windows import write_platform
from faultline.platforms.xml_reader import read_platform
from faultline.simulator.pattern.step_pattern import PartWork, StepPattern
from faultline.simulator.simgrid_engine.step_timing import Timer, with_timer
from faultline.simulator.workload.kernels import A100, H100, Kernels
from faultline.simulator.workload.layout import Layout, place_on_platform

_MIB = 2**20
_RANKS = 8
_KINDS: Mapping[str, tuple[str, Kernels]] = {"A100": ("hgx-a100", A100), "H100": ("hgx-h100", H100)}

# GB/s by MiB: nccl-tests on a server of eight. H100 without reductions in the switch reaches no
# more than 370, and nobody has published it by size.
_PUBLISHED: Mapping[str, Mapping[int, float | None]] = {
    "A100": {1: 18, 4: 72, 16: 106, 64: 172, 256: 194, 1024: 229},
    "H100": {1: 67, 4: 135, 16: 237, 64: 362, 256: None, 1024: None},
}


GPUS = tuple(_KINDS)
"""Kinds of server, by GPU."""


def bus_bandwidths(gpu: str) -> pd.DataFrame:
    """Return a row a size: the bus bandwidth that a played ring of a kind of GPU reaches."""
    kind, kernels = _KINDS[gpu]
    with TemporaryDirectory() as directory:
        platform = write_platform(kind, 2, Path(directory))
        rates = with_timer(platform, partial(_rates, platform, kernels, tuple(_PUBLISHED[gpu])))
    return pd.DataFrame(
        [
            {"gpu": gpu, "mib": size, "published": known, "simulated": rate}
            for (size, known), rate in zip(_PUBLISHED[gpu].items(), rates, strict=True)
        ]
    )


def _rates(platform: Path, kernels: Kernels, sizes: tuple[int, ...], timer: Timer) -> list[float]:
    hosts = place_on_platform(Layout(1, 1, _RANKS), read_platform(platform))
    rates = []
    for mib in sizes:
        size_bytes = float(mib * _MIB)
        ring = PartWork(0.0, 0.0, kernels.ring_bytes(size_bytes, _RANKS, 2))
        step = StepPattern(1, 1, _RANKS, 1, 1, (ring,), 0.0, 1.0, (0.0,), (0.0,), (0.0,))
        sent = 2 * (_RANKS - 1) / _RANKS * size_bytes
        rates.append(sent / timer(hosts, step).step_s / 1e9)
    return rates


def rows(table: pd.DataFrame) -> Iterator[Row]:
    """Return every bandwidth."""
    for cell in table.itertuples():
        known = None if pd.isna(cell.published) else float(cell.published)
        setting = f"D {cell.gpu} {cell.mib} MiB"
        yield row_of("bus bandwidth", "all-reduce of 8", setting, known, [cell.simulated], "GB/s")


def printed(table: pd.DataFrame) -> Printed:
    """Return the bandwidths."""
    return Printed(
        "Bus bandwidth of an all-reduce of eight GPUs, GB/s",
        table,
        {"published": "{:.0f}", "simulated": "{:.0f}"},
        {"gpu": "GPU", "mib": "MiB", "simulated": "played"},
        "A check of the player, not a prediction: its rings follow the published curve.",
    )
