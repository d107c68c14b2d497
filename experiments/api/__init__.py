"""Faultline: which fault-tolerance scheme trains this model soonest on this cluster.

Functions for notebooks, each imported on first use::

    import faultline as fl

    fl.run("spare-sound", job__steps=500)                # one run: its record
    names = {"strategy.name": ["replication", "spare"]}
    runs = fl.sweep("spare-sound", names, job__steps=500)  # many: a data frame
    fl.compare(runs, by="strategy.name")                 # paired differences
    fl.plan("spare-sound", gpus="100k", steps=500)       # the best scheme
    fl.timeline("spare-sound", job__steps=500)           # the events of one run
    fl.Job("llama3-70b-hgx"), fl.Platform("hgx-h100")    # a job and a platform

``fl.register(MyScheme)`` makes a scheme of your own known by its name.

The packages below mirror the folders of the project: ``faultline.platforms``,
``faultline.simulator``, ``faultline.strategies`` and ``faultline.experiments``.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faultline.experiments.config.errors import UserError
    from faultline.experiments.notebook.functions import (
        Job,
        Platform,
        compare,
        plan,
        run,
        sweep,
        timeline,
    )
    from faultline.experiments.notebook.results import Comparison, Plan, Record, Timeline
    from faultline.experiments.plugins.registering import register

    __version__: str

__all__ = [
    "Comparison",
    "Job",
    "Plan",
    "Platform",
    "Record",
    "Timeline",
    "UserError",
    "compare",
    "plan",
    "register",
    "run",
    "sweep",
    "timeline",
]

_HOMES = dict.fromkeys(("Comparison", "Plan", "Record", "Timeline"), "notebook.results")
_HOMES["register"] = "plugins.registering"


def __getattr__(name: str) -> object:
    """Import a name on first use, so that the import of this package is fast."""
    if name == "__version__":
        from faultline.experiments.config.distribution import own_version

        return own_version()
    if name not in __all__:
        raise AttributeError(f"module 'faultline' has no attribute {name!r}")
    home = _HOMES.get(name, "notebook.functions")
    value: object = getattr(import_module(f"faultline.experiments.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    # The names for users; other modules are imported by their full names.
    return sorted(__all__)
