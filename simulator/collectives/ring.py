"""Ring all-reduce, played by the rank actors that take part in it.

On an uncontended fabric with route latency a and bandwidth b, n ranks with m bytes each take
``2 (n - 1) a + 2 (n - 1)/n * m / b`` (Patarasu & Yuan 2009): a reduce-scatter and an all-gather of
n - 1 rounds each, in every one of which a rank sends an n-th part to its successor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import simgrid

from simulator.simgrid_engine.traffic import Fidelity

_BROKEN_OFF = (
    simgrid.TimeoutException,
    simgrid.NetworkFailureException,
    simgrid.CancelException,
)


@dataclass(frozen=True, slots=True)
class RingAllReduce:
    """One all-reduce, as every member sees it.

    Attributes
    ----------
    hosts : sequence of str
        Hosts of the members, in the order of the ring.
    bytes_per_rank : float
        Bytes that each member reduces.
    tag : str
        Names the mailboxes; members of one all-reduce share it, all others must not.
    fidelity : {"flow", "chunk"}
        "chunk" sends every message of the algorithm. "flow" sends all that crosses an edge of the
        ring as one message and adds the latencies of the other rounds: 2 (n - 1) times fewer
        messages, and the same time where the edges are equal.
    """

    hosts: Sequence[str]
    bytes_per_rank: float
    tag: str
    fidelity: Fidelity = "flow"

    def take_part(self, position: int, deadline_s: float) -> bool:
        """Play the member at `position`; blocks the calling actor.

        Returns False if its neighbours did not answer until `deadline_s` (simulated seconds), or
        one of them died in the middle.
        """
        members = len(self.hosts)
        if members < 2:
            return True
        rounds = 2 * (members - 1)
        successor = (position + 1) % members
        if self.fidelity == "chunk":
            chunk = self.bytes_per_rank / members
            return all(
                self._exchange(position, successor, chunk, deadline_s) for _ in range(rounds)
            )
        volume = self.bytes_per_rank * rounds / members
        if not self._exchange(position, successor, volume, deadline_s):
            return False
        here, there = (simgrid.Host.by_name(self.hosts[p]) for p in (position, successor))
        _, hop_s = here.route_to(there)
        simgrid.this_actor.sleep_for((rounds - 1) * hop_s)
        return True

    def _exchange(self, position: int, successor: int, size: float, deadline_s: float) -> bool:
        """Send to the successor while receiving from the predecessor."""
        # Messages of less than a byte would be lost by rounding; SimGrid counts whole bytes.
        size_bytes = max(1, round(size))
        received = simgrid.Mailbox.by_name(f"{self.tag}:{position}").get_async()
        sent = simgrid.Mailbox.by_name(f"{self.tag}:{successor}").put_async(None, size_bytes)
        try:
            for exchange in (received, sent):
                left_s = deadline_s - simgrid.Engine.clock
                if left_s == inf:
                    exchange.wait()
                elif left_s > 0.0:
                    exchange.wait_for(left_s)
                else:
                    return False
        except _BROKEN_OFF:
            received.cancel()
            sent.cancel()
            return False
        return True
