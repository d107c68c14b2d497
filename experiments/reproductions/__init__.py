"""Published comparisons, played again: a module each, found by its `REPRODUCTION`."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from experiments.reproductions.base import Reproduction


@cache
def all_reproductions() -> dict[str, Reproduction]:
    """Return every reproduction there is, by name."""
    found: dict[str, Reproduction] = {}
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        reproduction = getattr(import_module(module.name), "REPRODUCTION", None)
        if isinstance(reproduction, Reproduction):
            found[reproduction.name] = reproduction
    return dict(sorted(found.items()))
