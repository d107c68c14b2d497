"""Bus bandwidth of collectives inside a scale-up domain, played as a step plays them.

They are given bytes that follow from the published curves, so this checks that the player gives
back what it was given, latencies included; it predicts nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from faultline.experiments.analysis.printing import Printed
from faultline.experiments.studies.base import Row, rows_by
from faultline.experiments.studies.data import read_rows
from faultline.experiments.studies.step_time.predicting import write_platform
from faultline.platforms.xml_reader import read_platform
from faultline.simulator.pattern.step_pattern import PartWork, StepPattern
from faultline.simulator.simgrid_engine.step_timing import Timer, with_timer
from faultline.simulator.workload.kernels import A100, GB200, H100, Kernels
from faultline.simulator.workload.layout import Layout, place_on_platform

_MIB = 2**20


_PLATFORMS: Mapping[str, tuple[str, Kernels]] = {
    "A100": ("hgx-a100", A100),
    "H100": ("hgx-h100", H100),
    "NVL72": ("gb200-nvl72", GB200),
}
GPUS = tuple(_PLATFORMS)
"""Kinds of scale-up domain, by GPU."""


def bus_bandwidths(gpu: str) -> pd.DataFrame:
    """Return a row a collective and size: what is published and what is played, in GB/s."""
    cluster, kernels = _PLATFORMS[gpu]
    measured = pd.DataFrame(
        one for one in read_rows("step_time", "collectives") if one["gpu"] == gpu
    )
    with TemporaryDirectory() as directory:
        platform = write_platform(cluster, 2, Path(directory))
        rates = with_timer(platform, partial(_rates, platform, kernels, measured))
    return measured.assign(simulated=rates)


def _rates(platform: Path, kernels: Kernels, measured: pd.DataFrame, timer: Timer) -> list[float]:
    rates = []
    for one in measured.itertuples():
        hosts = place_on_platform(Layout(1, 1, one.ranks), read_platform(platform))
        size_bytes, passes = float(one.mib * _MIB), 1 if one.collective == "all-gather" else 2
        sent = passes * (one.ranks - 1) / one.ranks * size_bytes
        on_link = kernels.ring_bytes(size_bytes, one.ranks, passes)
        if one.collective == "all-reduce":
            on_link = kernels.all_reduce_bytes(size_bytes, one.ranks)
        part = PartWork(0.0, 0.0, on_link)
        step = StepPattern(1, 1, one.ranks, 1, 1, (part,), 0.0, 1.0, (0.0,), (0.0,), (0.0,))
        rates.append(sent / timer(hosts, step).step_s / 1e9)
    return rates


def rows(table: pd.DataFrame) -> Iterator[Row]:
    """Return every bandwidth."""
    known = table.rename(columns={"simulated": "bus bandwidth"})
    return rows_by(
        known,
        ["collective", "ranks", "gpu", "mib", "published"],
        {"bus bandwidth": "GB/s"},
        "D {gpu} {mib} MiB",
        "{collective} of {ranks}",
        lambda _, published, **__: published,
    )


def printed(table: pd.DataFrame) -> Printed:
    """Return the bandwidths."""
    return Printed(
        "Bus bandwidth of collectives inside a scale-up domain, GB/s",
        table,
        {"published": "{:.0f}", "simulated": "{:.0f}"},
        {"gpu": "GPU", "ranks": "GPUs", "mib": "MiB", "simulated": "played"},
        "A check of the player, not a prediction: it is given the published curves.",
    )
