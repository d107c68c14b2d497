"""State that is sharded over groups, such as the optimizer's: missing shares, and lost ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from math import inf

from faultline.simulator.failures.failure import Failure
from faultline.strategies.interface.job_shape import OptimizerBackup, loses_a_share


class SharedOptimizer:
    """Tracks the shares of the optimizer's state, or of all state, that groups hold.

    `backup` names the group that holds a copy of a group's share. If it is None, each group has the
    whole state. If `domain_groups` is given, each set of so many neighbours has all shares.
    """

    def __init__(
        self, backup: OptimizerBackup | None, groups: int, domain_groups: int | None = None
    ) -> None:
        self._loses = partial(loses_a_share, backup=backup, domain_groups=domain_groups)
        self.is_shared = backup is not None
        self._members: Sequence[int] = range(groups)
        self._lacking: set[int] = set()  # Groups whose share has not been restored.
        self._restored_s = -inf
        self._last_loss: tuple[Sequence[int], Sequence[int]] = ((), ())
        self._is_lost = False

    @property
    def is_whole(self) -> bool:
        """Whether some group holds each share."""
        lacking = sorted(self._lacking.intersection(self._members))
        return not (self._is_lost or self._loses(self._members, lacking))

    def lose(self, members: Sequence[int], missing: Mapping[int, Failure]) -> bool:
        """Return whether a share is permanently lost, now that some groups are missing.

        The groups `members`, in ascending order, held the shares.
        """
        if not self.is_shared:
            return False
        groups, restored_s = tuple(missing), self._restored_s
        (members_then, missing_then), self._last_loss = self._last_loss, (members, groups)
        # These groups were lost before the last recovery had restored the shares lost earlier.
        too_early = [group for group, failure in missing.items() if failure.time_s <= restored_s]
        lost = self._loses(members, groups)
        if too_early:
            lost |= self._loses(members_then, (*missing_then, *too_early))
        self._is_lost |= lost
        return lost

    def strike(self, groups: Iterable[int]) -> None:
        """Note that groups have lost their shares, even if nothing has noticed it yet."""
        if self.is_shared:
            self._lacking.update(groups)

    def deal(self, members: Sequence[int], restored: Collection[int]) -> None:
        """Distribute the shares again, because the job goes on without a restart.

        The groups `members`, in ascending order, hold the shares from now on. The groups `restored`
        have their shares again, or have left the job.
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
