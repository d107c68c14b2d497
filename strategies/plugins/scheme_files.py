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

VARIABLE = "FAULTLINE_SCHEME_FILES"

_loaded: dict[str, ModuleType | Exception] = {}


def loaders() -> dict[str, Callable[[], ModuleType]]:
    """Return a loader for each file, which returns its module or raises its import error."""
    return {path: partial(_module, path) for path in paths()}


def paths() -> list[str]:
    """Return the listed files without duplicates."""
    return list(dict.fromkeys(filter(None, os.environ.get(VARIABLE, "").split(os.pathsep))))


def _module(path: str) -> ModuleType:
    loaded = _loaded[path]
    if isinstance(loaded, Exception):
        raise loaded
    return loaded


def _load(path: str) -> ModuleType:
    stem = re.sub(r"\W", "_", Path(path).stem)
    name = f"{__name__}.{stem}"
    while name in sys.modules:
        name += "_"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("is not a Python file: use one that ends in .py")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception:
        del sys.modules[name]
        raise
    return module


for _path in paths():
    try:
        _loaded[_path] = _load(_path)
    except Exception as error:  # noqa: PERF203 - each file fails alone
        _loaded[_path] = error
