"""The optimizer's state where groups share it: who lacks a share, and whether nobody has one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import inf

from faultline.simulator.failures.failure import Failure
from faultline.strategies.job_shape import OptimizerBackup, loses_a_share


class SharedOptimizer:
    """Follows the shares of a job.

    Parameters
    ----------
    backup : {"neighbour", "none"} or None
        Who else has a group's share; None where each has all of the state, and nothing is followed.
    groups : int
        Data-parallel groups of the job.
    """

    def __init__(self, backup: OptimizerBackup | None, groups: int) -> None:
        self._backup = backup
        self.is_shared = backup is not None
        self._members: Sequence[int] = range(groups)
        self._lacking: set[int] = set()  # Groups whose share has not been made good.
        self._mended_s = -inf
        self._last_loss: tuple[Sequence[int], Sequence[int]] = ((), ())
        self._is_lost = False

    @property
    def asks_when(self) -> bool:
        """Whether it matters when a group that is missing now was lost."""
        return self._mended_s > -inf

    @property
    def is_whole(self) -> bool:
        """Whether somebody has each share."""
        lacking = sorted(self._lacking.intersection(self._members))
        return not (self._is_lost or loses_a_share(self._members, lacking, self._backup))

    def lose(
        self, members: Sequence[int], missing: Sequence[int], failures: Iterable[Failure]
    ) -> bool:
        """Return whether nobody has a share any more, now that some groups are missing.

        Parameters
        ----------
        members : sequence of int
            Groups among whom the state was shared, in ascending order.
        missing : sequence of int
            Those of them that are lost.
        failures : iterable of Failure
            What took them.
        """
        if not self.is_shared:
            return False
        (before, gone), self._last_loss = self._last_loss, (members, missing)
        # Lost before the last recovery had made good what those had who were lost before them. One
        # failure of many groups is told for each of them.
        early = {one.groups for one in failures if one.time_s <= self._mended_s}
        unmended = [group for group in missing if any(group in groups for groups in early)]
        lost = loses_a_share(members, missing, self._backup)
        if unmended:
            lost |= loses_a_share(before, (*gone, *unmended), self._backup)
        self._is_lost |= lost
        return lost

    def strike(self, groups: Iterable[int]) -> None:
        """Groups have lost what they had, noticed or not."""
        if self.is_shared:
            self._lacking.update(groups)

    def deal(self, members: Sequence[int], mended: Collection[int]) -> None:
        """The job goes on short of a restart: shares are dealt anew.

        Parameters
        ----------
        members : sequence of int
            Groups among whom the state is shared from now on, in ascending order.
        mended : collection of int
            Groups whose loss has been made good, or that have left.
        """
        if self.is_shared:
            self._members = members
            self._lacking.difference_update(mended)

    def recovered(self, now_s: float) -> None:
        """What was missing has been made good by this time, in seconds."""
        if self.is_shared:
            self._mended_s = now_s

    def load(self, members: Sequence[int]) -> None:
        """All is loaded anew into some groups, in ascending order."""
        self._lacking.clear()
        self._is_lost = False
        self._members = members
