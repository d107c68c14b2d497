"""A job's ranks on the hosts of a loaded platform: link loads of messages, and symmetries."""

from __future__ import annotations

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
from faultline.simulator.simgrid_engine.links import Way, at_bandwidths, way_between

MESSAGES = ("tensor", "context", "forward", "backward", "gradient")
"""Kinds of messages, by their receiver."""

_SLACK = 1.0 + 1e-9
"""Sums of bandwidths that should be equal differ by rounding."""


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
    """Return which ranks share a scale-up domain; one of an unknown domain is alone."""

    def domain_of(rank: Rank) -> Hashable:
        name = hosts[rank.replica][rank.stage][rank.position]
        return simgrid.Host.by_name(name).get_property(DOMAIN_PROPERTY) or name

    return domain_of


class PlacedJob:
    """A job's ranks on GPU hosts; `among` are all ranks that share the links, by default these."""

    def __init__(self, hosts: Hosts, pattern: StepPattern, among: PlacedJob | None = None) -> None:
        self._pattern = pattern
        self._all = among or self
        self._names = _names_of_ranks(hosts)
        self._loads: dict[str, Counter[str]] = {}

    def host(self, rank: Rank) -> simgrid.Host:
        """Return the host of a rank."""
        return simgrid.Host.by_name(self._names[rank])

    def positions(self) -> tuple[int, ...]:
        """Return tensor-parallel positions that represent all.

        One is enough if the links of its ring have no other traffic. Else two are needed: each
        sends to the other, so that a rank's incoming links carry its neighbour's messages.
        """
        whole = Fold.whole(self._pattern)
        if not self.classes:
            return whole.positions
        tensor, others = (
            {link for kind in kinds for link in self.load(kind)}
            for kinds in (("tensor",), ("context", "forward", "backward", "gradient"))
        )
        return whole.positions[: 1 if tensor.isdisjoint(others) else 2]

    def busiest(self, fold: Fold) -> Rank:
        """Return the rank that computes longest among those simulated."""
        pattern = self._pattern
        flop = pattern.stage_flop
        ranks = (
            Rank(replica, stage, position)
            for replica in fold.replicas
            for stage in range(pattern.pipeline)
            for position in fold.positions
        )
        return max(ranks, key=lambda rank: flop[rank.stage] / self.host(rank).speed)

    @cached_property
    def treats_replicas_alike(self) -> bool:
        """Whether the platform is the same for all replicas, within and between them.

        Between them the share of the narrowest link counts: latencies are small beside it.
        """
        pattern, load, seen = self._pattern, self.load("gradient"), set[tuple[object, ...]]()
        for stage in range(pattern.pipeline):
            sent: dict[int, list[tuple[float, float]]] = {one: [] for one in range(pattern.data)}
            for here, there, share in pattern.edges(stage):
                way = self._way(Rank(here, stage, 0), Rank(there, stage, 0))
                sent[here].append((share, _rounded(self._share(way, load))))
            seen.update(tuple(sorted(one)) for one in sent.values())
        return len(seen) < 2 and self.is_even

    @property
    def treats_pairs_alike(self) -> bool:
        """Whether any subset of replicas is alike, too: all are equally far apart."""
        one_each = all(edge.share == 1.0 for ring in self._pattern.rings for edge in ring)
        return one_each and self.treats_replicas_alike

    def farthest(self) -> int:
        """Return the replica whose gradients have the longest route; the first of several."""
        pattern, latency_s = self._pattern, dict.fromkeys(range(self._pattern.data), 0.0)
        for stage in range(pattern.pipeline):
            for here, there, _ in pattern.edges(stage):
                way = self._way(Rank(here, stage, 0), Rank(there, stage, 0))
                latency_s[here] = max(latency_s[here], way.latency_s)
        return max(latency_s, key=latency_s.__getitem__)

    @contextmanager
    def narrowed(self, kinds: Iterable[str], fold: Fold) -> Iterator[None]:
        """Narrow links to the share that the simulated messages have among all messages."""
        ratios: dict[str, float] = {}
        for kind in kinds:
            full, simulated = self._all.load(kind), self._load(kind, fold)
            for name, count in simulated.items():
                ratios[name] = max(ratios.get(name, 1.0), full[name] / count)
        links = [(simgrid.Link.by_name(name), ratio) for name, ratio in ratios.items()]
        with at_bandwidths([(link, link.bandwidth / ratio) for link, ratio in links if ratio > 1]):
            yield

    def load(self, kind: str) -> Counter[str]:
        """Return the messages of a kind on each link at once if all ranks are simulated."""
        if kind not in self._loads:
            self._loads[kind] = self._load(kind, Fold.whole(self._pattern))
        return self._loads[kind]

    @property
    def is_even(self) -> bool:
        """Whether the unchanged platform is the same for all replicas and positions."""
        return len(set(self.classes)) == 1

    @cached_property
    def classes(self) -> tuple[int, ...]:
        """Classes of replicas whose passes take equally long, by replica.

        Replicas are of one class if their messages have routes of the same latency, and the same
        share of their narrowest link while all ranks send. A switch that is down makes two classes:
        the replicas below it, and the others. Empty if positions of a replica differ, or if a link
        may limit messages of several classes, which do not send at the same times.
        """
        whole = Fold.whole(self._pattern)
        if len({self.host(rank).speed for rank in self._names}) > 1:
            return ()
        routes: dict[int, list[tuple[float, float]]] = {one: [] for one in whole.replicas}
        for kind in MESSAGES:
            load = self.load(kind)
            seen: dict[tuple[int, ...], set[tuple[float, float]]] = {}
            for here, there in self._messages(kind, whole):
                # All replicas send gradients: only positions represent each other there.
                other = (there.replica,) if kind == "gradient" else ()
                way = self._way(here, there)
                share = _rounded(self._share(way, load))
                place = here.replica, here.stage, *other
                seen.setdefault(place, set()).add((share, _rounded(way.latency_s)))
            if any(len(each) > 1 for each in seen.values()):
                return ()
            if kind != "gradient":
                for (replica, *_), each in seen.items():
                    routes[replica] += each
        numbers: dict[tuple[tuple[float, float], ...], int] = {}
        classes = [numbers.setdefault(tuple(one), len(numbers)) for one in routes.values()]
        return () if len(numbers) > 1 and self._meet(classes) else tuple(classes)

    def _meet(self, classes: Sequence[int]) -> bool:
        """Return whether a link that carries several classes could limit them together.

        It cannot if it is as wide as all narrowest other links, together, on the routes over it.
        """
        whole = Fold.whole(self._pattern)
        ways = [
            (classes[here.replica], self._way(here, there))
            for kind in MESSAGES
            if kind != "gradient"
            for here, there in self._messages(kind, whole)
        ]
        classes_on: dict[str, set[int]] = {}
        for one, way in ways:
            for name, _ in way.shared:
                classes_on.setdefault(name, set()).add(one)
        widths = {name: link.bandwidth for _, way in ways for name, link in way.shared}
        feeding: dict[str, dict[object, float]] = {}
        for number, (_, way) in enumerate(ways):
            own: list[tuple[float, object]] = [
                (link.bandwidth, name) for name, link in way.shared if len(classes_on[name]) == 1
            ]
            own += [(link.bandwidth, number) for link in way.unshared]
            for name, _ in way.shared:
                if len(classes_on[name]) > 1:
                    width, source = min(own, key=lambda pair: pair[0], default=(inf, number))
                    feeding.setdefault(name, {})[source] = width
        return any(sum(each.values()) > widths[name] * _SLACK for name, each in feeding.items())

    @staticmethod
    def _share(way: Way, load: Counter[str]) -> float:
        """Return a message's share of the narrowest link on its route, in bytes/s."""
        share: float = min(
            *(link.bandwidth / load[name] for name, link in way.shared),
            *(link.bandwidth for link in way.unshared),
            inf,
        )
        return share

    def _load(self, kind: str, fold: Fold) -> Counter[str]:
        """Return how many messages of a kind each link carries at once."""
        return Counter(
            name
            for here, there in self._messages(kind, fold)
            for name, _ in self._way(here, there).shared
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
                        here = Rank(edge.sender, stage, position)
                        yield here, here._replace(replica=edge.receiver)
            return
        size, receiver = receivers[kind]
        if size == 1:
            return
        for replica in fold.replicas:
            for stage in range(pattern.pipeline):
                for position in fold.positions:
                    here = Rank(replica, stage, position)
                    yield here, receiver(here, pattern)

    def _way(self, here: Rank, there: Rank) -> Way:
        return way_between(self._names[here], self._names[there])


def _next_stage(rank: Rank, pattern: StepPattern) -> Rank:
    return Rank(rank.replica, (rank.stage + 1) % pattern.pipeline, rank.position)


def _stage_before(rank: Rank, pattern: StepPattern) -> Rank:
    return Rank(rank.replica, (rank.stage - 1) % pattern.pipeline, rank.position)


def _rounded(value: float) -> float:
    return float(f"{value:.9g}")
