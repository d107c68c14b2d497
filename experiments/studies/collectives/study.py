"""All-reduces of published clusters: rings, trees and switches at the published shares of links.

No constant is fitted to these rows. Where a share of a link was published with a row, that row is
calibrated (`simulator.workload.kernels`): 8 A100 and 8 H200 inside a server, A100 between servers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pandas as pd
from faultline.experiments.report.tables import Table
from faultline.experiments.studies.base import Results, Row, Study, shown_rows
from faultline.experiments.studies.data import read_rows
from faultline.experiments.studies.stage import Stage
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_writer import write_xml
from faultline.simulator.timing.collective_probe import SMALLEST_CHECKED_BYTES, probe_collective

_MIB = 2**20
_KEYS = {
    "domains": "domains",
    "gpus_per_domain": "gpus_per_domain",
    "nic_bandwidth": "nic.bandwidth",
    "gpus_per_nic": "nic.gpus_per_nic",
}
"""Columns that change the shipped cluster, and their keys in its spec."""


Line = Mapping[str, Any]
"""A line of ``data/published.csv``."""


def _spec_of(line: Line) -> tuple[Any, ...]:
    return line["cluster"], *(line.get(column) for column in _KEYS)


def simulated(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Return the lines of a platform with their simulated bus bandwidths in GB/s."""
    spec = {key: lines[0][column] for column, key in _KEYS.items() if column in lines[0]}
    with TemporaryDirectory() as directory:
        path = Path(directory) / "platform.xml"
        write_xml(load_preset(lines[0]["cluster"], **spec), path)
        return [_beside(line, path) for line in lines]


def _beside(line: Line, platform: Path) -> dict[str, Any]:
    mib, published = line["mib"], line["published"]
    result = probe_collective(platform, "all-reduce", line.get("algorithm"), mib * _MIB)
    gigabytes = result.bus_bandwidth_bytes_per_s / 1e9
    return {
        **line,
        "size": f"{mib} MiB" if mib < 1024 else f"{mib // 1024} GiB",
        "chosen": result.algorithm,
        "simulated": gigabytes,
        "error": gigabytes / published - 1.0,
    }


class CollectivesStudy(Study):
    """Bus bandwidths of NCCL's all-reduce on published clusters."""

    default_seeds = 1
    scaled_by: ClassVar = frozenset()
    within = 0.2

    def simulate(self, stage: Stage) -> Results:
        """Probe the platform of each published measurement."""
        lines = read_rows("collectives", "published")
        platforms: dict[tuple[Any, ...], list[Line]] = {}
        for line in sorted(lines, key=lambda line: line["domains"]):
            platforms.setdefault(_spec_of(line), []).append(line)
        found = chain.from_iterable(stage.calls("all-reduces", simulated, [*platforms.values()]))
        places = {(line["setting"], line["mib"]): place for place, line in enumerate(lines)}
        table = pd.DataFrame(sorted(found, key=lambda row: places[row["setting"], row["mib"]]))
        return {role: rows.drop(columns="role") for role, rows in table.groupby("role")}

    def shown(self, results: Results, rows: Sequence[Row]) -> Sequence[Table]:
        """Return a table of large sizes, and one of small ones."""
        titles = {"bus bandwidth": "Large messages", "bus bandwidth, small": "Smaller messages"}
        return [
            shown_rows(title, [row for row in rows if row.quantity == quantity])
            for quantity, title in titles.items()
        ]

    def headline(self, results: Results, rows: Sequence[Row]) -> Sequence[str]:
        """Return the errors of the predictions, large and small."""
        large, small = results["large"], results["small"]
        predicted = large[large.kind == "prediction"]
        off = predicted[predicted.error.abs() > self.within]
        missed = "; ".join(
            f"{one.setting}, {one.size} by {one.error:+.0%}" for one in off.itertuples()
        )
        checked = small[small.mib * _MIB >= SMALLEST_CHECKED_BYTES]
        unchecked = small.drop(checked.index)
        return [
            f"{len(predicted)} bus bandwidths are predicted with a median error of "
            f"{predicted.error.abs().median():.1%}; outside {100 * self.within:g} %: {missed}.",
            f"From 16 to 256 MiB they are within a factor of {_factor(checked):.1f}, "
            f"below 16 MiB within one of {_factor(unchecked):.1f}.",
        ]


def _factor(table: pd.DataFrame) -> float:
    """Return the largest factor between simulated and published values."""
    ratio = table.simulated / table.published
    return float(ratio.where(ratio > 1, 1 / ratio).max())
