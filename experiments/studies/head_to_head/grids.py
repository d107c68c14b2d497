"""The grids of the head-to-head: each cell is a job in other circumstances, whose plan is made.

Lists are grids of one job at the values of its scenario (``data/cells.csv``). Maps are grids of
two jobs over two circumstances that an operator knows, and over the priors of all other inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import tomlkit
from faultline.experiments.job.failure_model import GPU_SECONDS_PER_FAILURE
from faultline.experiments.studies.data import read_rows
from faultline.platforms.cache_folder import cache_directory, platform_in_cache
from faultline.platforms.files import write_file
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_writer import xml_text
from faultline.strategies.interface.recovery import RecoveryKind
from scipy.stats import poisson

Machines = Literal["queue", "standbys"]
Settings = Mapping[str, object]
"""Values of a scenario by their dotted keys; None leaves a key open."""

JOB = "head-to-head"
GPUS = 32_768
JOBS = {JOB: "dense 4T on B300", "llama3-405b-16k": "Llama 3 405B on H100"}
"""Scenarios of the maps, and their titles."""

FACTS: tuple[Machines, ...] = get_args(Machines)
"""Sources of replacement machines; an operator knows which one applies."""

RATES_S = {"calm": 6 * 3600.0, "today": GPU_SECONDS_PER_FAILURE / GPUS, "storm": 600.0}
"""Mean times between failures, in seconds; today's is that of Llama 3."""

LISTS = ("settings", "stalls", "interleaved", "layers", "links")

# 78 % of the interruptions of Llama 3 were of hardware (Grattafiori et al. 2024); repair times as
# in Arfeen et al. 2025 (NTP, arXiv 2504.06095): 3 to 5 days for hardware, 3 h for software.
_HARDWARE_SHARE = 0.78
_REPAIR_S = 4 * 86_400.0

_JOB_OF_ALL: Settings = {
    # The memory of a GPU decides.
    "model.stages_that_fit": None,
    "model.least_stages": None,
    # Faster than the default, in all cells.
    "strategy.replica-drop.broken_step": "kept",
}
_JOB_OF_MAPS: Mapping[str, Settings] = {
    JOB: _JOB_OF_ALL,
    # Its scenario has failures of all kinds. The axes of maps are of memoryless failures of GPUs.
    "llama3-405b-16k": {
        **_JOB_OF_ALL,
        "failures.model": "independent",
        "failures.distribution": "exponential",
        "failures.component": "gpu",
        "failures.hardware_share": _HARDWARE_SHARE,
        "failures.clock": "renewal",
        "rejoin.when": "at-checkpoint",
        "rejoin.repair_s": _REPAIR_S,
    },
}
_GPUS_PER_DOMAIN, _HOSTS_PER_DOMAIN = 32, 4
_ENOUGH = 0.95

_EDITS: Mapping[str, Mapping[str, object]] = {
    "GPU speed halved": {"gpu.flops": "1.125PFLOP/s"},
    "NVLink halved": {"scale_up.bandwidth": "450GB/s"},
    "adapters and fabric halved": {"nic.bandwidth": "400Gbps"},
    "leaf uplinks halved": {"scale_out.oversubscription": [2]},
    "storage halved": {"storage.read_bandwidth": "1TB/s", "storage.write_bandwidth": "1TB/s"},
}
"""Edits of the cluster of the list ``links``: the GPUs, and each kind of link."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A job in its circumstances."""

    grid: str  # One of `LISTS`, whose inputs have the values of the scenario, or of `MAPS`.
    job: str  # Its scenario.
    x: float
    y: float
    settings: Settings = field(hash=False)
    name: str = ""  # Name of `x` in a list.
    gpus: int | None = None  # Size of the job, if it is not that of the scenario.


@dataclass(frozen=True, slots=True)
class Map:
    """Two known circumstances, and the settings at their values."""

    title: str
    x_label: str
    y_label: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    settings: Callable[[float, float], Settings]
    is_by_size: bool = False  # Whether x is the GPUs of the job.


def replacements(source: Machines, mtbf_s: float, domain_share: float = 0.0) -> Settings:
    """Return the settings of a source of replacement machines.

    Standbys suffice in 95 % of the time: if failed machines are replaced at once, those under
    repair are Poisson distributed (Palm 1943). `domain_share` is the share of failures that break a
    whole scale-up domain.
    """
    settings: dict[str, object] = {"recovery.transient": "in-place"}
    if source == "queue":
        return settings
    hosts = (1.0 - domain_share) * _HARDWARE_SHARE + domain_share * _HOSTS_PER_DOMAIN
    enough = max(1, int(poisson.ppf(_ENOUGH, hosts * _REPAIR_S / mtbf_s)))
    return settings | {"recovery.hardware": "standby", "recovery.standbys": enough}


def one_price(mtbf_s: float, stall_s: float) -> Settings:
    """Return the settings of a job whose recoveries all take the same time, with standbys.

    A migration is part of a restart.
    """
    kinds = (kind.replace("-", "_") for kind in get_args(RecoveryKind))
    prices = {f"times.{kind}_s": 0.0 if kind == "migrate" else stall_s for kind in kinds}
    return {"failures.mtbf_s": mtbf_s, **prices, **replacements("standbys", mtbf_s)}


def _stated_restart(mtbf_s: float, restart_s: float) -> Settings:
    """A shared cluster replaces machines, and those of dropped groups, in the stated time."""
    restart = {"times.restart_s": restart_s, "recovery.shortage": "reschedule"}
    return {"failures.mtbf_s": mtbf_s, **restart}


def _by_size(source: Machines, gpus: float, domain_share: float) -> Settings:
    """Failures at Llama 3's rate per GPU, of which some break whole scale-up domains."""
    return {
        "failures.model": "mix",
        "failures.mix": str(_mix_in_cache(domain_share)),
        "failures.mtbf_s": None,
        "failures.gpus_per_domain": _GPUS_PER_DOMAIN,
        **replacements(source, GPU_SECONDS_PER_FAILURE / gpus, domain_share),
    }


def _mix_in_cache(domain_share: float) -> Path:
    """Return a file with the failures of Llama 3, a share of which break whole domains."""
    single, of_domains = 419.0 * (1.0 - domain_share), 419.0 * domain_share
    days = {"least": "3d", "most": "5d"}
    causes = (
        ("hardware", "gpu", "hardware", single * _HARDWARE_SHARE, days),
        ("software", "gpu", "software", single * (1.0 - _HARDWARE_SHARE), "3h"),
        ("domain", "domain", "hardware", of_domains, days),
    )
    columns = ("name", "level", "kind", "count", "repair")
    mix = {
        "source": "Grattafiori et al. 2024 (Llama 3); Arfeen et al. 2025 (NTP) for repairs",
        "observed": {"gpus": 16384, "span": "54d"},
        "cause": [dict(zip(columns, one, strict=True)) for one in causes if one[3]],
    }
    path = cache_directory() / "mixes" / f"domains-{domain_share:g}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, tomlkit.dumps(mix))
    return path


_MTBFS_S = (300.0, 900.0, 2700.0, 7200.0, 21_600.0, 86_400.0)
# Larger cells take a quarter of an hour each.
_SIZES = (1_024.0, 8_192.0, 32_768.0, 131_072.0)
_SHARES = (0.0, 0.5, 1.0)
_BY_TIME, _BY_SIZE = "a failure every", ("GPUs", "failures of a whole domain")
MAPS = {
    "restart": Map(
        "restarts by their time", _BY_TIME, "time of a restart",
        _MTBFS_S, (10.0, 60.0, 120.0, 300.0, 1200.0, 7200.0), _stated_restart,
    ),
    "stalls": Map(
        "one price for every recovery", _BY_TIME, "time of every recovery",
        _MTBFS_S, (10.0, 60.0, 180.0, 900.0), one_price,
    ),
    "queue": Map(
        "1k to 131k GPUs, queue", *_BY_SIZE,
        _SIZES, _SHARES, partial(_by_size, "queue"), is_by_size=True,
    ),
    "standbys": Map(
        "1k to 33k GPUs, standbys", *_BY_SIZE,
        _SIZES[:3], _SHARES, partial(_by_size, "standbys"), is_by_size=True,
    ),
}  # fmt: skip
"""The maps by their names."""

MAPS_OF = {
    job: tuple(name for name, one in MAPS.items() if job == JOB or not one.is_by_size)
    for job in JOBS
}
"""The maps of each job. Jobs of small groups have no maps by size: cells take minutes."""


def map_cells(job: str, name: str) -> list[Cell]:
    """Return the cells of a map of a job."""
    known, of_job = MAPS[name], _JOB_OF_MAPS[job]
    sizes = {x: int(x) if known.is_by_size else None for x in known.xs}
    return [
        Cell(name, job, x, y, {**of_job, **known.settings(x, y)}, gpus=sizes[x])
        for y in known.ys
        for x in known.xs
    ]


def listed_cells(name: str) -> list[Cell]:
    """Return the cells of a list."""
    return [_listed(**row) for row in read_rows("head_to_head", "cells") if row["plane"] == name]


def _listed(
    *, plane: str, x: float, y: float, name: str, failures: str, machines: Machines = "standbys",
    stall_s: float | None = None, **settings: Any,
) -> Cell:  # fmt: skip
    mtbf_s = RATES_S[failures]
    known = replacements(machines, mtbf_s) if stall_s is None else one_price(mtbf_s, stall_s)
    if name in _EDITS:
        spec = load_preset("b300-32k", groups=64, **_EDITS[name])
        settings["platform.file"] = str(platform_in_cache(xml_text(spec).encode()))
    found = {**_JOB_OF_ALL, "failures.mtbf_s": mtbf_s, **known, **settings}
    return Cell(plane, JOB, x, y, found, name)


def every_other(cells: list[Cell]) -> list[Cell]:
    """Return the cells at every other value of both axes."""
    xs = sorted({cell.x for cell in cells})[::2]
    ys = sorted({cell.y for cell in cells})[::2]
    return [cell for cell in cells if cell.x in xs and cell.y in ys]
