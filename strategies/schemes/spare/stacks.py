"""The stacks of a SPARe job and the matching that keeps every shard type covered.

Vocabulary (Lee et al. 2026 (SPARe)): there are N groups and N shard types. Each group hosts r types
in an ordered *stack*. In a step each surviving group computes the first S types of its stack. A
type is *covered* if it is among the first S of a survivor.

An *entry* is one (group, mark) pair, that is one copy of a type: entry ``e = group * r + mark``
holds the type ``(group + offset[mark]) mod N``. Entries never change; their slots do.

After failures RECTLR solves three problems. All three use one assignment of types to survivors that
is kept from step to step:

phase 0 (HK-Fixed)
    Is each type still among the first S of some survivor? Only types that were assigned to a failed
    group can be uncovered, so only those are examined.
phase 1 (HK-Free)
    The smallest S* >= S at which each type fits on a survivor that hosts it, with at most S* types
    per group. Covered types fit in their own slots. Feasibility thus depends only on augmenting
    paths from the few uncovered types.
phase 2 (min-cost max-flow)
    Among the matchings at S*, one that moves fewest types. Covered types in their own slots are a
    matching of cost 0. Adding the uncovered types one by one along *shortest* augmenting paths
    keeps the cost minimal (successive shortest paths, Ahuja, Magnanti & Orlin 1993, section 9.7).
    If there is no path, S* is too small; phases 1 and 2 are therefore one search.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from faultline.strategies.schemes.spare.golomb import ruler_for

_UNREACHED = 1 << 30


class Reordering(NamedTuple):
    """The result of RECTLR after a set of failures."""

    stacks: int  # All-reduce stack S from now on.
    grew_by: int  # Growth of S; 0 if unchanged.
    # For each group whose order changed: number of types placed in slots that it computed before.
    # In addition, each group has to compute the slots by which S grew.
    placed: dict[int, int]
    moved_types: int  # Number of types that changed their slot (the cost that phase 2 minimises).

    @property
    def fixed(self) -> bool:
        """Whether phase 0 was enough: nothing moved and S is unchanged."""
        return not self.placed and self.grew_by == 0


class StackedShards:
    """Stacks of r types on each of N groups, which keep all N shard types covered.

    Raises
    ------
    StrategyError
        If there is no ruler for (N, r).
    """

    def __init__(self, groups: int, redundancy: int) -> None:
        self.groups = groups
        self.redundancy = redundancy
        offsets = ruler_for(groups, redundancy)
        # An int object has 32 bytes, so all lists share the same objects.
        self._entries = entries = list(range(groups * redundancy))
        self._type_of = [
            entries[(u + offset) % groups] for u in range(groups) for offset in offsets
        ]
        self._entries_of_type = [
            [
                entries[((i - offset) % groups) * redundancy + mark]
                for mark, offset in enumerate(offsets)
            ]
            for i in range(groups)
        ]
        self._group_of = [u for u in range(groups) for _ in range(redundancy)]
        self.reset()

    def reset(self) -> None:
        """Restore all groups, with the stacks in their first order and S = 1."""
        groups, redundancy = self.groups, self.redundancy
        self.stacks = 1
        self.survivors = groups
        self._alive = [True] * groups
        self._slot_of = list(range(redundancy)) * groups
        self._entry_at = self._entries.copy()
        # The first slot of a group has the type of its own number: offset 0.
        self._assigned = [self._entries_of_type[i][0] for i in range(groups)]
        self._served: list[list[int]] = [[i] for i in range(groups)]
        # The remaining entries of each type.
        self._left_of_type = [entries.copy() for entries in self._entries_of_type]
        # Distance of each group in a search; between searches none is reached.
        self._distance = [_UNREACHED] * groups

    def alive(self, group: int) -> bool:
        """Return whether `group` has survived since the last reset."""
        return self._alive[group]

    def stack(self, group: int) -> list[int]:
        """Return the types of a group in the order of its stack."""
        first = group * self.redundancy
        return [self._type_of[e] for e in self._entry_at[first : first + self.redundancy]]

    def assignment(self) -> list[int]:
        """Return the group assigned to each type; an all-reduce counts its gradient once."""
        return [self._group_of[entry] for entry in self._assigned]

    def fail(self, failed: Iterable[int]) -> Reordering | None:
        """Remove groups and reorder the survivors' stacks so that each type is covered.

        The groups were alive until now. Returns None for a wipe-out: some type has lost all its
        hosts. The stacks are then invalid until `reset`.
        """
        orphans: list[int] = []
        left_of_type, type_of, redundancy = self._left_of_type, self._type_of, self.redundancy
        for group in failed:
            if self._alive[group]:
                first = group * redundancy
                for entry in self._entries[first : first + redundancy]:
                    left_of_type[type_of[entry]].remove(entry)
            self._alive[group] = False
            self.survivors -= 1
            orphans += self._served[group]
            self._served[group] = []
        uncovered = self._cover_in_place(orphans, self.stacks)
        if not uncovered:
            return Reordering(self.stacks, 0, {}, 0)
        if not all(map(left_of_type.__getitem__, uncovered)):
            return None
        before = self.stacks
        moved = self._place(uncovered)
        placed = self._swap_into_slots(moved, before)
        return Reordering(self.stacks, self.stacks - before, placed, len(moved))

    def _cover_in_place(self, types: list[int], stacks: int) -> list[int]:
        """Assign types to survivors with them in the first `stacks` slots; return the others."""
        slot_of, uncovered = self._slot_of, []
        for shard_type in types:
            for entry in self._left_of_type[shard_type]:
                if slot_of[entry] < stacks:
                    self._assigned[shard_type] = entry
                    self._served[self._group_of[entry]].append(shard_type)
                    break
            else:
                uncovered.append(shard_type)
        return uncovered

    def _place(self, uncovered: list[int]) -> set[int]:
        """Run phases 1 and 2: raise S as needed, then place `uncovered` with fewest moves."""
        stacks = self.stacks
        while True:
            if self.groups <= stacks * self.survivors:
                search = _FewestMoves(self, stacks, uncovered)
                if all(search.add(shard_type) for shard_type in uncovered):
                    self.stacks = stacks
                    return search.moved
                search.undo()
            stacks += 1
            uncovered = self._cover_in_place(uncovered, stacks)

    def _swap_into_slots(self, moved: set[int], computed: int) -> dict[int, int]:
        """Give each moved type a free slot among the first S of its group.

        Returns, for each group with moved types, how many are among its first `computed` slots.

        The type that occupied the slot takes the moved type's old one, so that a stack remains a
        permutation. Slots are filled from the back: the later a stack changes, the less of it has
        to be recomputed.
        """
        placed: dict[int, int] = {}
        slot_of, entry_at, type_of = self._slot_of, self._entry_at, self._type_of
        for shard_type in sorted(moved):
            entry = self._assigned[shard_type]
            group = self._group_of[entry]
            first = group * self.redundancy
            slot = self.stacks - 1
            while self._assigned[type_of[entry_at[first + slot]]] == entry_at[first + slot]:
                slot -= 1
            evicted, old_slot = entry_at[first + slot], slot_of[entry]
            entry_at[first + slot], entry_at[first + old_slot] = entry, evicted
            slot_of[entry], slot_of[evicted] = slot, old_slot
            placed[group] = placed.get(group, 0) + (slot < computed)
        return placed


class _FewestMoves:
    """Successive shortest augmenting paths over (types, survivors with S* slots each).

    A type costs 0 on a group that has it among its first S* slots, else 1. An uncovered type has no
    such slot and costs 1 on each host. This constant is omitted here, so that each step between two
    hosts of an uncovered type is free. The remaining cost is the number of covered types that leave
    their slots. Adding a type cannot lower it: removing that type from the larger matching leaves a
    matching of the smaller set at no more cost. A path of cost 0 is therefore a shortest one, and
    the search stops at the first it finds.
    """

    def __init__(self, shards: StackedShards, stacks: int, uncovered: Iterable[int]) -> None:
        self._shards = shards
        self._stacks = stacks
        self._free_to_move = frozenset(uncovered)
        self._undo: dict[int, int] = {}
        self._displaced: set[int] = set()
        self._placed: list[int] = []

    @property
    def moved(self) -> set[int]:
        """Types that ended in another slot than before."""
        return self._displaced | set(self._placed)

    def add(self, shard_type: int) -> bool:
        """Match one more uncovered type; return False if there is no augmenting path."""
        end, arrived_by = self._shortest_path(shard_type)
        if end is None:
            return False
        self._shift_along(end, arrived_by)
        self._placed.append(shard_type)
        return True

    def undo(self) -> None:
        """Revert all changes to the assignment."""
        shards = self._shards
        for shard_type in self._placed:
            shards._served[shards._group_of[shards._assigned[shard_type]]].remove(shard_type)
        for shard_type, entry in self._undo.items():
            shards._served[shards._group_of[shards._assigned[shard_type]]].remove(shard_type)
            shards._assigned[shard_type] = entry
            shards._served[shards._group_of[entry]].append(shard_type)

    def _shortest_path(self, source: int) -> tuple[int | None, dict[int, int]]:
        """Return the nearest group with a free slot, and ``arrived_by``.

        ``arrived_by[group]`` is the entry by which the path enters the group. The search is
        label-correcting.
        """
        shards = self._shards
        group_of, distance = shards._group_of, shards._distance
        arrived_by = {group_of[entry]: entry for entry in shards._left_of_type[source]}
        for group in arrived_by:
            if len(shards._served[group]) < self._stacks:
                return group, arrived_by
        for group in arrived_by:
            distance[group] = 0
        end = self._search(arrived_by)
        for group in arrived_by:
            distance[group] = _UNREACHED
        return end, arrived_by

    def _search(self, arrived_by: dict[int, int]) -> int | None:
        """Search from the hosts of the source; return the nearest group with a free slot."""
        shards, stacks = self._shards, self._stacks
        group_of, slot_of, distance = shards._group_of, shards._slot_of, shards._distance
        served, left_of_type = shards._served, shards._left_of_type
        free_to_move, displaced = self._free_to_move, self._displaced
        best, best_distance, queue = None, _UNREACHED, deque(arrived_by)
        visit_next, visit_last = queue.appendleft, queue.append
        # Only leaving a displaced type lowers the cost, and a path leaves each at most once.
        gains = len(displaced)
        while queue:
            group = queue.popleft()
            cost = distance[group]
            if cost - gains >= best_distance:
                continue
            for shard_type in served[group]:
                fixed_cost = shard_type not in free_to_move
                leaving = cost - 1 if shard_type in displaced else cost
                for entry in left_of_type[shard_type]:
                    neighbour = group_of[entry]
                    known = distance[neighbour]
                    # Most neighbours were reached before at no more cost.
                    if known <= leaving or neighbour == group:
                        continue
                    reached = leaving + 1 if fixed_cost and slot_of[entry] >= stacks else leaving
                    if reached >= known:
                        continue
                    distance[neighbour] = reached
                    arrived_by[neighbour] = entry
                    if len(served[neighbour]) >= stacks:
                        (visit_last if reached > cost else visit_next)(neighbour)
                    elif reached < best_distance:
                        if reached == 0:
                            return neighbour
                        best, best_distance = neighbour, reached
        return best

    def _shift_along(self, end: int, arrived_by: dict[int, int]) -> None:
        """Move each type on the path one group further, from the free slot back to the source."""
        shards = self._shards
        group = end
        while True:
            entry = arrived_by[group]
            shard_type = shards._type_of[entry]
            is_source = shard_type in self._free_to_move and shard_type not in self._placed
            previous = None if is_source else shards._group_of[shards._assigned[shard_type]]
            if previous is not None:
                shards._served[previous].remove(shard_type)
                if shard_type not in self._free_to_move:
                    self._undo.setdefault(shard_type, shards._assigned[shard_type])
                    if shards._slot_of[entry] >= self._stacks:
                        self._displaced.add(shard_type)
                    else:
                        self._displaced.discard(shard_type)
            shards._assigned[shard_type] = entry
            shards._served[group].append(shard_type)
            if previous is None:
                return
            group = previous
