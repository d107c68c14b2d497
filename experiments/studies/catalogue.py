"""The studies by name, found in the folders beside this module."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

import faultline.experiments.studies

if TYPE_CHECKING:
    # Listing the studies imports only their summaries.
    from faultline.experiments.studies.base import Study

_FOLDER = "faultline.experiments.studies"


def all_studies() -> dict[str, str]:
    """Return the summary of each study, by its name."""
    found = {}
    for module in pkgutil.iter_modules(faultline.experiments.studies.__path__):
        named = f"{_FOLDER}.{module.name}"
        if module.ispkg and find_spec(f"{named}.study"):
            found[module.name.replace("_", "-")] = (
                # Python's option -OO leaves docstrings out.
                (import_module(named).__doc__ or "").strip().removesuffix(".")
            )
    return dict(sorted(found.items()))


def load_study(name: str) -> Study:
    """Return a study by its name."""
    from faultline.experiments.studies.base import Study

    module = import_module(f"{_FOLDER}.{name.replace('-', '_')}.study")
    values = [one for one in vars(module).values() if isinstance(one, type)]
    (study,) = (one for one in values if issubclass(one, Study) and one is not Study)
    return study()
