"""Machines of a job: which places are vacant, and which machines fill them.

The job has a place per machine. The machine in it works, or the place is vacant and its failed
machine is under repair. A vacant place is filled by a standby, a free machine or its own machine,
whichever is ready first. The failed machine takes the role of the one that has replaced it, so that
the number of machines never changes (`Machines.count`). If free machines are not counted, those of
a shared cluster take the places, and the cluster gets the failed ones.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heapreplace
from math import inf
from typing import NamedTuple

from faultline.simulator.failures.clocks import FailureClocks
from faultline.simulator.failures.failure import Failure
from faultline.simulator.hardware.reserve import Reserve, exponential_lives_s, is_over
from faultline.simulator.job.phases import Outcome, Phase, Stall
from faultline.simulator.loop.state import TrainingState
from faultline.strategies.interface.recovery import Recovery


class MachineCount(NamedTuple):
    """Machines by where they are; those of a reserve that are under repair count there."""

    in_job: int
    standing_by: int
    free: int
    under_repair: int


class Machines:
    """Moves machines between the job, the reserves and repair.

    A failure's own repair time, if it states one, holds for its machine, whatever that machine is
    used for next.

    Attributes
    ----------
    clocks : FailureClocks
        The failures of all groups; a loop states them when it begins.
    identifies_failures : bool
        Whether the failures have to be known before the scheme decides about a step.
    is_counted : bool
        Whether replacement machines are counted, and so may run out.
    """

    clocks: FailureClocks

    def __init__(self, state: TrainingState) -> None:
        hardware, rules = state.hardware, state.rules
        self._state, self._hardware = state, hardware
        lives_s = exponential_lives_s(hardware.standby_life_s, state.seed)
        self._standbys = Reserve(hardware.standbys, hardware.standby_repair_s, lives_s)
        free = hardware.free_machines
        self._free = None if free is None else Reserve(free, hardware.repair_s)
        # For each vacant place, when its failed machine is repaired.
        self._vacant: dict[int, float] = {}
        # For each dropped group, from when on it returns if its places are filled.
        self._dropped: dict[int, float] = {}
        self._spare_groups_ready_s = [0.0] * hardware.spare_groups
        # Places that the last failures have vacated, and when these were noticed.
        self._newly_vacant: list[int] = []
        self._noticed_s = 0.0
        # Failures counted before any step has shown them: in a wait for machines, or in a restart.
        self._counted_ahead: set[Failure] = set()
        # Failures that the last step has shown.
        self._noticed: set[Failure] = set()
        # Whether machines of the failures noticed last were replaced in a wait.
        self._were_waited_for = False
        self._starts_in_place = rules.transient == "in-place"
        self._processes_failed = False
        self.is_counted = hardware.standbys > 0 or free is not None
        self._tracks_components = state.hits.tracks_components
        self.identifies_failures = (
            self._tracks_components or state.readmits or self._starts_in_place or self.is_counted
        )
        self._sends_standbys = hardware.standbys > 0 and (self._tracks_components or state.readmits)

    def count(self, now_s: float) -> MachineCount:
        """Return how many machines are where, for jobs whose free machines are counted."""
        places = self._hardware.layout.components("host")
        standing_by = self._standbys.ready(now_s)
        free, of_free = (0, 0) if self._free is None else (self._free.ready(now_s), len(self._free))
        in_repair = len(self._standbys) + of_free - standing_by - free + len(self._vacant)
        return MachineCount(places - len(self._vacant), standing_by, free, in_repair)

    def repair_s(self, failure: Failure) -> float:
        """Return the seconds to repair a machine that a failure has stopped."""
        return self._hardware.repair_s if failure.repair_s is None else failure.repair_s

    def lose(self, struck: Iterable[Failure], *, at_once: bool = False) -> dict[Failure, list[int]]:
        """Vacate the places of the machines that failures stop; return the places by failure.

        A repair begins now, or when the failure happened if it was noticed `at_once` or if the
        scheme tracks components. A failure in a vacant place stops no further machine.
        """
        lost: dict[Failure, list[int]] = {}
        self._noticed_s = self._state.progress.now_s
        noticed = {*struck}
        if not at_once:
            self._were_waited_for = not noticed.isdisjoint(self._counted_ahead)
        for failure in sorted(noticed - self._counted_ahead, key=_in_time):
            if not self._state.rules.stops_machine(failure):
                continue
            from_s = failure.time_s if at_once or self._tracks_components else self._noticed_s
            lost[failure] = [at for at in self._places_of(failure) if at not in self._vacant]
            if failure.level == "group":
                # One of the group's machines has failed, and nothing tells which.
                del lost[failure][1:]
            self._vacant |= dict.fromkeys(lost[failure], from_s + self.repair_s(failure))
        if at_once:
            self._counted_ahead.update(lost)
        return lost

    def _places_of(self, failure: Failure) -> range:
        return self._hardware.layout.hosts_of(failure)

    def count_lost(self, missing: Mapping[int, Failure]) -> set[int]:
        """Take the failure of each missing group; return the groups that are complete at once.

        Standbys replace all machines of a failure, or none. The machines of failures in a wait for
        machines were replaced in that wait.
        """
        hardware, now_s = self._hardware, self._state.progress.now_s
        lost, replaced = self.lose(missing.values()), set[Failure]()
        self._noticed = {*missing.values()}
        self._newly_vacant = []
        for failure in dict.fromkeys(missing.values()):
            places = lost.get(failure, [])
            if failure in self._counted_ahead:
                replaced.add(failure)
            elif self._sends_standbys and places and self._standbys.ready(now_s) >= len(places):
                self._fill_from(self._standbys, places, now_s, hardware.replenish_s)
                replaced.add(failure)
            else:
                self._newly_vacant += places
        self._state.progress.standby_failures = self._standbys.failures
        return {group for group, failure in missing.items() if failure in replaced}

    @property
    def has_vacant_places(self) -> bool:
        """Whether a machine of the job is under repair and not replaced yet."""
        return bool(self._vacant)

    def return_repaired(self, now_s: float) -> None:
        """Put machines that are repaired at `now_s`, in seconds, back in their own places."""
        for place in [at for at, end_s in self._vacant.items() if is_over(end_s, now_s)]:
            del self._vacant[place]

    def _fill_from(
        self, reserve: Reserve, places: Sequence[int], now_s: float, again_s: float | None = None
    ) -> None:
        """Fill places from a reserve, as far as it is ready.

        It gets the failed machines once they are repaired, or other ones after `again_s`.
        """
        repaired_s = [self._vacant[at] if again_s is None else now_s + again_s for at in places]
        for place in places[: reserve.exchange(repaired_s, now_s)]:
            del self._vacant[place]

    # ---- Groups that leave the job and return ----------------------------------------------------

    def drop(self, dropped: Iterable[int], replaced: Collection[int], diagnosed_s: float) -> None:
        """Let groups wait for their machines; repairs begin at `diagnosed_s`, in seconds.

        Standbys have taken the places of the groups `replaced`.
        """
        hardware = self._hardware
        # The recovery may have filled places.
        for place in self._vacant.keys() & self._newly_vacant:
            self._vacant[place] += diagnosed_s - self._noticed_s
        self._newly_vacant = []
        for group in dropped:
            standby_s = hardware.standby_s if group in replaced else 0.0
            self._dropped[group] = diagnosed_s + standby_s
            self._replace(group, diagnosed_s)

    def _vacant_places(self, group: int) -> list[int]:
        """Return the vacant places of a group; failures of others may have vacated some later."""
        return [at for at in self._hardware.layout.hosts_of_group(group) if at in self._vacant]

    def _reserves(self) -> Iterator[tuple[Reserve, float, float | None]]:
        """Yield the reserves for dropped groups, each with the seconds until its machines run.

        The last value is when used machines are replaced, if not by the failed ones.
        """
        hardware = self._hardware
        if self._sends_standbys:
            yield self._standbys, hardware.standby_s, hardware.replenish_s
        if self._free is not None:
            yield self._free, hardware.replacement_s, None

    def _replace(self, group: int, now_s: float) -> None:
        """Fill the vacant places of a dropped group, unless its own machines are ready sooner."""
        places = self._vacant_places(group)
        if not places:
            return
        for reserve, starts_s, again_s in self._reserves():
            is_sooner = not is_over(self._complete_s(group), now_s + starts_s)
            if is_sooner and reserve.ready(now_s) >= len(places):
                self._fill_from(reserve, places, now_s, again_s)
                self._dropped[group] = now_s + starts_s
                return
        if self._free is None:
            other_s = now_s + self._hardware.replacement_s
            for place in places:
                self._vacant[place] = min(self._vacant[place], other_s)

    def _complete_s(self, group: int) -> float:
        """Return when a dropped group is complete if nothing else fills its places, in seconds."""
        repaired_s = (self._vacant[at] for at in self._vacant_places(group))
        return max(self._dropped[group], max(repaired_s, default=-inf))

    @property
    def next_return_s(self) -> float:
        """When a dropped group may return, in seconds; infinite if none is dropped."""
        times_s = [inf]
        for group in self._dropped:
            complete_s, vacant = self._complete_s(group), len(self._vacant_places(group))
            times_s.append(complete_s)
            for reserve, starts_s, _ in self._reserves():
                ready_s = reserve.next_ready_s(vacant)
                if ready_s + starts_s < complete_s:
                    times_s.append(ready_s)
        if self._dropped and self._spare_groups_ready_s:
            times_s.append(self._spare_groups_ready_s[0])
        return min(times_s)

    def take_back(self) -> tuple[int, ...]:
        """Put complete groups, or spare groups, into the places of dropped ones; return these."""
        now_s, spares_s, back = self._state.progress.now_s, self._spare_groups_ready_s, []
        self.return_repaired(now_s)
        for group in sorted(self._dropped):
            self._replace(group, now_s)
            complete_s = self._complete_s(group)
            if not is_over(complete_s, now_s):
                if not (spares_s and is_over(spares_s[0], now_s)):
                    continue
                # Once repaired, the dropped group is a spare one.
                heapreplace(spares_s, complete_s)
            for place in self._vacant_places(group):
                del self._vacant[place]
            del self._dropped[group]
            back.append(group)
        return tuple(back)

    # ---- Restarts, and waits for machines --------------------------------------------------------

    def step_is_lost(self) -> None:
        """Note that a step is lost: if no machine has failed, only processes have."""
        stops = self._state.rules.stops_machine
        if self._starts_in_place:
            self._processes_failed = not self._vacant
        else:
            self._processes_failed = bool(self._noticed) and not any(map(stops, self._noticed))

    def needed_to_restart(self, needed: Recovery) -> Recovery:
        """Return the recovery of a restart.

        If only processes have failed, the rules decide about the machines, whatever the scheme. In
        place, the same machines are tried once per saved state.
        """
        failed, self._processes_failed = self._processes_failed, False
        if not failed or (self._starts_in_place and self._state.restarts_since_save > 1):
            return needed
        return replace(needed, replaces_hardware=not self._starts_in_place)

    def restarted(self, begun_s: float) -> None:
        """Note that all groups have restarted; failures up to `begun_s` are dealt with."""
        self._dropped.clear()
        self._counted_ahead = {one for one in self._counted_ahead if one.time_s > begun_s}
        if not self.is_counted:
            self._spare_groups_ready_s = [0.0] * len(self._spare_groups_ready_s)
        heapify(self._spare_groups_ready_s)

    def fill_places(
        self, needed: Recovery, cause: str, up: Sequence[int]
    ) -> Generator[Phase, Outcome, Recovery]:
        """Fill all vacant places; wait for repairs if there is no machine for them.

        Machines of the groups `up` that fail during the wait are replaced too. Returns the
        recovery that is still needed; the wait is booked under `cause`.
        """
        state, begun_s = self._state, self._state.progress.now_s
        self.return_repaired(begun_s)
        was_waited_for = self._were_waited_for and not self._vacant
        self._fill_from(self._standbys, [*self._vacant], begun_s, self._hardware.replenish_s)
        state.progress.standby_failures = self._standbys.failures
        self._were_waited_for = False
        if not (self._vacant or was_waited_for):
            return needed
        needed, free = needed.without_standbys(), self._free
        if free is None:
            self._vacant.clear()
        else:
            self._fill_from(free, [*self._vacant], begun_s)
        failures = 0
        while free is not None and self._vacant and state.goes_on():
            if failures >= state.work.give_up_after_restarts:
                # Machines fail faster than they are repaired.
                state.restarts_since_save = state.work.give_up_after_restarts
                break
            was_waited_for, now_s = True, state.progress.now_s
            own_s = min(self._vacant.values())
            ready_s = min(own_s, self._standbys.next_ready_s(), free.next_ready_s())
            if ready_s > now_s:
                state.spend(cause, (yield Stall((), ready_s - now_s)))
                failures += self.lose_unnoticed(up, now_s)
            ready_s = max(ready_s, now_s)
            self.return_repaired(ready_s)
            self._fill_from(self._standbys, [*self._vacant], ready_s, self._hardware.replenish_s)
            self._fill_from(free, [*self._vacant], ready_s)
        if was_waited_for:
            needed = replace(needed, replaces_hardware=False, lacks_standbys=False)
        return needed

    def lose_unnoticed(self, groups: Iterable[int], since_s: float = -inf) -> int:
        """Take the failures of groups that no step has shown, after a time in seconds.

        Returns their number, with those of machines that are under repair already.
        """
        now_s = self._state.progress.now_s
        unnoticed = {*self.clocks.between(groups, since_s, now_s)} - self._noticed
        self.lose(unnoticed, at_once=True)
        return len(unnoticed)


def _in_time(failure: Failure) -> tuple[float, int]:
    """Return the sort key by which standbys replace the machines that failed first."""
    return failure.time_s, failure.number
