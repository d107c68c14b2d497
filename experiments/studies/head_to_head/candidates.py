"""Who takes part: every registered scheme, with protections beneath it that make sense for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from faultline.experiments.config.errors import UserError, did_you_mean
from faultline.experiments.config.model_numbers import transformer_of
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.platform_files import spec_of
from faultline.simulator.workload.layout import Layout
from faultline.simulator.workload.memory import GpuMemory, gpu_memory
from faultline.strategies.ntp_within import NonuniformWithin
from faultline.strategies.registry import all_strategies, strategy_class

# Beneath schemes that were published with checkpoints on storage, both are played; just-in-time
# checkpoints exist for plain checkpointing (Gupta et al. 2024). Everybody else gets the best.
_PROTECTIONS: Mapping[str, tuple[str, ...]] = {
    "checkpoint": ("storage", "reft", "just-in-time"),
    "replication": ("storage", "reft"),
    "spare": ("storage", "reft"),
    "varuna": ("storage",),
}
_DEFAULT_PROTECTION = ("reft",)

# What a scheme takes longer without failures, where it does not say so itself. Bamboo computes the
# forward pass of the next stage as well: a third of the work of its 64 micro-batches, as far as
# this does not fit into the bubbles of 15 slots of 3 thirds each: (64 - 45) / (3 * 79) of a step.
_PRICE: Mapping[str, float] = {"bamboo": 19 / 237}


DEPEND_ON_LAYERS = ("oobleck",)
"""Schemes whose pipelines are cut anew by whole layers."""

APPROXIMATE = tuple(name for name, scheme in all_strategies().items() if scheme.approximate)
"""Schemes whose gradients differ from those of a run without failures: they set no standards."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A scheme with a way to keep its state."""

    # Registered names.
    scheme: str
    protection: str
    # Stated redundancy; None for the best by the scheme's closed forms.
    redundancy: int | None = None
    price: float = 0.0  # By how much a step computes longer without failures.

    @property
    def name(self) -> str:
        """One word for tables: ``spare/reft``, or ``spare-ntp/reft/r=1`` for a control."""
        name = f"{self.scheme}/{self.protection}"
        return name if self.redundancy is None else f"{name}/r={self.redundancy}"

    @property
    def is_control(self) -> bool:
        """Whether it is a combination of two schemes without one of them: nothing is masked."""
        return self.redundancy == 1 and is_combination(self.scheme)


def all_candidates(names: Sequence[str] | None = None) -> list[Candidate]:
    """Return the candidates in the order of the registry.

    Names are schemes, or candidates such as ``spare/reft``; all by default.

    Raises
    ------
    UserError
        If there is none of that name.
    """
    everybody = [
        Candidate(scheme, protection, redundancy, _PRICE.get(scheme, 0.0))
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


def held_bytes(stages: float) -> float:
    """Return the bytes on a GPU that holds the state of so many stages.

    16-bit weights, 32-bit gradients and Adam's 12 bytes a parameter on every replica, and
    activations under selective recomputation (`simulator.workload.memory`): the time of a step
    counts no FLOP for more. Activations are those of one stage: a pipeline of fewer, longer stages
    has as many micro-batches fewer in flight.

    It is one stage where nothing has failed.
    """
    whole = _stage()
    return stages * (whole.parameters + whole.gradients + whole.optimizer) + whole.activations


def fits(memory_bytes: float) -> bool:
    """Return whether a GPU of the platform has that much memory."""
    return memory_bytes <= _capacity_bytes()


@cache
def _stage() -> GpuMemory:
    table = load_scenario("head-to-head").model
    layout = Layout(data=1, pipeline=table.pipeline, tensor=table.tensor)
    model, whole = transformer_of(table), table.micro_batch_sequences
    return gpu_memory(model, layout, whole, table.micro_batches, recompute="selective")


@cache
def _capacity_bytes() -> float:
    spec = spec_of(load_scenario("head-to-head"))
    assert spec is not None
    return float(spec.gpu.memory_bytes)
