"""Schemes from files of ``--scheme-file``, as modules of this package.

The environment variable `VARIABLE` lists the files. This package loads them on import, so that
worker processes find the schemes by the same names.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from faultline.strategies.plugins.guarding import is_foreign

VARIABLE = "FAULTLINE_SCHEME_FILES"

_failed: dict[str, BaseException] = {}
_loaded: dict[str, ModuleType] = {}


def loaders() -> dict[str, Callable[[], ModuleType]]:
    """Return a loader for each file, which returns its module or raises its import error."""
    return {path: partial(_module, path) for path in paths()}


def paths() -> list[str]:
    """Return the listed files without duplicates."""
    return list(dict.fromkeys(filter(None, os.environ.get(VARIABLE, "").split(os.pathsep))))


def _module(path: str) -> ModuleType:
    if path in _failed:
        raise _failed[path]
    return _loaded[path]


def _load_all() -> None:
    for path in paths():
        stem = re.sub(r"\W", "_", Path(path).stem)
        name = f"{__name__}.{stem}"
        while name in sys.modules:
            name += "_"
        spec = spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            _failed[path] = ImportError("is not a Python file: use one that ends in .py")
            continue
        module = sys.modules[name] = module_from_spec(spec)
        try:
            if not os.path.isfile(path):  # noqa: PTH113 - the path as listed
                raise ImportError("is not a regular file: use a Python file")
            spec.loader.exec_module(module)
        except BaseException as error:
            if not (isinstance(error, Exception) or is_foreign(error)):
                raise
            del sys.modules[name]
            _failed[path] = error
        else:
            _loaded[path] = module


_load_all()
