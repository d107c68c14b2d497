"""Imported once, by the process that those of simulations are forked from: SimGrid and the rest.

A second engine in one process is not possible, but a process that has merely imported SimGrid may
be forked as often as is asked, in a hundredth of the time that importing takes.
"""

from __future__ import annotations

import os
import sys


def import_simgrid() -> None:
    """Import SimGrid without the line it prints about its thread contexts."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        import simgrid  # noqa: F401
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


import_simgrid()

from faultline.simulator.simgrid_engine import controller, placed_job  # noqa: E402, F401
