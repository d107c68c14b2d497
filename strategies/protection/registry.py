"""Finds the protections of this package by name."""

from __future__ import annotations

from functools import cache

import faultline.strategies.protection
from faultline.strategies.discovery import NamedClasses, classes_with_a_name
from faultline.strategies.protection.base import Protection

ENTRY_POINTS = "faultline.protections"
"""Entry-point group in which installed packages list their protections."""


@cache
def _protections() -> NamedClasses[Protection]:
    return classes_with_a_name(faultline.strategies.protection, Protection, ENTRY_POINTS)  # type: ignore[type-abstract]


def all_protections() -> dict[str, type[Protection]]:
    """Return every `Protection` subclass with a `name` in the modules of this package, by name."""
    return _protections().classes


def broken_protections() -> tuple[str, ...]:
    """Return a line for each protection file that cannot be used."""
    return _protections().broken


def protection_class(name: str) -> type[Protection]:
    """Return the protection called `name`.

    Raises
    ------
    StrategyError
        If there is none.
    """
    return _protections().get("protection.name", "protection", name)
