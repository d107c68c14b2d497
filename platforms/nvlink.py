"""NVLink generations by name, so that a spec need not repeat a datasheet."""

from __future__ import annotations

from dataclasses import dataclass

from faultline.platforms.errors import nearest
from faultline.platforms.quantity_fields import KeyedError


@dataclass(frozen=True)
class NvlinkGeneration:
    """What a GPU has of one generation.

    Attributes
    ----------
    bandwidth
        Of all links of a GPU, each way. Datasheets state both ways together, which is twice this.
    latency, switch_latency
        Of one link and of the NVSwitch. NVIDIA states none; these are round numbers of the order
        that is measured.
    source
        Where the bandwidth comes from.
    """

    bandwidth: str
    source: str
    latency: str = "250ns"
    switch_latency: str = "100ns"


GENERATIONS = {
    "nvlink2": NvlinkGeneration("150GB/s", "V100 datasheet: 300 GB/s both ways together"),
    "nvlink3": NvlinkGeneration("300GB/s", "A100 datasheet: 600 GB/s both ways together"),
    "nvlink4": NvlinkGeneration("450GB/s", "H100 datasheet: 900 GB/s both ways together"),
    "nvlink5": NvlinkGeneration("900GB/s", "GB200 NVL72 datasheet: 1.8 TB/s both ways together"),
}
"""Generations by the name that a spec gives them."""


def with_generation(table: object) -> object:
    """Complete a ``[scale_up]`` table from its ``nvlink``; what the table says itself stays.

    Raises
    ------
    KeyedError
        There is no generation of this name.
    """
    if not isinstance(table, dict) or table.get("nvlink") is None:
        return table
    name = table["nvlink"]
    if not isinstance(name, str) or name not in GENERATIONS:
        raise KeyedError(
            "scale_up.nvlink",
            f"{name!r} is no generation{nearest(str(name), GENERATIONS)}: "
            f"there are {', '.join(GENERATIONS)}",
        )
    generation = GENERATIONS[name]
    stated = {
        "bandwidth": generation.bandwidth,
        "latency": generation.latency,
        "switch_latency": generation.switch_latency,
    }
    return {**stated, **table}
