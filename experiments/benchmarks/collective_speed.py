"""Collectives by rank actors: real time to play one, in a process of its own."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from faultline.experiments.benchmarks.measurement import Case, Measurement
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_writer import write_xml
from faultline.simulator.collectives.schedule import Fidelity
from faultline.simulator.simgrid_engine.collective_probe import probe_collective

SECTION = "collectives"
_SIZE_BYTES = 1e9
_GPUS_PER_DOMAIN = 8
_TARGET_S = 5.0


class AllReduce(NamedTuple):
    """One all-reduce to be timed."""

    algorithm: str
    ranks: int
    fidelity: Fidelity

    @property
    def title(self) -> str:
        """How the table names it."""
        return f"{self.algorithm} all-reduce, {self.ranks:,} GPUs, {self.fidelity}"


_ALL = (AllReduce("hierarchical", 1024, "flow"), AllReduce("ring", 64, "chunk"))
_QUICK = (AllReduce("ring", 16, "chunk"),)


def collective_cases(quick: bool) -> list[Case]:
    """Return a case for each all-reduce; if quick, a small one."""
    return [
        Case(SECTION, case.title, partial(_measure, case)) for case in (_QUICK if quick else _ALL)
    ]


def _measure(case: AllReduce) -> list[Measurement]:
    """Time the process's start, reading the platform, loading it and the all-reduce itself."""
    with tempfile.TemporaryDirectory(prefix="faultline-") as directory:
        path = Path(directory) / "hgx-h100.xml"
        write_xml(load_preset("hgx-h100", domains=case.ranks // _GPUS_PER_DOMAIN), path)
        started = perf_counter()
        result = probe_collective(
            path,
            "all-reduce",
            case.algorithm,
            _SIZE_BYTES,
            case.ranks,
            case.fidelity,
            directory=Path(directory) / "cache",
        )
        wall_s = perf_counter() - started
    title = f"{case.title} ({result.messages:,} messages)"
    return [Measurement(SECTION, title, wall_s, "s", target=_TARGET_S)]
