"""Parts of a step of which a node does more or less than in an undisturbed step."""

from __future__ import annotations

from collections.abc import Sequence

from faultline.simulator.pattern.step_pattern import PartWork, PassWork, StepPattern
from faultline.strategies.interface.step_shares import Pipeline, StageShare


def at_degree(
    parts: Sequence[PartWork], whole: StepPattern, changed: Pipeline
) -> Sequence[PartWork]:
    """Return the work of a rank on parts at a lower tensor-parallel degree.

    A rank has a larger share of the work; rings of t ranks send (t - 1)/t of the bytes.
    """
    if changed.tensor == whole.tensor:
        return parts
    more = whole.tensor / changed.tensor
    ring = (1.0 - 1.0 / changed.tensor) / (1.0 - 1.0 / whole.tensor)
    hops = (changed.tensor - 1) / (whole.tensor - 1)

    def changed_pass(work: PassWork) -> PassWork:
        return work.scaled(more)._replace(
            tensor_bytes=ring * work.tensor_bytes,
            tensor_hops=hops * work.tensor_hops,
            context_hops=work.context_hops,
        )

    return [
        PartWork(changed_pass(part.forward), changed_pass(part.backward), more * part.beside_flop)
        for part in parts
    ]


def of_share(part: PartWork, share: StageShare, parts: Sequence[PartWork], first: int) -> PartWork:
    """Return the work of a part on its node; the parts of its round of stages begin at `first`.

    A pass without work only takes part in the pipeline's messages.
    """
    forward = part.forward if share.forward else PassWork()
    backward = part.backward if share.backward else PassWork()
    beside_flop = 0.0 if share.shadows is None else parts[first + share.shadows].forward.flop
    if share.skips_attention and share.backward:
        # One of each layer's two rings is that of attention. Only attention sends keys and values.
        backward = PassWork(
            backward.flop, backward.tensor_bytes / 2, tensor_hops=backward.tensor_hops / 2
        )
    return PartWork(forward.slower(share.forward), backward.slower(share.backward), beside_flop)
