"""Find SimGrid's library: a wheel of PyPI's source looks for it in the folder of its build.

That folder no longer exists after pip has built the wheel, so importing the module fails unless
LD_LIBRARY_PATH has the folder of the wheel. A library that the process has loaded already is found.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

_LIBRARY = "libsimgrid.so.*"


def find_simgrid_library() -> None:
    """Load the library beside SimGrid's module; to be called in a process that will import it."""
    found = find_spec("simgrid")
    if found is None or found.origin is None:
        return  # Importing SimGrid explains it.
    with suppress(OSError):  # Likewise.
        for library in Path(found.origin).parent.glob(_LIBRARY):
            ctypes.CDLL(str(library))
