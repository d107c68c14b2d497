"""Schemes from files that a user names (``--scheme-file``), as modules of this package.

So that processes which play runs find them by the same names, the files stand in the environment
variable `VARIABLE`, from which this package loads them wherever it is imported.
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

from faultline.strategies.guarding import is_foreign

VARIABLE = "FAULTLINE_SCHEME_FILES"

_failed: dict[str, BaseException] = {}
_loaded: dict[str, ModuleType] = {}


def files() -> dict[str, Callable[[], ModuleType]]:
    """Return what gives the module of each file, or raises what came in the way of its import."""
    return {path: partial(_module, path) for path in named()}


def named() -> list[str]:
    """Return the files that are named, each once."""
    return list(dict.fromkeys(filter(None, os.environ.get(VARIABLE, "").split(os.pathsep))))


def _module(path: str) -> ModuleType:
    if path in _failed:
        raise _failed[path]
    return _loaded[path]


def _load_all() -> None:
    for path in named():
        stem = re.sub(r"\W", "_", Path(path).stem)
        name = f"{__name__}.{stem}"
        while name in sys.modules:
            name += "_"
        spec = spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            _failed[path] = ImportError("is no Python file: name one that ends in .py")
            continue
        module = sys.modules[name] = module_from_spec(spec)
        try:
            if not os.path.isfile(path):  # noqa: PTH113 - as it is named
                raise ImportError("is no regular file: name a Python file")
            spec.loader.exec_module(module)
        except BaseException as error:
            if not (isinstance(error, Exception) or is_foreign(error)):
                raise
            del sys.modules[name]
            _failed[path] = error
        else:
            _loaded[path] = module


_load_all()
