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
    from faultline.experiments.notebook.playing import (
        Job,
        Platform,
        compare,
        plan,
        run,
        sweep,
        timeline,
    )
    from faultline.experiments.notebook.results import Comparison, Plan, Record, Timeline

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
    "run",
    "sweep",
    "timeline",
]

_RESULTS = {"Comparison", "Plan", "Record", "Timeline"}


def __getattr__(name: str) -> object:
    """Import what is asked for: the import of this package alone takes no time."""
    if name == "__version__":
        from faultline.experiments.config.distribution import own_version

        return own_version()
    if name not in __all__:
        raise AttributeError(f"module 'faultline' has no attribute {name!r}")
    home = "results" if name in _RESULTS else "playing"
    value: object = getattr(import_module(f"faultline.experiments.notebook.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    # For people who look what there is; other modules are imported by their names.
    return sorted(__all__)
