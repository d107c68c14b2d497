"""Members that take as long as others: how many groups work in each part of a platform, not which.

Members are alike if identical parts of the platform (scale-up domains below a leaf switch, leaf
switches of a pod, pods) have the same numbers of working groups. Then one set represents the
others: of identical parts the first ones have the most groups, and in a domain the first groups
work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from faultline.platforms.platform_data import GpuHost, Platform
from faultline.platforms.symmetry import Symmetry
from faultline.simulator.pattern.placed_step import PlacedStep

_Path = tuple[tuple[Any, object], ...]
"""Parts that contain a group, the largest first, then the group; each with its kind."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the platform with groups of the job, or a group."""

    group: int | None
    alike: tuple[tuple[_Part, ...], ...]  # Identical parts inside, in ascending order.

    def state(self, working: frozenset[int]) -> Any:
        """Return the states of the parts inside, of identical ones the fullest first."""
        if self.group is not None:
            return self.group in working
        return tuple(
            tuple(sorted((part.state(working) for part in alike), reverse=True))
            for alike in self.alike
        )

    def members(self, state: Any) -> Iterator[int]:
        """Yield the groups that work if this part is in a state."""
        if self.group is not None:
            yield from [self.group] * state
            return
        for alike, states in zip(self.alike, state, strict=True):
            for part, inside in zip(alike, states, strict=True):
                yield from part.members(inside)


class AlikeMembers:
    """Finds the members that represent all alike members of a step.

    Parameters
    ----------
    platform : Platform
        The platform.
    symmetry : Symmetry
        Its identical parts.
    step : PlacedStep
        The step of all groups.
    """

    def __init__(self, platform: Platform, symmetry: Symmetry, step: PlacedStep) -> None:
        size, gpus = len(step.names) // step.groups, {gpu.name: gpu for gpu in platform.gpus}
        hosts = [gpus[name] for name in step.names]
        paths = (
            _path(symmetry, group, hosts[group * size : (group + 1) * size])
            for group in range(step.groups)
        )
        self._whole, _ = _part(paths, 0)

    def first(self, members: Iterable[int]) -> tuple[int, ...]:
        """Return the groups that represent `members`, in ascending order."""
        return tuple(sorted(self._whole.members(self._whole.state(frozenset(members)))))


def _path(symmetry: Symmetry, group: int, gpus: Sequence[GpuHost]) -> _Path:
    """Return the smallest part that contains all GPUs of a group, and the larger ones."""
    parts = [symmetry.parts_of(gpu.name) for gpu in gpus]
    common = []
    for each in zip(*parts, strict=False):
        if len({part for part, _ in each}) > 1:
            break
        common.append(each[0])
    # A GPU of which the place is unknown is like no other. Identical parts may differ in speed.
    kinds = tuple(
        (gpu.speed_flop_per_s, *(kind for _, kind in own[len(common) :]), "" if own else gpu.name)
        for gpu, own in zip(gpus, parts, strict=True)
    )
    return (*common, (group, kinds))


def _part(paths: Iterable[_Path], depth: int) -> tuple[_Part, object]:
    """Return the part that all paths lead through, and its shape, equal for alike parts."""
    inside = defaultdict[object, list[_Path]](list)
    for path in paths:
        inside[path[depth][0]].append(path)
    alike = defaultdict[object, list[_Part]](list)
    for through in inside.values():
        key, kind = through[0][depth]
        is_group = len(through[0]) == depth + 1
        part, shape = (_Part(key, ()), None) if is_group else _part(through, depth + 1)
        alike[kind, shape].append(part)
    shape = tuple((key, len(parts)) for key, parts in alike.items())
    return _Part(None, tuple(map(tuple, alike.values()))), shape
