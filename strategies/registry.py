"""Finds the schemes of this package by name."""

from __future__ import annotations

from functools import cache

import strategies
from strategies.base import Strategy, StrategyOptions
from strategies.discovery import classes_with_a_name
from strategies.errors import StrategyError


@cache
def all_strategies() -> dict[str, type[Strategy]]:
    """Return every `Strategy` subclass with a `name` in the modules of this package, by name."""
    return classes_with_a_name(strategies, Strategy)  # type: ignore[type-abstract]


def strategy_class(name: str) -> type[Strategy]:
    """Return the scheme called `name`.

    Raises
    ------
    StrategyError
        If there is none.
    """
    known = all_strategies()
    if name not in known:
        raise StrategyError(
            "strategy.name", f"there is no scheme {name!r}", f"use one of {', '.join(known)}"
        )
    return known[name]


def build_strategy(
    name: str, groups: int, redundancy: int, options: StrategyOptions | None = None
) -> Strategy:
    """Return a scheme ready for its first step; default options where none are given."""
    scheme = strategy_class(name)
    return scheme(groups, redundancy, options if options is not None else scheme.Options())
