"""Finds the classes of a package by their names, so that a new one joins by its own file alone."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType
from typing import TypeVar

Named = TypeVar("Named")


def classes_with_a_name(package: ModuleType, base: type[Named]) -> dict[str, type[Named]]:
    """Return every subclass of `base` with a `name` in the modules of a package, by name."""
    found: dict[str, type[Named]] = {}
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        for value in vars(import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, base) and "name" in vars(value):
                found[vars(value)["name"]] = value
    return dict(sorted(found.items()))
