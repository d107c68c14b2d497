"""Imports SimGrid once, in the process from which processes of simulations are forked.

A process can have only one engine. But a process that has imported SimGrid and has no engine may be
forked repeatedly, in a fraction of the time that importing takes.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

from faultline.platforms.simgrid_library import find_simgrid_library

# SimGrid prints a line about its thread contexts.
sys.stderr.flush()
_stderr, _null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
os.dup2(_null, 2)
try:
    find_simgrid_library()
    for _name in ("controller", "placed_job"):
        import_module(f"faultline.simulator.simgrid.{_name}")
finally:
    os.dup2(_stderr, 2)
    os.close(_stderr)
    os.close(_null)
