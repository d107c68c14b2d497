"""Who takes part: every registered scheme, with protections beneath it that make sense for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from faultline.experiments.config.errors import UserError, did_you_mean
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.platform_files import spec_of
from faultline.simulator.workload.layout import Layout
from faultline.simulator.workload.memory import GpuMemory, gpu_memory
from faultline.simulator.workload.transformer import Transformer
from faultline.strategies.base import StrategyOptions
from faultline.strategies.nonuniform.within import NonuniformWithin
from faultline.strategies.registry import all_strategies, strategy_class
from pydantic import ValidationError

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
# that is saved is 109 GB a GPU of 288 GB: a node may hold two, and a pipeline may live on half of
# its nodes, as if activations and gradients left room for that (`gpu_memory` says whether).
# Options a scheme does not have are left out.
JOB_OPTIONS: Mapping[str, Any] = {
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
}

# What a scheme takes longer without failures, where it does not say so itself. Bamboo computes the
# forward pass of the next stage as well: a third of the work of its 64 micro-batches, as far as
# this does not fit into the bubbles of 15 slots of 3 thirds each: (64 - 45) / (3 * 79) of a step.
_PRICE: Mapping[str, float] = {"bamboo": 19 / 237}


APPROXIMATE = tuple(name for name, scheme in all_strategies().items() if scheme.approximate)
"""Schemes whose gradients differ from those of a run without failures: they set no standards."""


@dataclass(frozen=True, slots=True)
class Candidate:
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
        """One word for tables: ``spare/reft``, or ``spare-ntp/reft/r=1`` for a control."""
        name = f"{self.scheme}/{self.protection}"
        return name if self.redundancy is None else f"{name}/r={self.redundancy}"

    @property
    def is_control(self) -> bool:
        """Whether it is a combination of two schemes without one of them: nothing is masked."""
        return self.redundancy == 1 and is_combination(self.scheme)

    def strategy_options(self) -> StrategyOptions:
        """Return the scheme's options."""
        return strategy_class(self.scheme).Options(**self.options)

    @property
    def spare_gpus(self) -> int:
        """GPUs of the spare domains that the scheme's own options call for."""
        options = self.strategy_options()
        return getattr(options, "spare_domains", 0) * getattr(options, "domain_gpus", 0)

    def with_layers(self, layers: int) -> Candidate:
        """Return it for a model with another number of layers of the same parameters in all."""
        return replace(self, options={**self.options, "layers": layers})


def all_candidates(names: Sequence[str] | None = None) -> list[Candidate]:
    """Return the candidates in the order of the registry.

    Parameters
    ----------
    names : sequence of str, optional
        Schemes, or candidates such as ``spare/reft``; all by default.

    Raises
    ------
    UserError
        If there is none of that name.
    """
    everybody = [
        Candidate(scheme, protection, options_for(scheme), redundancy, _PRICE.get(scheme, 0.0))
        for scheme in all_strategies()
        for protection in _PROTECTIONS.get(scheme, _DEFAULT_PROTECTION)
        for redundancy in ((None, 1) if is_combination(scheme) else (None,))
    ]
    if not names:
        return everybody
    known = [name for one in everybody for name in (one.name, one.scheme)]
    for name in names:
        if name not in known:
            raise UserError(f"--schemes {name}: no such candidate; {did_you_mean(name, known)}")
    return [one for one in everybody if one.name in names or one.scheme in names]


def is_combination(scheme: str) -> bool:
    """Return whether a scheme is nonuniform tensor parallelism inside another scheme."""
    return issubclass(strategy_class(scheme), NonuniformWithin)


def options_for(scheme: str) -> dict[str, Any]:
    """Return what a scheme is told about the job, as far as it has such options.

    Raises
    ------
    UserError
        If the scheme refuses one: it would else compete with its defaults.
    """
    options = strategy_class(scheme).Options
    chosen = {key: value for key, value in JOB_OPTIONS.items() if key in options.model_fields}
    try:
        options(**chosen)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])) or "options"
        raise UserError(
            f"strategy.{scheme}.{key} = {first['input']!r}: {first['msg']}; the job of the "
            "head-to-head is told to every scheme: let the option accept it, or call it otherwise"
        ) from error
    return chosen


_HEADS = 400
_VOCABULARY = 1
"""Embeddings are left out: they are 0.2 % of the parameters at either end."""


def held_bytes(stages: float) -> float:
    """Return the bytes on a GPU that holds the state of so many stages.

    16-bit weights, 32-bit gradients and Adam's 12 bytes a parameter on every replica, and
    activations under selective recomputation (`simulator.workload.memory`): the time of a step
    counts no FLOP for more. Activations are those of one stage: a pipeline of fewer, longer stages
    has as many micro-batches fewer in flight.

    Parameters
    ----------
    stages : float
        Stages of the job's pipeline whose state it holds; 1 where nothing has failed.
    """
    whole = _stage()
    return stages * (whole.parameters + whole.gradients + whole.optimizer) + whole.activations


def fits(memory_bytes: float) -> bool:
    """Return whether a GPU of the platform has that much memory."""
    return memory_bytes <= _capacity_bytes()


@cache
def _stage() -> GpuMemory:
    model = Transformer(
        hidden=JOB_OPTIONS["hidden"],
        ffn_hidden=JOB_OPTIONS["ffn_hidden"],
        heads=_HEADS,
        layers=JOB_OPTIONS["layers"],
        sequence_tokens=JOB_OPTIONS["sequence_tokens"],
        vocabulary=_VOCABULARY,
    )
    layout = Layout(data=1, pipeline=JOB_OPTIONS["stages"], tensor=JOB_OPTIONS["domain_gpus"])
    return gpu_memory(model, layout, 1, JOB_OPTIONS["micro_batches"], recompute="selective")


@cache
def _capacity_bytes() -> float:
    spec = spec_of(load_scenario("head-to-head"))
    assert spec is not None
    return float(spec.gpu.memory_bytes)
