"""Schemes and protections that a Python program or a notebook has registered.

A class of a notebook is in no file that another process could import. The environment variable
`VARIABLE` therefore holds the pickled classes; this module restores them on import, so that worker
processes find them by the same names.
"""

from __future__ import annotations

import os
import sys
from base64 import b64decode, b64encode
from inspect import getsource
from typing import Any

VARIABLE = "FAULTLINE_REGISTERED"

_classes: dict[str, type[Any]] = {}
_sources: dict[str, bytes] = {}


def classes() -> dict[str, type[Any]]:
    """Return the registered classes by name."""
    return dict(_classes)


def class_named(name: str) -> type[Any]:
    """Return the registered class of a name."""
    return _classes[name]


def sources() -> dict[str, bytes]:
    """Return the source text of each class; its pickle where a text cannot be found."""
    return dict(_sources)


def add(cls: type[Any]) -> None:
    """Keep a class for this process and the processes that it starts.

    A class of the same name is replaced, so that a cell of a notebook can be run again.
    """
    # Few programs register a class, and each run imports this module.
    import cloudpickle

    pickled = cloudpickle.dumps(cls)
    try:
        source = getsource(cls).encode()
    except (OSError, TypeError):
        source = pickled
    _keep(cls, source)
    entries = [entry for entry in _entries() if not entry.startswith(f"{cls.name}:")]
    coded = f"{cls.name}:{b64encode(pickled).decode()}:{b64encode(source).decode()}"
    os.environ[VARIABLE] = " ".join([*entries, coded])


def _entries() -> list[str]:
    return os.environ.get(VARIABLE, "").split()


def _keep(cls: type[Any], source: bytes) -> None:
    if cls.__module__ == "__main__" or "<locals>" in cls.__qualname__:
        # Pickled objects then refer to this module, which each process has, not to the notebook.
        if cls.Options.__module__ == cls.__module__:
            cls.Options.__module__ = __name__
            cls.Options.__qualname__ = f"{cls.__name__}.Options"
        cls.__module__, cls.__qualname__ = __name__, cls.__name__
        setattr(sys.modules[__name__], cls.__name__, cls)
    _classes[cls.name] = cls
    _sources[cls.name] = source


def _restore() -> None:
    """Restore the classes that the process which started this one has registered."""
    import cloudpickle

    for entry in _entries():
        _, pickled, source = entry.split(":")
        _keep(cloudpickle.loads(b64decode(pickled)), b64decode(source))


if VARIABLE in os.environ:
    _restore()
