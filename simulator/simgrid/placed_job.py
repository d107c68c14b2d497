"""A job's ranks on the hosts of a loaded platform: its messages on links, and its symmetries."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from math import inf

import simgrid
from faultline.platforms.xml_names import DOMAIN_PROPERTY
from faultline.simulator.pattern.activity_graph import Fold, Rank
from faultline.simulator.pattern.step_pattern import StepPattern
from faultline.simulator.pattern.teams import DomainOf, Hosts
from faultline.simulator.simgrid.links import Way, at_bandwidths, way_between

MESSAGES = ("tensor", "context", "forward", "backward", "gradient")
"""Kinds of messages, by their receiver."""

_SLACK = 1.0 + 1e-9
"""Equal sums of bandwidths differ at most by this factor, due to rounding."""


def hosts_of_ranks(hosts: Hosts) -> dict[Rank, simgrid.Host]:
    """Return the host of each rank."""
    return {rank: simgrid.Host.by_name(name) for rank, name in _names_of_ranks(hosts).items()}


def _names_of_ranks(hosts: Hosts) -> dict[Rank, str]:
    return {
        Rank(replica, stage, position): name
        for replica, stages in enumerate(hosts)
        for stage, names in enumerate(stages)
        for position, name in enumerate(names)
    }


def domains_of_ranks(hosts: Hosts) -> DomainOf:
    """Return the scale-up domain of a rank; a rank without a known domain has its own."""

    def domain_of(rank: Rank) -> Hashable:
        name = hosts[rank.replica][rank.stage][rank.position]
        return simgrid.Host.by_name(name).get_property(DOMAIN_PROPERTY) or name

    return domain_of


class PlacedJob:
    """A job's ranks on GPU hosts, or some of them: then `whole_job` has all ranks on the links."""

    def __init__(
        self, hosts: Hosts, pattern: StepPattern, whole_job: PlacedJob | None = None
    ) -> None:
        self._pattern = pattern
        self._whole_job = whole_job or self
        self._names = _names_of_ranks(hosts)
        self._loads: dict[str, Counter[str]] = {}

    def host(self, rank: Rank) -> simgrid.Host:
        """Return the host of a rank."""
        return simgrid.Host.by_name(self._names[rank])

    def positions(self) -> tuple[int, ...]:
        """Return tensor-parallel positions that represent all.

        One is enough if the links of its ring have no other traffic. Otherwise two are needed: each
        sends to the other, so that a rank's incoming links carry its neighbour's messages.
        """
        positions = tuple(range(self._pattern.tensor))
        if not self.classes:
            return positions
        other_links = {link for kind in MESSAGES if kind != "tensor" for link in self.load(kind)}
        return positions[: 1 if other_links.isdisjoint(self.load("tensor")) else 2]

    def busiest(self, fold: Fold) -> Rank:
        """Return the rank that computes longest among those simulated."""
        flop = self._pattern.stage_flop
        return max(self._ranks(fold), key=lambda rank: flop[rank.stage] / self.host(rank).speed)

    @cached_property
    def treats_replicas_alike(self) -> bool:
        """Whether the platform is the same for all replicas, within and between them.

        Between replicas only the share of the narrowest link counts: latencies are small.
        """
        pattern, load, distinct = self._pattern, self.load("gradient"), set[tuple[object, ...]]()
        for stage in range(pattern.pipeline):
            sent: dict[int, list[tuple[float, float]]] = {
                replica: [] for replica in range(pattern.data)
            }
            for sender, receiver, share in pattern.edges(stage):
                way = self._way(Rank(sender, stage, 0), Rank(receiver, stage, 0))
                sent[sender].append((share, _rounded(self._bandwidth(way, load))))
            distinct.update(tuple(sorted(messages)) for messages in sent.values())
        return len(distinct) < 2 and self.is_even

    @property
    def treats_pairs_alike(self) -> bool:
        """Whether any subset of replicas is alike, too: all are equally far apart."""
        one_each = all(edge.share == 1.0 for ring in self._pattern.rings for edge in ring)
        return one_each and self.treats_replicas_alike

    def farthest(self) -> int:
        """Return the replica whose gradients have the longest route; the first of several."""
        pattern, latency_s = self._pattern, dict.fromkeys(range(self._pattern.data), 0.0)
        for stage in range(pattern.pipeline):
            for sender, receiver, _ in pattern.edges(stage):
                way = self._way(Rank(sender, stage, 0), Rank(receiver, stage, 0))
                latency_s[sender] = max(latency_s[sender], way.latency_s)
        return max(latency_s, key=latency_s.__getitem__)

    @contextmanager
    def narrowed(self, kinds: Iterable[str], fold: Fold) -> Iterator[None]:
        """Narrow links to the share that the simulated messages have among all messages."""
        ratios: dict[str, float] = {}
        for kind in kinds:
            counts = self._whole_job.load(kind)
            for name, simulated in self._load(kind, fold).items():
                ratios[name] = max(ratios.get(name, 1.0), counts[name] / simulated)
        links = [(simgrid.Link.by_name(name), ratio) for name, ratio in ratios.items()]
        with at_bandwidths([(link, link.bandwidth / ratio) for link, ratio in links if ratio > 1]):
            yield

    def messages(self, kind: str) -> Iterator[tuple[str, str]]:
        """Yield the hosts of sender and receiver of all messages of a kind."""
        for sender, receiver in self._messages(kind, Fold.whole(self._pattern)):
            yield self._names[sender], self._names[receiver]

    def load(self, kind: str) -> Counter[str]:
        """Return the number of messages of a kind on each link while all ranks send."""
        if kind not in self._loads:
            self._loads[kind] = self._load(kind, Fold.whole(self._pattern))
        return self._loads[kind]

    @property
    def is_even(self) -> bool:
        """Whether the platform is the same for all replicas and positions."""
        return len(set(self.classes)) == 1

    @cached_property
    def classes(self) -> tuple[int, ...]:
        """Classes of replicas whose passes take equally long, by replica.

        Replicas are of one class if their messages have routes of the same latency, and the same
        share of their narrowest link while all ranks send. A switch that is down makes two classes:
        the replicas below it, and the others. Empty if positions of a replica differ, or if a link
        may limit messages of several classes, which do not send at the same times.
        """
        all_ranks = Fold.whole(self._pattern)
        if len({self.host(rank).speed for rank in self._names}) > 1:
            return ()
        routes: dict[int, list[tuple[float, float]]] = {
            replica: [] for replica in all_ranks.replicas
        }
        for kind in MESSAGES:
            load = self.load(kind)
            # Bandwidths and latencies of ranks that differ only in their position.
            distinct: dict[tuple[int, ...], set[tuple[float, float]]] = {}
            for sender, receiver in self._messages(kind, all_ranks):
                # For gradients only positions represent each other: all replicas send.
                to = (receiver.replica,) if kind == "gradient" else ()
                way = self._way(sender, receiver)
                route = _rounded(self._bandwidth(way, load)), _rounded(way.latency_s)
                distinct.setdefault((sender.replica, sender.stage, *to), set()).add(route)
            if any(len(by_position) > 1 for by_position in distinct.values()):
                return ()
            if kind != "gradient":
                for (replica, *_), by_position in distinct.items():
                    routes[replica] += by_position
        numbers: dict[tuple[tuple[float, float], ...], int] = {}
        classes = [numbers.setdefault(tuple(each), len(numbers)) for each in routes.values()]
        return () if len(numbers) > 1 and self._limit_each_other(classes) else tuple(classes)

    def _limit_each_other(self, classes: Sequence[int]) -> bool:
        """Return whether a link that carries several classes could limit them.

        It cannot if it is as wide as the narrowest other links of all routes over it, together.
        """
        ways = [
            (classes[sender.replica], self._way(sender, receiver))
            for kind in MESSAGES
            if kind != "gradient"
            for sender, receiver in self._messages(kind, Fold.whole(self._pattern))
        ]
        classes_on: dict[str, set[int]] = {}
        for number, way in ways:
            for name, _ in way.shared:
                classes_on.setdefault(name, set()).add(number)
        widths = {name: link.bandwidth for _, way in ways for name, link in way.shared}
        feeding: dict[str, dict[object, float]] = {}
        for message, (_, way) in enumerate(ways):
            own: list[tuple[float, object]] = [
                (link.bandwidth, name) for name, link in way.shared if len(classes_on[name]) == 1
            ]
            own += [(link.bandwidth, message) for link in way.unshared]
            width, source = min(own, key=lambda pair: pair[0], default=(inf, message))
            for name, _ in way.shared:
                if len(classes_on[name]) > 1:
                    feeding.setdefault(name, {})[source] = width
        return any(sum(fed.values()) > widths[name] * _SLACK for name, fed in feeding.items())

    @staticmethod
    def _bandwidth(way: Way, load: Counter[str]) -> float:
        """Return a message's share of the narrowest link on its route, in bytes/s."""
        bandwidth: float = min(
            *(link.bandwidth / load[name] for name, link in way.shared),
            *(link.bandwidth for link in way.unshared),
            inf,
        )
        return bandwidth

    def _load(self, kind: str, fold: Fold) -> Counter[str]:
        """Return the number of messages of a kind on each link while the ranks of a fold send."""
        return Counter(
            name
            for sender, receiver in self._messages(kind, fold)
            for name, _ in self._way(sender, receiver).shared
        )

    def _messages(self, kind: str, fold: Fold) -> Iterator[tuple[Rank, Rank]]:
        """Yield sender and receiver of all messages of a kind."""
        pattern = self._pattern
        receivers = {
            "tensor": (pattern.tensor, fold.next_position),
            "context": (pattern.context, fold.next_context),
            "forward": (pattern.pipeline, _next_stage),
            "backward": (pattern.pipeline, _stage_before),
        }
        if kind == "gradient":
            for stage in range(pattern.pipeline):
                for edge in fold.edges(pattern, stage):
                    for position in fold.positions:
                        sender = Rank(edge.sender, stage, position)
                        yield sender, sender._replace(replica=edge.receiver)
            return
        size, receiver_of = receivers[kind]
        if size == 1:
            return
        for sender in self._ranks(fold):
            yield sender, receiver_of(sender, pattern)

    def _ranks(self, fold: Fold) -> Iterator[Rank]:
        stages = range(self._pattern.pipeline)
        return itertools.starmap(Rank, itertools.product(fold.replicas, stages, fold.positions))

    def _way(self, sender: Rank, receiver: Rank) -> Way:
        return way_between(self._names[sender], self._names[receiver])


def _next_stage(rank: Rank, pattern: StepPattern) -> Rank:
    return Rank(rank.replica, (rank.stage + 1) % pattern.pipeline, rank.position)


def _stage_before(rank: Rank, pattern: StepPattern) -> Rank:
    return Rank(rank.replica, (rank.stage - 1) % pattern.pipeline, rank.position)


def _rounded(value: float) -> float:
    return float(f"{value:.9g}")
