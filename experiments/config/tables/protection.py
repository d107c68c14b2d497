"""How the state is kept, beneath the scheme, with a table of named choices for each way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from faultline.experiments.config.field_documentation import about
from faultline.experiments.config.tables.registered import RegisteredTable, with_registered
from faultline.strategies.protection.registry import all_protections
from pydantic import Field

_IN_MEMORY = [name for name in all_protections() if name != "storage"]
_STATED: dict[str, str | list[str]] = {
    "protection.name": _IN_MEMORY,
    "protection.times": "stated",
}


class _ProtectionTable(RegisteredTable):
    """``[protection]``: how the state is kept, beneath the scheme."""

    name: str = "storage"
    interval_steps: int | None = Field(
        None,
        ge=1,
        le=10**18,
        description="Steps between snapshots in memory; unset: the best period for what they cost, "
        "and no more often than one is whole before the next.",
        json_schema_extra=about(
            "derived: the best period T_c*, Saxena et al. 2024",
            unit="steps",
            only_with={"protection.name": ("reft", "gemini")},
        ),
    )
    state_bytes: float | None = Field(
        None,
        gt=0,
        le=1e18,
        description="State of a replica that is kept, in memory and on storage: parameters and "
        "optimizer; unset: state_over_parameters * job.parameter_bytes.",
        json_schema_extra=about(
            "derived: state_over_parameters * job.parameter_bytes", unit="bytes"
        ),
    )
    state_over_parameters: float = Field(
        7.0,
        gt=0,
        le=1000,
        description="State that is kept over job.parameter_bytes, where state_bytes is unset.",
        json_schema_extra=about(
            "Rajbhandari et al. 2020 (ZeRO, arXiv 1910.02054): Adam keeps weights, mean and "
            "variance of 32 bits beside weights of 16, 14 bytes for 2",
            unit="1",
        ),
    )
    host_memory_bytes: float | None = Field(
        None,
        gt=0,
        le=1e18,
        description="Memory of a node that snapshots may fill; unset: all that the platform says "
        "a node has.",
        json_schema_extra=about(
            "derived: the platform's spec",
            unit="bytes",
            only_with={"protection.name": _IN_MEMORY},
        ),
    )
    times: Literal["measured", "stated"] = Field(
        "measured",
        description="Where the times of moving the state about come from.",
        json_schema_extra=about(
            "choice: platforms differ",
            choices={
                "measured": "flows over PCIe, host memory and network adapters of the platform",
                "stated": "the keys below",
            },
            only_with={"protection.name": _IN_MEMORY},
        ),
    )
    copy_s: float = Field(
        1.0,
        ge=0,
        le=1e9,
        description="Time in which all GPUs copy their snapshot to host memory, parity included.",
        json_schema_extra=about("assumption", unit="s", only_with=_STATED),
    )
    copy_interference_s: float = Field(
        0.0,
        ge=0,
        le=1e9,
        description="What an all-reduce takes longer during that.",
        json_schema_extra=about("assumption: none", unit="s", only_with=_STATED),
    )
    send_s: float = Field(
        1.0,
        ge=0,
        le=1e9,
        description="Time in which all nodes send their copies to peers.",
        json_schema_extra=about("assumption", unit="s", only_with=_STATED),
    )
    send_interference_s: float = Field(
        0.0,
        ge=0,
        le=1e9,
        description="What an all-reduce takes longer during that.",
        json_schema_extra=about("assumption: none", unit="s", only_with=_STATED),
    )
    load_s: float = Field(
        1.0,
        ge=0,
        le=1e9,
        description="Time to load the state from a node's own memory.",
        json_schema_extra=about("assumption", unit="s", only_with=_STATED),
    )
    rebuild_s: float = Field(
        10.0,
        ge=0,
        le=1e9,
        description="Time to rebuild a replaced node's state from what several peers hold, loading "
        "included.",
        json_schema_extra=about("assumption", unit="s", only_with=_STATED),
    )
    fetch_s: float = Field(
        10.0,
        ge=0,
        le=1e9,
        description="Time to send a replaced node its state from a peer that has all of it, "
        "loading included.",
        json_schema_extra=about("assumption", unit="s", only_with=_STATED),
    )


if TYPE_CHECKING:
    ProtectionTable = _ProtectionTable
else:
    ProtectionTable = with_registered(
        "ProtectionTable",
        _ProtectionTable,
        all_protections(),
        "storage",
        "How the state is kept against failures.",
        "choice: what everybody has",
    )
