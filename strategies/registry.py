"""Finds the schemes of this package by name."""

from __future__ import annotations

from functools import cache

import faultline.strategies
from faultline.strategies.base import Strategy, StrategyOptions
from faultline.strategies.discovery import Found, classes_with_a_name

ENTRY_POINTS = "faultline.schemes"
"""What installed packages name theirs under."""


@cache
def _found() -> Found[Strategy]:
    return classes_with_a_name(faultline.strategies, Strategy, ENTRY_POINTS)  # type: ignore[type-abstract]


def all_strategies() -> dict[str, type[Strategy]]:
    """Return every `Strategy` subclass with a `name` in the modules of this package, by name."""
    return _found().classes


def broken_strategies() -> tuple[str, ...]:
    """Return a line for each file of a scheme that cannot be used."""
    return _found().broken


def strategy_class(name: str) -> type[Strategy]:
    """Return the scheme called `name`.

    Raises
    ------
    StrategyError
        If there is none.
    """
    return Found(all_strategies(), broken_strategies()).get("strategy.name", "scheme", name)


def build_strategy(
    name: str, groups: int, redundancy: int, options: StrategyOptions | None = None
) -> Strategy:
    """Return a scheme ready for its first step; default options where none are given."""
    scheme = strategy_class(name)
    return scheme(groups, redundancy, options if options is not None else scheme.Options())
