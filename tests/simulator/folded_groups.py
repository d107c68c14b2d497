"""Simulates small jobs on SimGrid as large ones are: one group computes for all that are alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from faultline.simulator.pattern.activity_graph import Fold
from faultline.simulator.simgrid_engine import process
from faultline.simulator.simgrid_engine.process import SimgridResult

from tests.simulator.drawn_cases import simulate

plainly = process.simulate_here


def simulate_job_folded(*args: Any) -> SimgridResult:
    """Simulate a job in this process, however small, as a large one."""
    from faultline.simulator.simgrid_engine import simulated_steps

    stands_for_all: list[bool] = []

    class Watched(simulated_steps.PlacedJob):
        @contextmanager
        def narrowed(self, kinds: Iterable[str], fold: Fold) -> Iterator[None]:
            stands_for_all.append(True)
            with super().narrowed(kinds, fold):
                yield

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulated_steps, "MOST_RANKS_APART", 0)
        patch.setattr(simulated_steps, "PlacedJob", Watched)
        result = plainly(*args)
    assert stands_for_all, "every group has computed by itself"
    return result


def simulate_folded(number: int, folder: str) -> tuple[Any, Any]:
    """Return the records of a drawn case: of replay, and of SimGrid with folded groups."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "simulate_here", simulate_job_folded)
        return simulate((number, folder))
