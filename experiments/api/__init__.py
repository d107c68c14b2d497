"""Faultline: which fault-tolerance scheme trains this model soonest on this cluster.

What a notebook needs, each imported when it is first used::

    import faultline as fl

    fl.run("spare-sound", job__steps=500)                         # one run: its record
    fl.sweep("spare-sound", {"strategy.redundancy": [2, 4, 8]})   # many: a data frame
    fl.compare(runs, by="strategy.name")                          # paired differences
    fl.plan("spare-sound", gpus=100_000)                          # which scheme to take
    fl.timeline("spare-sound", job__steps=500)                    # what one run did when
    fl.Job("llama3-70b-hgx"), fl.Platform("hgx-h100")             # what is simulated

The packages below mirror the folders of the project: ``faultline.platforms``,
``faultline.simulator``, ``faultline.strategies`` and ``faultline.experiments``.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faultline.experiments.config.errors import UserError
    from faultline.experiments.notebook.playing import compare, plan, run, sweep, timeline
    from faultline.experiments.notebook.results import Comparison, Plan, Record, Timeline
    from faultline.experiments.notebook.things import Job, Platform

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
    "run",
    "sweep",
    "timeline",
]

_MODULES = {
    "playing": ("compare", "plan", "run", "sweep", "timeline"),
    "results": ("Comparison", "Plan", "Record", "Timeline"),
    "things": ("Job", "Platform", "UserError"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import what is asked for: the import of this package alone takes no time."""
    if name not in _HOMES:
        raise AttributeError(f"module 'faultline' has no attribute {name!r}")
    value: object = getattr(import_module(f"faultline.experiments.notebook.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
