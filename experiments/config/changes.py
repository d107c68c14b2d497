"""Changes of a scenario's tables by dotted keys, and what keys of version 1 are called since."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from copy import deepcopy
from typing import Any, NamedTuple

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.keys import path_of, quote, value_at
from faultline.experiments.config.tables.phases import SNAPSHOT_TIMES

_OF_SNAPSHOTS = {f"protection.{name}": f"times.snapshot_{name}" for name in SNAPSHOT_TIMES}
RENAMED: Mapping[str, str] = {
    "job.compute_s": "times.compute_s",
    "all_reduce.time_s": "times.all_reduce_s",
    "all_reduce.time_per_group_s": "times.all_reduce_per_group_s",
    "checkpoint.write_s": "times.checkpoint_write_s",
    "restart.duration_s": "times.restart_s",
    "restart.controller_s": "times.shrink_s",
    "restart.shrink_per_member_s": "times.shrink_per_member_s",
    "restart.load_by": "restart.readers",
    "rejoin.time_s": "times.rejoin_s",
    **_OF_SNAPSHOTS,
}
"""Keys of version 1, and their names since."""


class Mode(NamedTuple):
    """A key of version 1 that said whether others counted."""

    counting: str  # With this value they did.
    idle: str  # With this one they did not.
    # Those, and what they were where left out. None: to give one of them chose that they count.
    keys: Mapping[str, object]


_ALL_REDUCE = ("times.all_reduce_s", "times.all_reduce_per_group_s")
_SNAPSHOT_S = (1.0, 0.0, 1.0, 0.0, 1.0, 10.0, 10.0)
MODES: Mapping[str, Mode] = {
    "all_reduce.time": Mode("stated", "measured", dict.fromkeys(_ALL_REDUCE)),
    "checkpoint.write": Mode("stated", "measured", {"times.checkpoint_write_s": None}),
    "restart.time": Mode("stated", "modelled", {"times.restart_s": None}),
    "restart.load": Mode("measured", "included", {"restart.readers": "one-group"}),
    "protection.times": Mode(
        "stated", "measured", dict(zip(_OF_SNAPSHOTS.values(), _SNAPSHOT_S, strict=True))
    ),
}
"""Keys of version 1 that are gone: a time that is stated counts."""


def set_keys(
    tables: MutableMapping[str, Any], changes: Mapping[str, object], where: str = ""
) -> dict[str, object]:
    """Set values in nested tables by dotted keys, and return them by the names they have now.

    None leaves a key out, and keys of version 1 stand for those of today. Messages begin with
    `where`.

    Raises UserError if the way to a key leads through a value, or a key is there by its old and its
    new name.
    """
    try:
        found = _translated(changes, tables)
        for dotted, value in found.items():
            _set_key(tables, dotted, deepcopy(value))
    except UserError as error:
        raise UserError(f"{where}{error}") from error
    return found


def upgrade(tables: MutableMapping[str, Any]) -> dict[str, str]:
    """Give the keys of version 1 in the tables of a file their names of today.

    Returns what the file calls a key, by the name it has now.
    """
    given = {key: value_at(tables, path_of(key)) for key in (*RENAMED, *MODES)}
    old = {key: value for key, value in given.items() if value is not None}
    own = {RENAMED[key]: value_at(tables, path_of(RENAMED[key])) for key in old if key in RENAMED}
    for dotted in old:
        _set_key(tables, dotted, None)
    set_keys(tables, {key: value for key, value in {**own, **old}.items() if value is not None})
    return {RENAMED[key]: key for key in old if key in RENAMED}


def _translated(changes: Mapping[str, object], tables: Mapping[str, Any]) -> dict[str, object]:
    """Return changes by the keys of today."""
    found: dict[str, object] = {}
    for key, value in changes.items():
        new = RENAMED.get(key, key)
        if new in found:
            raise UserError(f"{new}: is there by its name of version 1, too; keep one")
        found[new] = value
    for name, mode in MODES.items():
        chosen = found.pop(name, None)
        before = {key: value_at(tables, path_of(key)) for key in mode.keys}
        is_implied = None in mode.keys.values()
        if chosen is None and not is_implied and any(RENAMED.get(key) in before for key in changes):
            is_idle = all(value is None for value in before.values())
            chosen = mode.idle if is_idle else mode.counting
        if chosen == mode.idle:
            found |= dict.fromkeys(mode.keys)
        elif chosen == mode.counting:
            known = {key: found.get(key, value) for key, value in before.items()}
            if is_implied and all(value is None for value in known.values()):
                raise UserError(f'{name} = "{chosen}": needs {" or ".join(mode.keys)}')
            found |= {key: mode.keys[key] for key, value in known.items() if value is None}
        elif chosen is not None:
            keys = " or ".join(mode.keys)
            raise UserError(f"{name} = {quote(chosen)}: is gone; state {keys}, or leave it out")
    return found


def _set_key(tables: MutableMapping[str, Any], dotted: str, value: object) -> None:
    *above, last = dotted.split(".")
    inner = tables
    for part in above:
        inner = inner.setdefault(part, {})
        if not isinstance(inner, dict):
            raise UserError(f"{dotted}: {part} is a value, not a table")
    if value is None:
        inner.pop(last, None)
    else:
        inner[last] = value
