"""All-reduce in two levels: inside scale-up domains, and between them rail by rail.

References
----------
BlueConnect with two levels (Cho et al. 2019, Proc. MLSys). Rail-optimised fabrics are built for it:
GPU k of a domain communicates only with GPU k of other domains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from faultline.simulator.collectives.ring import Ring
from faultline.simulator.collectives.schedule import Hop, Schedule, ScheduleStage


@dataclass(frozen=True, slots=True)
class HierarchicalAllReduce(Schedule):
    """Reduce-scatter in each domain, ring all-reduce on each rail, all-gather in each domain.

    For D domains of G members, edges (a', b') inside domains and (a, b) between them::

        2 (G - 1) (a' + m/G b') + 2 (D - 1) (a + m/(G D) b)

    This is the time of two ring stages on m bytes and a ring all-reduce on m/G bytes (each as in
    Patarasu and Yuan 2009).

    Attributes
    ----------
    domains : sequence of sequence of int
        Positions of the members of each domain, in the order of their rails; all domains have the
        same number of members.
    """

    domains: Sequence[Sequence[int]] = ()

    def __post_init__(self) -> None:
        if len({len(domain) for domain in self.domains}) != 1:
            raise ValueError("all domains of a hierarchical all-reduce have equally many members")

    @property
    def _rails(self) -> int:
        return len(self.domains[0])

    @property
    def piece_count(self) -> int:
        return len(self.domains) * self._rails

    def stages(self, position: int) -> Iterator[ScheduleStage]:
        number, rail = self._place(position)
        domains, rails = len(self.domains), self._rails
        inside = Ring(self.domains[number], rail, 0, domains, f"domain-{number}")
        if rails > 1:
            yield inside.reduce_scatter()
        if domains > 1:
            along = [domain[rail] for domain in self.domains]
            yield Ring(along, number, rail * domains, 1, f"rail-{rail}").all_reduce()
        if rails > 1:
            yield inside.all_gather()

    def _place(self, position: int) -> tuple[int, int]:
        for number, domain in enumerate(self.domains):
            if position in domain:
                return number, domain.index(position)
        raise ValueError(f"no domain has a member at position {position}")

    def alpha_beta_s(self, hop: Hop, inner: Hop | None = None) -> float:
        """Return the time with edges `hop` between domains and `inner` inside them, in seconds."""
        domains, rails = len(self.domains), self._rails
        inside_s = (inner or hop).seconds(self.size_bytes / rails)
        return 2 * (rails - 1) * inside_s + 2 * (domains - 1) * hop.seconds(self.piece_bytes)
