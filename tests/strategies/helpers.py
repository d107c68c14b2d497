"""What the tests of schemes have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.pipeline_schedule import split_iteration, stage_passes
from faultline.strategies.interface.scheme import Hit, Strategy
from faultline.strategies.interface.stage_work import StageWork
from faultline.strategies.plugins.registry import build_strategy, strategy_class

_FACTS = {one.name for one in fields(JobShape)}


def built(scheme: str, groups: int = 4, redundancy: int = 1, **stated: Any) -> Any:
    """Return a scheme with some options, and some facts of its job."""
    facts = {key: value for key, value in stated.items() if key in _FACTS}
    chosen = {key: value for key, value in stated.items() if key not in _FACTS}
    options = strategy_class(scheme).Options(**chosen)
    return build_strategy(scheme, groups, redundancy, options, JobShape(**facts))


def lose(scheme: Strategy, *hits: Hit) -> Any:
    """Tell a scheme of hits, and return its verdict."""
    for hit in hits:
        scheme.on_hit(hit)
    return scheme.on_failures(sorted({hit.group for hit in hits}))


def exact_iteration(stages: Sequence[StageWork], micro_batches: int) -> float:
    """Return the exact time of 1F1B; its first stage has the first pass, and the last one."""
    orders = [
        "".join("F" if one.forward else "B" for one in passes)
        for passes in (
            stage_passes(place, len(stages), 1, micro_batches) for place in range(len(stages))
        )
    ]
    return split_iteration(stages, micro_batches, orders)
