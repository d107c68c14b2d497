"""The optimizer's state if groups share it: which shares are missing, and which are lost."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import inf

from faultline.simulator.failures.failure import Failure
from faultline.strategies.job_shape import OptimizerBackup, loses_a_share


class SharedOptimizer:
    """Follows the shares of a job.

    `backup` names the group that holds a copy of a group's share. If it is None, each group has all
    of the state.
    """

    def __init__(self, backup: OptimizerBackup | None, groups: int) -> None:
        self._backup = backup
        self.is_shared = backup is not None
        self._members: Sequence[int] = range(groups)
        self._lacking: set[int] = set()  # Groups whose share has not been made good.
        self._restored_s = -inf
        self._last_loss: tuple[Sequence[int], Sequence[int]] = ((), ())
        self._is_lost = False

    @property
    def needs_failure_times(self) -> bool:
        """Whether the times at which missing groups were lost have an effect."""
        return self._restored_s > -inf

    @property
    def is_whole(self) -> bool:
        """Whether each share is held by a group."""
        lacking = sorted(self._lacking.intersection(self._members))
        return not (self._is_lost or loses_a_share(self._members, lacking, self._backup))

    def lose(
        self, members: Sequence[int], missing: Sequence[int], failures: Iterable[Failure]
    ) -> bool:
        """Return whether a share is permanently lost, now that some groups are missing.

        The groups `members`, in ascending order, shared the state; `missing` are the lost ones
        among them, by `failures`.
        """
        if not self.is_shared:
            return False
        (before, gone), self._last_loss = self._last_loss, (members, missing)
        # Lost before the last recovery had restored the shares of groups lost earlier. One failure
        # of several groups is reported for each of them.
        early = {one.groups for one in failures if one.time_s <= self._restored_s}
        unmended = [group for group in missing if any(group in groups for groups in early)]
        lost = loses_a_share(members, missing, self._backup)
        if unmended:
            lost |= loses_a_share(before, (*gone, *unmended), self._backup)
        self._is_lost |= lost
        return lost

    def strike(self, groups: Iterable[int]) -> None:
        """Note that groups have lost their shares, noticed or not."""
        if self.is_shared:
            self._lacking.update(groups)

    def deal(self, members: Sequence[int], restored: Collection[int]) -> None:
        """Distribute the shares again, as the job goes on without a restart.

        The groups `members`, in ascending order, share the state from now on. The shares of
        `restored` groups are restored, or these have left.
        """
        if self.is_shared:
            self._members = members
            self._lacking.difference_update(restored)

    def recovered(self, now_s: float) -> None:
        """Note that missing shares are restored by this time, in seconds."""
        if self.is_shared:
            self._restored_s = now_s

    def load(self, members: Sequence[int]) -> None:
        """Note that all state is loaded into some groups, in ascending order."""
        self._lacking.clear()
        self._is_lost = False
        self._members = members
