"""Finds schemes and protections by name, registers others, and lists the sources of plug-ins."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

import faultline.strategies.protection
import faultline.strategies.schemes
from faultline.strategies.interface.errors import StrategyError
from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.scheme import Strategy, StrategyOptions
from faultline.strategies.plugins import registered
from faultline.strategies.plugins.discovery import (
    NamedClasses,
    classes_with_a_name,
    fault_of,
    is_shipped,
)
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


def register(cls: Any) -> None:
    """Add a scheme's or a protection's class for this process and those that it starts.

    A class that was registered under the same name is replaced.

    Raises
    ------
    StrategyError
        If the class cannot be used, or its name is taken by a file or a package.
    """
    if not (isinstance(cls, type) and issubclass(cls, (Strategy, Protection))):
        raise StrategyError("register", f"got {cls!r}", "pass a subclass of Strategy or Protection")
    fault, name = fault_of(cls), vars(cls).get("name")
    if not fault and name in {*_schemes().classes, *_protections().classes} - {
        *registered.classes()
    }:
        fault = f"{name!r} is the name of another"
    if fault:
        raise StrategyError(f"register({cls.__name__})", fault, "change the class")
    registered.add(cls)
    _schemes.cache_clear()
    _protections.cache_clear()


def plugged_sources() -> list[tuple[str, bytes]]:
    """Return the name and the source of each plug-in's file or class, whole packages included."""
    classes = (*all_strategies().values(), *all_protections().values())
    files: set[Path] = set()
    kept = {*registered.classes().values()}
    for module in {each.__module__ for each in classes if not (is_shipped(each) or each in kept)}:
        file = Path(str(sys.modules[module].__file__))
        top = module.partition(".")[0]
        root = Path(str(sys.modules[top].__file__)).parent
        is_package = top not in ("faultline", module) or file.name == "__init__.py"
        files |= {*root.rglob("*.py")} if is_package else {file}
    # The folder of a file may differ between machines, so only its name counts.
    plugged = [(path.name, path.read_bytes()) for path in files]
    return sorted([*plugged, *registered.sources().items()])
