"""Changes of a scenario's tables by dotted keys, and what keys of version 1 are called since."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.keys import quote, value_at
from faultline.experiments.config.tables.times import SNAPSHOT_TIMES

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
    keys: Mapping[str, object]  # Those, and what they were where left out; None: nothing.
    is_implied: bool  # Whether to give one of them was enough.


MODES: Mapping[str, Mode] = {
    "all_reduce.time": Mode(
        "stated",
        "measured",
        {"times.all_reduce_s": None, "times.all_reduce_per_group_s": None},
        is_implied=True,
    ),
    "checkpoint.write": Mode(
        "stated", "measured", {"times.checkpoint_write_s": None}, is_implied=True
    ),
    "restart.time": Mode("stated", "modelled", {"times.restart_s": None}, is_implied=True),
    "restart.load": Mode(
        "measured", "included", {"restart.readers": "one-group"}, is_implied=False
    ),
    "protection.times": Mode(
        "stated",
        "measured",
        dict(zip(_OF_SNAPSHOTS.values(), (1.0, 0.0, 1.0, 0.0, 1.0, 10.0, 10.0), strict=True)),
        is_implied=False,
    ),
}
"""Keys of version 1 that are gone: a time that is stated counts."""


def set_keys(
    tables: MutableMapping[str, Any], changes: Mapping[str, object], where: str = ""
) -> dict[str, object]:
    """Set values in nested tables by dotted keys, and return them by the names they have now.

    None leaves a key out.

    Parameters
    ----------
    tables : mapping
        Changed in place.
    changes : mapping of str to value
        Keys of version 1 stand for those of today.
    where : str
        What messages begin with.

    Raises
    ------
    UserError
        If the way to a key leads through a value, or a key is there by its old and its new name.
    """
    try:
        found = _translated(changes, tables)
        for dotted, value in found.items():
            _set_key(tables, dotted.split("."), deepcopy(value), dotted)
    except UserError as error:
        raise UserError(f"{where}{error}") from error
    return found


def upgrade(tables: MutableMapping[str, Any]) -> dict[str, str]:
    """Give the keys of version 1 in the tables of a file their names of today.

    Returns
    -------
    dict of str to str
        What the file calls a key, by the name it has now.
    """
    values = {key: value_at(tables, tuple(key.split("."))) for key in (*RENAMED, *MODES)}
    old = {key: value for key, value in values.items() if value is not None}
    own = {
        RENAMED[key]: value_at(tables, tuple(RENAMED[key].split(".")))
        for key in {*old} & {*RENAMED}
    }
    for dotted in old:
        _set_key(tables, dotted.split("."), None, dotted)
    set_keys(tables, {key: value for key, value in {**own, **old}.items() if value is not None})
    return {RENAMED.get(key, key): key for key in old}


def _translated(changes: Mapping[str, object], tables: Mapping[str, Any]) -> dict[str, object]:
    """Return changes by the keys of today."""
    found: dict[str, object] = {}
    for key, value in changes.items():
        new = RENAMED.get(key, key)
        if new in found:
            old = next(one for one in RENAMED if RENAMED[one] == new)
            raise UserError(f"{old} is {new} since version 2: both are given; keep {new}")
        found[new] = value
    for name, mode in MODES.items():
        chosen = found.pop(name, None)
        known = {key: found.get(key, value_at(tables, tuple(key.split(".")))) for key in mode.keys}
        if chosen is None:
            if mode.is_implied or not any(RENAMED.get(key) in mode.keys for key in changes):
                continue
            before = (value_at(tables, tuple(key.split("."))) for key in mode.keys)
            chosen = mode.idle if all(value is None for value in before) else mode.counting
        if chosen == mode.idle:
            found |= dict.fromkeys(mode.keys)
            continue
        keys = " or ".join(mode.keys)
        if chosen != mode.counting:
            raise UserError(f"{name} = {quote(chosen)}: is gone; state {keys}, or leave it open")
        found |= {
            key: value
            for key, value in mode.keys.items()
            if known[key] is None and value is not None
        }
        if all(found.get(key, known[key]) is None for key in mode.keys):
            raise UserError(f'{name} = "{mode.counting}": needs {keys}')
    return found


def _set_key(
    tables: MutableMapping[str, Any], keys: Sequence[str], value: object, origin: str
) -> None:
    inner = tables
    for part in keys[:-1]:
        inner = inner.setdefault(part, {})
        if not isinstance(inner, dict):
            raise UserError(f"{origin}: {part} is a value, not a table")
    if value is None:
        inner.pop(keys[-1], None)
    else:
        inner[keys[-1]] = value
