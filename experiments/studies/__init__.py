"""Published comparisons, played again: a module or package each, found by its `Study`."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from importlib.util import find_spec

from faultline.experiments.studies.base import Options, Reproduction, Row, Study
from faultline.experiments.studies.runner import run_study
from faultline.experiments.studies.stage import Stage


@cache
def all_reproductions() -> dict[str, Reproduction]:
    """Return every study there is, by name."""
    found: dict[str, Reproduction] = {}
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        named = f"{module.name}.study" if module.ispkg else module.name
        if find_spec(named) is None:
            continue
        for value in vars(import_module(named)).values():
            if isinstance(value, Reproduction):
                found[value.name] = value
            elif isinstance(value, type) and issubclass(value, Study) and hasattr(value, "name"):
                found[value.name] = _reproduction(value)
    return dict(sorted(found.items()))


def _reproduction(study: type[Study]) -> Reproduction:
    def reproduce(options: Options) -> list[Row]:
        stage = Stage(
            options.directory, options.console, options.seeds, options.full, options.workers
        )
        return run_study(study(), stage)

    return Reproduction(study.name, study.summary, reproduce, study.default_seeds)
