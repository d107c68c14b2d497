"""A job's ranks on the hosts of a loaded platform: what their messages meet, and who is alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import simgrid
from faultline.simulator.pattern.activity_graph import Fold, Rank
from faultline.simulator.pattern.step_pattern import StepPattern

Hosts = Sequence[Sequence[Sequence[str]]]
"""GPU hosts by replica, stage and tensor-parallel position."""

_MESSAGES = ("tensor", "context", "forward", "backward", "gradient")


class PlacedJob:
    """A job's ranks on hosts.

    Parameters
    ----------
    hosts : sequence
        GPU hosts by replica, stage and position.
    pattern : StepPattern
        What they do in a step.
    """

    def __init__(self, hosts: Hosts, pattern: StepPattern) -> None:
        self._pattern = pattern
        self._hosts = {
            Rank(replica, stage, position): simgrid.Host.by_name(name)
            for replica, stages in enumerate(hosts)
            for stage, names in enumerate(stages)
            for position, name in enumerate(names)
        }
        self.host = self._hosts.__getitem__
        self._routes: dict[tuple[Rank, Rank], tuple[list[simgrid.Link], float]] = {}
        self._narrowed: list[tuple[simgrid.Link, float]] = []

    def fold(self) -> Fold:
        """Return the smallest fold that changes nothing."""
        pattern = self._pattern
        whole = Fold.whole(pattern)
        one = Fold((0,), (0,))
        if self._is_even(whole, one):
            return one
        replica = Fold((0,), whole.positions)
        return replica if self._is_even(whole, replica) else whole

    def narrow(self, passes: Fold, sync: Fold) -> None:
        """Leave messages that are played the share of their links that they have among all."""
        whole = Fold.whole(self._pattern)
        ratios: dict[str, float] = {}
        for kind in _MESSAGES:
            fold = sync if kind == "gradient" else passes
            full, played = self._load(kind, whole), self._load(kind, fold)
            for name, count in played.items():
                ratios[name] = max(ratios.get(name, 1.0), full[name] / count)
        for links, _ in self._routes.values():
            for link in links:
                ratio = ratios.pop(link.name, 1.0)
                if ratio > 1.0:
                    self._narrowed.append((link, link.bandwidth))
                    link.set_bandwidth(link.bandwidth / ratio)

    def widen(self) -> None:
        """Give links that were narrowed their bandwidth back."""
        while self._narrowed:
            link, bandwidth = self._narrowed.pop()
            link.set_bandwidth(bandwidth)

    def _is_even(self, whole: Fold, fold: Fold) -> bool:
        """Return whether everybody sees what those see who are played for them."""
        speeds = {host.speed for host in self._hosts.values()}
        if len(speeds) > 1:
            return False
        if len(fold.positions) < len(whole.positions):
            # Rings lead from a position to the next, sends do not: where both reach a GPU by the
            # same link, one position alone would not see that they meet.
            sends = self._load("forward", whole) + self._load("backward", whole)
            if sends.keys() & self._load("tensor", whole).keys():
                return False
        for kind in _MESSAGES:
            load = self._load(kind, whole)
            # Gradients are played by all replicas: only positions stand for each other there.
            seen: dict[tuple[int, ...], set[tuple[float, float]]] = {}
            for here, there in self._messages(kind, whole):
                place = (here.replica, here.stage) if kind == "gradient" else (here.stage,)
                if len(fold.positions) > 1:
                    place = (*place, here.position)
                links, latency_s = self._route(here, there)
                share = min(
                    (link.bandwidth / (1 if _is_fat(link) else load[link.name]) for link in links),
                    default=0.0,
                )
                seen.setdefault(place, set()).add((_rounded(share), _rounded(latency_s)))
            if any(len(each) > 1 for each in seen.values()):
                return False
        return True

    def _load(self, kind: str, fold: Fold) -> Counter[str]:
        """Return how many messages of a kind each link carries at once."""
        return Counter(
            link.name
            for here, there in self._messages(kind, fold)
            for link in self._route(here, there)[0]
            if not _is_fat(link)
        )

    def _messages(self, kind: str, fold: Fold) -> Iterator[tuple[Rank, Rank]]:
        """Yield sender and receiver of all messages of a kind."""
        pattern = self._pattern
        sizes = {
            "tensor": pattern.tensor,
            "context": pattern.context,
            "forward": pattern.pipeline,
            "backward": pattern.pipeline,
            "gradient": pattern.data,
        }
        if sizes[kind] == 1:
            return
        for replica in fold.replicas:
            for stage in range(pattern.pipeline):
                for position in fold.positions:
                    yield (
                        Rank(replica, stage, position),
                        self._receiver(kind, replica, stage, position),
                    )

    def _receiver(self, kind: str, replica: int, stage: int, position: int) -> Rank:
        pattern = self._pattern
        if kind == "tensor":
            return Rank(replica, stage, (position + 1) % pattern.tensor)
        if kind == "context":
            first = replica - replica % pattern.context
            return Rank(first + (replica + 1 - first) % pattern.context, stage, position)
        if kind == "gradient":
            return Rank((replica + 1) % pattern.data, stage, position)
        step = 1 if kind == "forward" else -1
        return Rank(replica, (stage + step) % pattern.pipeline, position)

    def _route(self, here: Rank, there: Rank) -> tuple[list[simgrid.Link], float]:
        if (here, there) not in self._routes:
            self._routes[here, there] = self._hosts[here].route_to(self._hosts[there])
        return self._routes[here, there]


def _is_fat(link: simgrid.Link) -> bool:
    """Return whether a link limits each message for itself."""
    return bool(link.get_sharing_policy() == simgrid.Link.SharingPolicy.FATPIPE)


def _rounded(value: float) -> float:
    return float(f"{value:.9g}")
