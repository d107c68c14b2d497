"""Finds schemes and protections by name, and the source files of plug-ins."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import faultline.strategies.protection
import faultline.strategies.schemes
from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.scheme import Strategy, StrategyOptions
from faultline.strategies.plugins.discovery import NamedClasses, classes_with_a_name, is_shipped
from faultline.strategies.protection.base import Protection

SCHEMES, PROTECTIONS = "faultline.schemes", "faultline.protections"
"""Entry-point groups in which installed packages list their schemes and protections."""


@cache
def _schemes() -> NamedClasses[Strategy]:
    return classes_with_a_name(faultline.strategies.schemes, Strategy, SCHEMES)  # type: ignore[type-abstract]


@cache
def _protections() -> NamedClasses[Protection]:
    return classes_with_a_name(faultline.strategies.protection, Protection, PROTECTIONS)  # type: ignore[type-abstract]


def all_strategies() -> dict[str, type[Strategy]]:
    """Return every `Strategy` subclass with a `name` in `schemes/`, by name."""
    return _schemes().classes


def all_protections() -> dict[str, type[Protection]]:
    """Return every `Protection` subclass with a `name` in `protection/`, by name."""
    return _protections().classes


def broken_plugins() -> tuple[str, ...]:
    """Return a line for each file of schemes or protections that cannot be used."""
    return tuple(dict.fromkeys((*_schemes().broken, *_protections().broken)))


def strategy_class(name: str) -> type[Strategy]:
    """Return the scheme called `name`.

    Raises
    ------
    StrategyError
        If there is none.
    """
    return _schemes().get("strategy.name", "scheme", name)


def protection_class(name: str) -> type[Protection]:
    """Return the protection called `name`.

    Raises
    ------
    StrategyError
        If there is none.
    """
    return _protections().get("protection.name", "protection", name)


def build_strategy(
    name: str,
    groups: int,
    redundancy: int,
    options: StrategyOptions | None = None,
    shape: JobShape | None = None,
) -> Strategy:
    """Return a scheme ready for its first step, by default with default options and shape."""
    scheme = strategy_class(name)
    return scheme(groups, redundancy, options or scheme.Options(), shape or JobShape())


def plugged_files() -> list[Path]:
    """Return the source files of plug-ins: a module, or the whole package that contains it."""
    classes = (*all_strategies().values(), *all_protections().values())
    files: set[Path] = set()
    for module in {each.__module__ for each in classes if not is_shipped(each)}:
        file = Path(str(sys.modules[module].__file__))
        top = module.partition(".")[0]
        root = Path(str(sys.modules[top].__file__)).parent
        is_package = top not in ("faultline", module) or file.name == "__init__.py"
        files |= {*root.rglob("*.py")} if is_package else {file}
    return sorted(files)
