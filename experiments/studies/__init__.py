"""Published comparisons, played again: a module each, found by its `REPRODUCTION`."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from importlib.util import find_spec

from faultline.experiments.studies.base import Reproduction


@cache
def all_reproductions() -> dict[str, Reproduction]:
    """Return every reproduction there is, by name."""
    found: dict[str, Reproduction] = {}
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        if not module.ispkg:
            continue
        study = f"{module.name}.study"
        if find_spec(study) is None:
            continue
        reproduction = getattr(import_module(study), "REPRODUCTION", None)
        if isinstance(reproduction, Reproduction):
            found[reproduction.name] = reproduction
    return dict(sorted(found.items()))
