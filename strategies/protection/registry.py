"""Finds the protections of this package by name."""

from __future__ import annotations

from functools import cache

import strategies.protection
from strategies.discovery import classes_with_a_name
from strategies.errors import StrategyError
from strategies.protection.base import Protection


@cache
def all_protections() -> dict[str, type[Protection]]:
    """Return every `Protection` subclass with a `name` in the modules of this package, by name."""
    return classes_with_a_name(strategies.protection, Protection)  # type: ignore[type-abstract]


def protection_class(name: str) -> type[Protection]:
    """Return the protection called `name`.

    Raises
    ------
    StrategyError
        If there is none.
    """
    known = all_protections()
    if name not in known:
        raise StrategyError(
            "protection.name", f"there is no protection {name!r}", f"use one of {', '.join(known)}"
        )
    return known[name]
