"""A saved state is complete when its last byte has arrived from each owner, on both engines."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
from faultline.simulator.accounting.timeline import EventKind
from faultline.strategies.protection.base import LoadTimes, Recovery, Tier
from faultline.strategies.protection.checkpoint_policies import EverySteps, Never

from tests.simulator.helpers import Obedient, OnEngine, Scripted, small_job


class LosesOne:
    """Memories that hold the state as long as no two groups lose theirs."""

    def recovery(self, lost_nodes: Collection[int]) -> Recovery | None:
        if len(lost_nodes) > 1:
            return None
        return "peers" if lost_nodes else "local"


MEMORY = Tier("memory", EverySteps(2), 0.0, 0.0, LosesOne(), LoadTimes(4.0, 10.0))


def loaded(
    on_engine: OnEngine, fails_s: dict[int, float], *, waits: bool = True, **changes: Any
) -> list[tuple[int, float]]:
    """Return the steps that restarts load, and when.

    Steps end at 12 and 24 s, and the checkpoint of step 2 is written from 24 to 29 s.
    """
    strategy = Obedient(3, [None] * 2, checkpoint_waits=waits)
    is_shared = changes.pop("is_shared", False)
    if is_shared:
        strategy.shape = replace(strategy.shape, optimizer_backup="none")
    script = Scripted({group: [at_s] for group, at_s in fails_s.items()})
    events, progress = on_engine(small_job(script, **changes), strategy)
    # The checkpoint of step 2, if any, and the last one; a lost one does not count.
    complete = 1 if "policy" in changes else 2
    assert (progress.completed_steps, progress.checkpoints) == (4, complete)
    found = (event for event in events if event.kind is EventKind.LOADED)
    return [(event.step, pytest.approx(event.time_s)) for event in found]


@pytest.mark.parametrize(
    ("fails_s", "changes", "steps"),
    [
        ({0: 26.0}, {"waits": False}, 0),
        ({1: 26.0}, {"waits": False}, 2),
        ({0: 26.0}, {"failed_writer": "skips"}, 0),
        ({1: 26.0}, {}, 2),
        ({1: 26.0}, {"is_shared": True}, 0),
        ({1: 30.0}, {"is_shared": True}, 2),
    ],
    ids=[
        "its writer fails while the others go on",
        "another group fails meanwhile",
        "its writer fails while the others wait",
        "a group fails that owns no part of it",
        "the owner of a shard fails",
        "the owner of a shard fails later",
    ],
)
def test_a_checkpoint(
    fails_s: dict[int, float], changes: dict[str, Any], steps: int, on_engine: OnEngine
) -> None:
    assert [step for step, _ in loaded(on_engine, fails_s, **changes)] == [steps]


def test_the_last_checkpoint_of_a_job(on_engine: OnEngine) -> None:
    """A shard is lost in it, from 53 to 58 s: the job goes back to the checkpoint of step 2."""
    found = loaded(on_engine, {1: 55.0}, is_shared=True)
    assert found == [(2, 58.0 + 100.0 + 3.0)]


@pytest.mark.parametrize(("fails_s", "steps"), [(27.0, 0), (31.0, 2)])
def test_a_snapshot_that_all_wait_for(fails_s: float, steps: int, on_engine: OnEngine) -> None:
    """All groups copy their state from 24 to 30 s."""
    tiers = (replace(MEMORY, stall_s=6.0),)
    found = loaded(on_engine, {0: fails_s}, tiers=tiers, policy=Never())
    assert [step for step, _ in found] == [steps]


@pytest.mark.parametrize(("fails_s", "expected"), [(140.0, (0, 149.0)), (150.0, (2, 146.0))])
def test_a_load_from_memory(
    fails_s: float, expected: tuple[int, float], on_engine: OnEngine
) -> None:
    """Group 0 fails in step 3, and loads from the others from 136 to 146 s, or from storage."""
    failures = {0: 30.0, 1: fails_s}
    found = loaded(on_engine, failures, tiers=(MEMORY,), policy=Never())
    assert found[0] == expected
