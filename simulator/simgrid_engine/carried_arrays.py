"""Simulates each message of a collective with its numbers: time and sums in one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from faultline.simulator.collectives.schedule import Message, Schedule
from faultline.simulator.simgrid_engine.process import in_own_process
from numpy.typing import NDArray

Buffers = NDArray[np.float64]
"""One row per member, one column per piece of the schedule; NaN for a piece not held."""


@dataclass(frozen=True, slots=True)
class Carried:
    """The result: each member's buffer, and the time until the last one has finished."""

    buffers: Buffers
    time_s: float
    messages: int


def carry_arrays(
    platform_xml: Path, schedule: Schedule, hosts: Sequence[str], buffers: Buffers
) -> Carried:
    """Run a collective on an idle platform, in a process of its own, one actor per member.

    Each message carries the elements that the schedule names, in as many bytes as they represent;
    the receiver adds them to its own elements or replaces these.

    Parameters
    ----------
    platform_xml : Path
        Platform XML.
    schedule : Schedule
        The collective.
    hosts : sequence of str
        Host of each member.
    buffers : array of float, shape (members, pieces)
        Each member's buffer at the start; it is not changed.

    Raises
    ------
    SimulationError
        SimGrid aborts.
    """
    return in_own_process(_simulate, platform_xml, schedule, hosts, buffers)


def _simulate(
    platform_xml: Path, schedule: Schedule, hosts: Sequence[str], start: Buffers
) -> Carried:
    import simgrid
    from faultline.simulator.simgrid_engine.loading import load_engine, start_members

    engine = load_engine(platform_xml)
    buffers = start.copy()
    sent = [0] * schedule.members
    ends_s = [0.0] * schedule.members

    def mailbox(sender: int, receiver: int) -> simgrid.Mailbox:
        return simgrid.Mailbox.by_name(f"arrays:{sender}>{receiver}")

    def send(position: int, message: Message) -> simgrid.Comm:
        sent[position] += 1
        size_bytes = max(1, round(message.pieces * schedule.piece_bytes))
        elements = buffers[position, _columns(message)].copy()
        return mailbox(position, message.peer).put_async(elements, size_bytes)

    def member(position: int) -> None:
        for stage in schedule.stages(position):
            for turn in stage.rounds():
                sends = [send(position, message) for message in turn.sends]
                receives = [mailbox(each.peer, position).get_async() for each in turn.receives]
                for comm in (*sends, *receives):
                    comm.wait()
                for message, comm in zip(turn.receives, receives, strict=True):
                    kept = buffers[position, _columns(message)] if message.adds else 0.0
                    buffers[position, _columns(message)] = kept + comm.get_payload()
        ends_s[position] = simgrid.Engine.clock

    start_members(hosts, member)
    engine.run()
    return Carried(buffers, max(ends_s), sum(sent))


def _columns(message: Message) -> slice:
    return slice(message.first_piece, message.first_piece + message.pieces)
