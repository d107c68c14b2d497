"""The scheme that is checked, and the failures through which a check leads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from faultline.experiments.config.errors import SchemeError
from faultline.simulator.loop.contract import Contract
from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.scheme import Hit, Strategy, StrategyOptions, Verdict, WipeOut

LIVES = 20
"""Lives (from one restart to the next) that a scheme is led through with each redundancy."""

_MOST_AT_ONCE = 3
_MOST_REDUNDANCIES = 4
_GPUS_PER_GROUP = 8


@dataclass(frozen=True)
class Subject:
    """The checked scheme."""

    scheme: type[Strategy]
    groups: int  # Data-parallel groups of the job.
    options: StrategyOptions  # Options of the scheme.
    shape: JobShape = field(default_factory=JobShape)

    def built(self, redundancy: int) -> Strategy:
        """Return the scheme in its first state."""
        return self.scheme(self.groups, redundancy, self.options, self.shape)

    def redundancies(self) -> list[int]:
        """Return at most `_MOST_REDUNDANCIES` of the offered redundancies, evenly spaced."""
        known = list(self.scheme.redundancies(self.groups, self.options))
        step = max(1, -(-len(known) // _MOST_REDUNDANCIES))
        return known[::step]


def require(holds: bool, fault: str) -> None:
    """Refuse a scheme for a fault, unless the law holds."""
    if not holds:
        raise SchemeError(fault)


def hits(missing: Sequence[int], draws: np.random.Generator) -> list[Hit]:
    """Return a broken GPU of each missing group."""
    gpus = [int(draws.integers(_GPUS_PER_GROUP)) for _ in missing]
    return [Hit(group, gpu, gpu, _GPUS_PER_GROUP) for group, gpu in zip(missing, gpus, strict=True)]


def lives(subject: Subject, redundancy: int, seed: int) -> Iterator[tuple[Strategy, Verdict]]:
    """Yield a scheme and its verdict for many failures, some of several groups at once."""
    draws, strategy = np.random.default_rng(seed), subject.built(redundancy)
    contract = Contract(strategy, subject.groups)
    restarts = steps = 0
    while restarts < LIVES and steps < LIVES * subject.groups:
        steps += 1
        members = strategy.plan().members
        if not members:
            verdict: Verdict = WipeOut(())
        else:
            count = min(len(members), int(draws.integers(1, _MOST_AT_ONCE + 1)))
            chosen = draws.choice(members, size=count, replace=False)
            missing = tuple(sorted(int(group) for group in chosen))
            if strategy.tracks_components:
                for hit in hits(missing, draws):
                    strategy.on_hit(hit)
            verdict = contract.verdict(missing)
        yield strategy, verdict
        if isinstance(verdict, WipeOut) or not strategy.plan().members:
            restarts += 1
            strategy.restart()
            if strategy.restart_replaces:
                contract.restarted()
            else:
                # The old instance would continue with the broken components.
                strategy = subject.built(redundancy)
                contract = Contract(strategy, subject.groups)
        else:
            contract.replanned()


def all_lives(subject: Subject) -> Iterator[tuple[Strategy, Verdict]]:
    """Yield the lives with each of the checked redundancies."""
    for redundancy in subject.redundancies():
        yield from lives(subject, redundancy, seed=1)
