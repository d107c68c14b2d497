"""A training step as a value: what every rank computes and sends. The platform says how long."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class PartWork:
    """One micro-batch on one part of the model, for each of its tensor-parallel ranks.

    Attributes
    ----------
    forward_flop, backward_flop : float
        Computation, as the GPU's host is given it.
    forward_tensor_bytes, backward_tensor_bytes : float
        Bytes that each rank sends to the next in the rings of its tensor-parallel group.
    forward_context_bytes, backward_context_bytes : float
        Bytes that each rank sends to the next in the ring that shares its sequences.
    """

    forward_flop: float
    backward_flop: float
    forward_tensor_bytes: float = 0.0
    backward_tensor_bytes: float = 0.0
    forward_context_bytes: float = 0.0
    backward_context_bytes: float = 0.0

    def slower(self, factor: float) -> PartWork:
        """Return what takes so many times as long to compute."""
        return replace(
            self,
            forward_flop=self.forward_flop * factor,
            backward_flop=self.backward_flop * factor,
        )


@dataclass(frozen=True, slots=True)
class StepPattern:
    """What the ranks of a job do in a step.

    A rank has a replica, a stage and a tensor-parallel position. Part v p + s of the model is the
    v-th on stage s of p.

    Attributes
    ----------
    data, pipeline, tensor : int
        Replicas, stages, tensor-parallel ranks of a stage.
    context : int
        Neighbouring replicas that share their sequences.
    micro_batches : int
        Micro-batches of a replica.
    parts : tuple of PartWork
        The parts of the model, in order; a multiple of the stages.
    send_bytes : float
        Activations of a micro-batch, or their gradients, from a rank to its peer in the next stage.
    send_blocks : float
        Share of a send during which its sender does nothing else.
    hidden_gradient_bytes : tuple of float
        By stage: what each rank sends to the next replica while its last micro-batch is computed,
        an equal part of it for each of the stage's parts of the model.
    gradient_bytes : tuple of float
        The same, behind that.
    optimizer_flop : tuple of float
        By stage: computation of the optimizer.
    hidden_weight_bytes : tuple of float
        The same as `hidden_gradient_bytes`, while its first micro-batch is computed: updated
        weights, without which no second one begins. Nothing if empty.
    """

    data: int
    pipeline: int
    tensor: int
    context: int
    micro_batches: int
    parts: tuple[PartWork, ...]
    send_bytes: float
    send_blocks: float
    hidden_gradient_bytes: tuple[float, ...]
    gradient_bytes: tuple[float, ...]
    optimizer_flop: tuple[float, ...]
    hidden_weight_bytes: tuple[float, ...] = ()

    @property
    def virtual_stages(self) -> int:
        """Parts of the model on each stage."""
        return len(self.parts) // self.pipeline

    @property
    def stage_flop(self) -> list[float]:
        """What a rank of each stage computes of a micro-batch."""
        parts = [part.forward_flop + part.backward_flop for part in self.parts]
        return [sum(parts[stage :: self.pipeline]) for stage in range(self.pipeline)]

    def of_replicas(self, replicas: int) -> StepPattern:
        """Return the step of fewer replicas: rings over n move (n - 1)/n of what they reduce."""
        if replicas == self.data:
            return self
        share = (replicas - 1) / replicas * self.data / (self.data - 1)
        return replace(
            self,
            data=replicas,
            hidden_gradient_bytes=tuple(share * size for size in self.hidden_gradient_bytes),
            gradient_bytes=tuple(share * size for size in self.gradient_bytes),
            hidden_weight_bytes=tuple(share * size for size in self.hidden_weight_bytes),
        )
