"""The phases that a training job yields, and the outcomes that an engine returns.

The training loop yields phases and is sent an `Outcome` for each; an engine executes them. A phase
states the work and the groups that do it. The engine determines its duration and its failures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from faultline.simulator.failures.failure import Failure
from faultline.simulator.job.background import Write
from faultline.simulator.job.conditions import UNDISTURBED, Slowdown
from faultline.strategies.interface.recovery import RESTART, SHRINK, Recovery, SentMove
from faultline.strategies.interface.step_shares import Pipeline
from numpy.typing import NDArray


class Compute(NamedTuple):
    """Groups compute shard types; the phase ends with the last of them."""

    members: tuple[int, ...]  # Groups that will take part in the following all-reduce.
    stacks: int  # Stacks that each member computes if `patch` is None.
    stack_size: int = 1  # Shard types of a stack, computed in one go.
    # Stacks by group if only some of the members have to compute.
    patch: Mapping[int, int] | None = None
    stack_s: float = 0.0  # Seconds per stack, without stragglers and jitter.
    parts_down: tuple[str, ...] = ()  # Parts of the network that are down and can be routed around.
    slow: Slowdown = UNDISTURBED  # Other slowdowns of the members.
    # Pipelines of members that differ from those of an undisturbed step.
    pipelines: tuple[Pipeline, ...] = ()
    # If all members finish earlier, the phase lasts this long per stack; `stack_s` includes it.
    least_stack_s: float = 0.0
    # How many times as long each computation takes; `stack_s` includes it.
    factor: float = 1.0
    pace: float = 1.0  # The scheme's own factor on compute times; `stack_s` includes it.

    @property
    def has_whole_passes(self) -> bool:
        """Whether every member computes whole micro-batches, as SimGrid simulates them."""
        return bool(self.pipelines) or self.pace == 1.0


class Snapshots(NamedTuple):
    """Ends of quiet steps at which snapshots are due; these cost the job no time."""

    first: int  # Quiet steps until the first of them.
    every: int  # Steps between two of them.


class QuietSteps(NamedTuple):
    """As many consecutive steps without a failure as possible; may be none.

    The engine stops before the first step into which a failure may fall. It may also execute fewer
    steps: the loop then executes each by its phases.
    """

    compute: Compute  # The compute phase of each step.
    all_reduce: AllReduce  # The all-reduce that ends each step.
    at_most: int  # Steps until the job has something else to do.
    until_s: float  # No step begins at that simulated time or later, in seconds.
    snapshots: Snapshots | None = None  # Steps whose ends the job needs.


class AllReduce(NamedTuple):
    """Members reduce their gradients over the working network; fails if a member is missing.

    A `repeated` all-reduce exchanges all gradients. Any other comes after `stacks` stacks of
    `stack_size` shard types each, of which the last hides some of the gradients.
    """

    members: tuple[int, ...]
    parts_down: tuple[str, ...] = ()
    slow: Slowdown = UNDISTURBED
    pipelines: tuple[Pipeline, ...] = ()
    repeated: bool = False
    stacks: int = 1
    stack_size: int = 1


class Reconfigure(NamedTuple):
    """The job recovers from failures without a restart: `dropped` groups leave it."""

    members: tuple[int, ...]  # Groups that are left in it.
    dropped: tuple[int, ...] = ()  # Groups that leave.
    # Members that were missing, and are up again with their remaining nodes.
    carried_on: tuple[int, ...] = ()
    recovery: Recovery | None = SHRINK  # The recovery that this needs.


class Save(NamedTuple):
    """One member writes a checkpoint; the others wait if `waits`, or else go on."""

    members: tuple[int, ...]
    writer: int
    waits: bool


class Background(NamedTuple):
    """A group begins to write a snapshot to storage; this takes no time, and the job goes on."""

    write: Write


class Stall(NamedTuple):
    """All members wait for a stated time, in seconds: for a snapshot, a repair or a time-out."""

    members: tuple[int, ...]
    duration_s: float


class Send(NamedTuple):
    """State moves between members, which all wait for it.

    The failure of a sender or receiver is not noticed in this phase: the next all-reduce lacks that
    member.
    """

    moves: tuple[SentMove, ...]


class Restart(NamedTuple):
    """All groups are restarted, except those that stay away."""

    groups: int  # Number of groups.
    absent: tuple[int, ...] = ()  # Groups that stay away.
    recovery: Recovery = RESTART  # The recovery that this needs.


class Load(NamedTuple):
    """Members load the state.

    If a member is down, none loads. If one fails during the load, this is noticed when the load
    should have ended.
    """

    members: tuple[int, ...]  # Groups that load.
    # Seconds to load from memory; None for the last checkpoint on storage.
    duration_s: float | None = None


class Rejoin(NamedTuple):
    """Groups that were dropped come back and are sent the state, while the members wait."""

    groups: tuple[int, ...]
    members: tuple[int, ...]
    recovery: Recovery


Phase = (
    Compute
    | AllReduce
    | QuietSteps
    | Reconfigure
    | Save
    | Background
    | Stall
    | Send
    | Restart
    | Load
    | Rejoin
)


NONE_MISSING: Mapping[int, Failure] = MappingProxyType({})
NO_TIMES_S: NDArray[np.float64] = np.empty(0)


class Outcome(NamedTuple):
    """The outcome of a phase.

    Attributes
    ----------
    now_s : float
        Simulated time at the end of the phase, in seconds.
    missing : mapping of int to Failure
        AllReduce: members that turned out to be down, in ascending order, each with the failure
        that stopped it. Save: the writer, if it was down and nothing was written. Load: members
        that are down, and have not loaded.
    failures : sequence of (int, Failure)
        Restart: the groups that failed unnoticed before it or during it, each with its failure, in
        the order of time. Failures of groups that were down are left out.
    phases : tuple of (str, float)
        Reconfigure, Rejoin, Restart: name and seconds of the recovery's phases with known times.
    steps : int
        QuietSteps: the number of steps executed.
    all_reduce_s : float
        QuietSteps: the seconds of all their all-reduces.
    ends_s : ndarray of float
        QuietSteps: the ends of the steps in `Snapshots`, in seconds of simulated time.
    disturbed_s : float
        Compute, AllReduce: by how many seconds writes at the same time prolonged it.
    """

    now_s: float
    missing: Mapping[int, Failure] = NONE_MISSING
    failures: Sequence[tuple[int, Failure]] = ()
    phases: tuple[tuple[str, float], ...] = ()
    steps: int = 0
    all_reduce_s: float = 0.0
    ends_s: NDArray[np.float64] = NO_TIMES_S
    disturbed_s: float = 0.0
