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
from faultline.experiments.studies.base import Headline, Results, Row, Study, errors_table
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

    def headline(self, results: Results, rows: Sequence[Row]) -> Headline:
        """Return the errors by the size of messages."""
        large, small = results["large"], results["small"]
        checked = small.mib * _MIB >= SMALLEST_CHECKED_BYTES
        sizes = checked.map({True: "16 to 256 MiB", False: "below 16 MiB"})
        predicted = large[large.kind == "prediction"].assign(messages="large")
        every = pd.concat([predicted, small.assign(messages=sizes)])
        yield errors_table(
            f"Predicted bus bandwidths within {self.within:.0%}",
            every,
            "messages",
            "error",
            self.within,
        )
