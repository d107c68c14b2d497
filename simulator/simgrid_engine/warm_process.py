"""Imported once, by the process from which processes of simulations are forked.

A second engine in one process is not possible, but a process that has imported SimGrid without an
engine may be forked repeatedly, in a fraction of the time that importing takes.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

_ENGINE = "faultline.simulator.simgrid_engine"


def import_quietly(*names: str) -> None:
    """Import modules without the line that SimGrid prints about its thread contexts."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        for name in names:
            import_module(name)
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


import_quietly("simgrid", f"{_ENGINE}.controller", f"{_ENGINE}.placed_job")
