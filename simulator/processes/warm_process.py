"""Imports SimGrid once, in the process from which processes of simulations are forked.

A process can have only one engine. But a process that has imported SimGrid and has no engine may be
forked repeatedly, in a fraction of the time that importing takes.
"""

from __future__ import annotations

import os
from importlib import import_module

# Libraries of linear algebra start threads when they are imported, and a fork copies only one.
os.environ.update(
    dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
)

_contexts = import_module("faultline.simulator.processes.contexts")
# SimGrid prints a line about its thread contexts.
with _contexts.errors_hidden():
    import_module("faultline.platforms.simgrid_library").find_simgrid_library()
    for _name in ("controller", "placed_job"):
        import_module(f"faultline.simulator.simgrid.{_name}")
# Schemes import it on first use: once here instead of in each process.
import_module("scipy.optimize")
