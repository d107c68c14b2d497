"""The cells of the table and of the two planes."""

from __future__ import annotations

import numpy as np
from faultline.experiments.studies.head_to_head.setting import (
    GPU_MTBF_S,
    GPUS_PER_GROUP,
    GROUPS,
    Cell,
    modelled_restart_s,
)

_MTBF_S = (60.0, 86_400.0)
_RESTART_S = (10.0, 7200.0)
_GROUPS = (2, 1172)

SETTINGS = {"calm": 6 * 3600.0, "today": GPU_MTBF_S / (GROUPS * GPUS_PER_GROUP), "storm": 600.0}
"""Mean time between failures of the table's settings, in seconds; today's is that of Llama 3."""


def setting_cells() -> list[Cell]:
    """Return the settings of the table, numbered in `x`."""
    restart_s = modelled_restart_s(GROUPS * GPUS_PER_GROUP)
    return [
        Cell("settings", place, 0.0, mtbf_s, restart_s)
        for place, mtbf_s in enumerate(SETTINGS.values())
    ]


STALLS_S = (60.0, 180.0, 300.0)
LAYERS = (120, 128, 130, 136)


def stall_cells() -> list[Cell]:
    """Return today's setting with every event costing everybody the same, in seconds in `x`."""
    return [
        Cell("stalls", stall_s, 0.0, SETTINGS["today"], stall_s, stall_s=stall_s)
        for stall_s in STALLS_S
    ]


def layer_cells() -> list[Cell]:
    """Return today's setting with other numbers of layers, in `x`: some divide more evenly."""
    restart_s = modelled_restart_s(GROUPS * GPUS_PER_GROUP)
    return [
        Cell("layers", layers, 0.0, SETTINGS["today"], restart_s, layers=layers)
        for layers in LAYERS
    ]


def restart_plane(side: int) -> list[Cell]:
    """Return `side` x `side` cells: time between failures across, time of a restart upwards."""
    return [
        Cell("restart", mtbf_s, restart_s, mtbf_s, restart_s)
        for mtbf_s in np.geomspace(*_MTBF_S, side).tolist()
        for restart_s in np.geomspace(*_RESTART_S, side).tolist()
    ]


def domain_plane(side: int) -> list[Cell]:
    """Return `side` x `side` cells: GPUs across, share of failures of whole domains upwards.

    Failures come in proportion to the GPUs, and a restart takes as long as is modelled for them.
    """
    cells = []
    for groups in dict.fromkeys(round(n) for n in np.geomspace(*_GROUPS, side).tolist()):
        gpus = groups * GPUS_PER_GROUP
        restart_s = modelled_restart_s(gpus)
        cells += [
            Cell("domains", gpus, share, GPU_MTBF_S / gpus, restart_s, groups, share)
            for share in np.linspace(0.0, 1.0, side).tolist()
        ]
    return cells
