"""Clusters that come with Faultline, by name."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from faultline.platforms.errors import PlatformError, nearest
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.spec_file import read_toml, spec_from_mapping, with_overrides
from faultline.platforms.spec_tables import Gpu

_DIRECTORY = Path(__file__).parent / "presets"

GPU_KINDS = {
    "a100-sxm4": "hgx-a100",
    "a800-sxm4": "hgx-a800",
    "h100-sxm5": "hgx-h100",
    "b200": "hgx-b200",
    "gb200": "gb200-nvl72",
    "b300": "b300-32k",
    "gb300": "gb300-nvl72",
}
"""Kinds of GPUs by name, and the preset whose ``[gpu]`` describes each."""


def gpu_of_kind(kind: str) -> Gpu:
    """Return a kind of GPU: its speed at the dense peak, its memory and its power."""
    if kind not in GPU_KINDS:
        raise PlatformError(
            f"no GPU is called {kind!r}{nearest(kind, GPU_KINDS)}: there are {', '.join(GPU_KINDS)}"
        )
    return load_preset(GPU_KINDS[kind]).gpu


@cache
def preset_names() -> tuple[str, ...]:
    """Return the names of all presets, sorted."""
    return tuple(sorted(file.stem for file in _DIRECTORY.glob("*.toml")))


def preset_mapping(name: str) -> dict[str, Any]:
    """Return the tables of a preset's TOML file."""
    if name not in preset_names():
        raise PlatformError(
            f"no preset is called {name!r}{nearest(name, preset_names())}: "
            f"there are {', '.join(preset_names())}"
        )
    return read_toml(_DIRECTORY / f"{name}.toml")[0]


def load_preset(name: str, **overrides: object) -> ClusterSpec:
    """Return the spec of a preset, with some of its keys changed.

    Parameters
    ----------
    name
        One of `preset_names`.
    **overrides
        New values as in the TOML file, by dotted or short keys: see
        `platforms.spec_file.with_overrides`.

    Raises
    ------
    PlatformError
        No preset has this name, a key is unknown or ambiguous, or a value is wrong.

    Examples
    --------
    >>> load_preset("spare-600k", groups=600).gpus_per_rank
    1000
    """
    if not overrides:
        return _as_shipped(name)
    where = f"preset {name}"
    return spec_from_mapping(with_overrides(preset_mapping(name), overrides, where), where)


@cache
def _as_shipped(name: str) -> ClusterSpec:
    """Return the spec of a preset; each run of a plan reads it several times."""
    return spec_from_mapping(preset_mapping(name), f"preset {name}")
