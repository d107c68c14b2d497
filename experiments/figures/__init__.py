"""Pictures of sweeps and runs, a module a kind; they read tables and nothing else."""

from __future__ import annotations

import os

_HERE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC
_NAMES_A_PLACE = ("MATPLOTLIBRC", "MPLCONFIGDIR")


def _import_matplotlib() -> None:
    """Import Matplotlib outside of the working folder, where it would obey a ``matplotlibrc``.

    A folder with results may come from anybody, and that file can let TeX or a module run.
    """
    for name in _NAMES_A_PLACE:
        if os.environ.get(name):
            os.environ[name] = os.path.abspath(os.environ[name])  # noqa: PTH100 - as Matplotlib
    try:
        here = os.open(".", _HERE)
    except OSError:  # It is gone.
        import matplotlib

        return
    try:
        os.chdir("/")
        import matplotlib  # noqa: F401
    finally:
        os.fchdir(here)
        os.close(here)


_import_matplotlib()
