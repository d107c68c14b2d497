"""Who takes part: every registered scheme, with protections beneath it that make sense for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from experiments.errors import UserError, did_you_mean
from strategies.errors import StrategyError
from strategies.registry import all_strategies, strategy_class

# Beneath schemes that were published with checkpoints on storage, both are played; just-in-time
# checkpoints exist for plain checkpointing (Gupta et al. 2024). Everybody else gets the best.
_PROTECTIONS: Mapping[str, tuple[str, ...]] = {
    "checkpoint": ("storage", "reft", "just-in-time"),
    "replication": ("storage", "reft"),
    "spare": ("storage", "reft"),
    "varuna": ("storage",),
}
_DEFAULT_PROTECTION = ("reft",)

# What the schemes are told about the job of `head-to-head`: a replica is 16 pipeline stages of a
# domain of 32 GPUs, and a step's 2^20 tokens are 64 sequences, a micro-batch each. A stage's state
# is 109 GB a GPU of 288 GB: a node holds two stages, and a pipeline lives on half of its nodes. A
# stage is fetched through the 32 adapters of a node. Options a scheme does not have are left out.
_JOB_OPTIONS: Mapping[str, Any] = {
    "domain_gpus": 32,
    "stages": 16,
    "local_batch": 64,
    "micro_batches": 64,
    "most_stages": 2,
    "least_nodes": 8,
    "layers": 128,
    "sequence_tokens": 16_384,
    "micro_batch_tokens": 16_384,
    "hidden": 51_200,
    "ffn_hidden": 204_800,
    "state_bytes": 5.6e13,
    "bandwidth_bytes_per_s": 3.2e12,
}

# What a scheme takes longer without failures, where it does not say so itself. Bamboo computes the
# forward pass of the next stage as well: a third of the work of its 64 micro-batches, as far as
# this does not fit into the bubbles of 15 slots of 3 thirds each: (64 - 45) / (3 * 79) of a step.
_PRICE: Mapping[str, float] = {"bamboo": 19 / 237}


APPROXIMATE = ("mecefo",)
"""Schemes whose gradients differ from those of a run without failures: they set no standards."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A scheme with a way to keep its state.

    Attributes
    ----------
    scheme, protection : str
        Registered names.
    options : mapping
        Options of the scheme other than their defaults.
    redundancy : int or None
        Stated redundancy; None for the best by the scheme's closed forms.
    price : float
        By how much a step computes longer without failures.
    """

    scheme: str
    protection: str
    options: Mapping[str, Any] = field(default_factory=dict)
    redundancy: int | None = None
    price: float = 0.0

    @property
    def name(self) -> str:
        """One word for tables: ``spare/reft``."""
        return f"{self.scheme}/{self.protection}"


@dataclass(frozen=True, slots=True)
class Absent:
    """A contestant that cannot take part, and why."""

    name: str
    reason: str


def all_contestants(names: Sequence[str] | None = None) -> list[Contestant]:
    """Return the contestants in the order of the registry.

    Parameters
    ----------
    names : sequence of str, optional
        Schemes, or contestants such as ``spare/reft``; all by default.

    Raises
    ------
    UserError
        If there is none of that name.
    """
    everybody = [
        Contestant(scheme, protection, options_for(scheme), None, _PRICE.get(scheme, 0.0))
        for scheme in all_strategies()
        for protection in _PROTECTIONS.get(scheme, _DEFAULT_PROTECTION)
    ]
    if not names:
        return everybody
    known = [name for one in everybody for name in (one.name, one.scheme)]
    for name in names:
        if name not in known:
            raise UserError(f"--schemes {name}: no such contestant; {did_you_mean(name, known)}")
    return [one for one in everybody if one.name in names or one.scheme in names]


def options_for(scheme: str) -> dict[str, Any]:
    """Return what a scheme is told about the job, as far as it has such options."""
    fields = strategy_class(scheme).Options.model_fields
    chosen = {key: value for key, value in _JOB_OPTIONS.items() if key in fields}
    try:
        strategy_class(scheme).Options(**chosen)
    except ValidationError:
        return {}
    return chosen


def why_absent(contestant: Contestant, groups: int, redundancy: int) -> str | None:
    """Return why a scheme cannot be built for so many groups; None if it can."""
    scheme = strategy_class(contestant.scheme)
    try:
        built = scheme(groups, redundancy, scheme.Options(**contestant.options))
        built.plan()
    except StrategyError as error:
        return str(error)
    return None
