"""A job whose restarts find its state by RAIM5: the very bytes, from what each node has left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import resolve
from faultline.strategies.errors import StrategyError
from faultline.strategies.in_memory.node_groups import NodeGroups
from faultline.strategies.protection.base import Keeper, Recovery

from tests.simulator.helpers import replayed
from tests.stated_times import SNAPSHOTS
from tests.strategies.in_memory.raim5 import encode, rebuild

NODES, SIZE = 16, 4
JOB = {
    "job.groups": NODES,
    "job.gpus": NODES * 8,
    "job.parameter_bytes": 1e11,
    "job.steps": 1500,
    "times.compute_s": 30.0,
    "strategy.name": "checkpoint",
    "failures.mtbf_s": 600.0,
    "failures.component": "host",
    "failures.hardware_share": 0.8,
    "failures.gpus_per_host": 8,
    "times.all_reduce_s": 1.0,
    "times.checkpoint_write_s": 1.0,
    "times.restart_s": 300.0,
    "restart.readers": None,
    "times.shrink_s": 0.0,
    "protection.name": "reft",
    **SNAPSHOTS,
    "protection.interval_steps": 1,
    "protection.reft.sharding_group": SIZE,
}


@dataclass
class WithBytes:
    """Keeps real shares in each node, and rebuilds them from what is left."""

    groups: NodeGroups
    inner: Keeper
    ways: Counter[str] = field(default_factory=Counter)
    most_lost: int = 0

    def __post_init__(self) -> None:
        draws = np.random.default_rng(7)
        self.shares = [
            draws.integers(0, 256, size=60 + node, dtype=np.uint8) for node in range(NODES)
        ]

    def recovery(self, lost_nodes: Collection[int]) -> Recovery | None:
        way = self.inner.recovery(lost_nodes)
        self.ways[str(way)] += 1
        if way is None:
            with pytest.raises(StrategyError, match="are lost"):
                self._rebuild(lost_nodes)
        else:
            self._rebuild(lost_nodes)
        return way

    def _rebuild(self, lost_nodes: Collection[int]) -> None:
        for group in range(self.groups.groups):
            nodes = list(self.groups.nodes_of(group))
            kept = encode([self.shares[node] for node in nodes])
            left = [None if node in lost_nodes else kept[at] for at, node in enumerate(nodes)]
            self.most_lost = max(self.most_lost, left.count(None))
            found = rebuild(left, [len(self.shares[node]) for node in nodes])
            for node, member in zip(nodes, found, strict=True):
                assert np.array_equal(member.share, self.shares[node])


def test_each_restart_finds_the_bytes_it_says_it_finds() -> None:
    """One loss a group is rebuilt byte by byte; of two the code says that it cannot."""
    question = resolve(load_scenario("spare-sound", JOB))
    job = question.job(1)
    peers = question.protected.protection.peers
    assert peers is not None
    memory = job.work.tiers[0]
    keeper = WithBytes(peers, memory.keeper)
    tiers = (replace(memory, keeper=keeper), *job.work.tiers[1:])
    job = replace(job, work=replace(job.work, tiers=tiers))
    progress = replayed(job, question.strategy())
    assert keeper.ways["peers"] == progress.restarts_from_peers > 3
    assert keeper.ways["local"] == progress.restarts_from_memory > 0
    # Two of one group within a restart.
    assert keeper.ways["None"] > 0
    assert keeper.most_lost >= 2


def test_without_a_process_of_its_own_memory_ends_with_the_trainer() -> None:
    changes = JOB | {"protection.reft.snapshot_process": "in-trainer", "job.steps": 300}
    question = resolve(load_scenario("spare-sound", changes))
    progress = replayed(question.job(1), question.strategy())
    assert progress.restarts > 3
    assert progress.restarts_from_memory == progress.restarts_from_peers == 0


@pytest.mark.slow
def test_no_snapshot_is_whole_before_its_copies_are_launched() -> None:
    changes: dict[str, object] = {"protection.name": "reft", "protection.launch_s": 5.0}
    asked = load_scenario("spare-sound", changes)
    whole = resolve(asked).protected.snapshot_cost.lag_s
    sooner = resolve(asked.with_({"protection.launch_s": 0.0})).protected
    assert sooner.times.copy_s < 5.0
    assert whole == pytest.approx(5.0 + sooner.snapshot_cost.lag_s - sooner.times.copy_s)
