"""Imports Matplotlib safely; a module of figures imports this one before Matplotlib."""

from __future__ import annotations

import os

_OPEN_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC
_PATH_VARIABLES = ("MATPLOTLIBRC", "MPLCONFIGDIR")


def _import_matplotlib() -> None:
    """Import Matplotlib in another working folder, so that it reads no ``matplotlibrc`` there.

    A folder of results may come from an untrusted source, and the file can execute TeX or a module.
    """
    for name in _PATH_VARIABLES:
        if os.environ.get(name):
            os.environ[name] = os.path.abspath(os.environ[name])  # noqa: PTH100 - as Matplotlib
    try:
        here = os.open(".", _OPEN_FLAGS)
    except OSError:  # The working folder was removed.
        import matplotlib

        return
    try:
        os.chdir("/")
        import matplotlib  # noqa: F401
    finally:
        os.fchdir(here)
        os.close(here)


_import_matplotlib()
