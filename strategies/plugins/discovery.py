"""Finds classes by their names, so that a plug-in needs only its own file or package.

Classes come from the modules of a package of Faultline, from files that a user lists
(`scheme_files`), from installed packages, which list theirs as entry points, and from
`faultline.register` (`registered`).
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from inspect import isabstract
from types import ModuleType
from typing import Any, Generic, TypeVar

from faultline.strategies.interface.errors import StrategyError, text_of
from faultline.strategies.interface.scheme import StrategyOptions
from faultline.strategies.plugins import registered, scheme_files

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

Named = TypeVar("Named")


@dataclass(frozen=True, slots=True)
class NamedClasses(Generic[Named]):
    """The valid classes of a package and of plug-ins, by name.

    `broken` has a line for each source or class that cannot be used.
    """

    classes: dict[str, type[Named]]
    broken: tuple[str, ...]

    def get(self, where: str, kind: str, name: str) -> type[Named]:
        """Return the class of a name.

        Raises
        ------
        StrategyError
            If there is none. The message lists the broken files, because the class may be in one.
        """
        if name in self.classes:
            return self.classes[name]
        what = "; ".join((f"there is no {kind} {name!r}", *self.broken))
        raise StrategyError(where, what, f"use one of {', '.join(self.classes)}")


def classes_with_a_name(package: ModuleType, base: type[Named], group: str) -> NamedClasses[Named]:
    """Return the subclasses of `base` with a `name`.

    The modules of `package` and its folders, plug-in files, the entry points `group` of installed
    packages and registered classes are searched, in this order. An error leaves out only its own
    source. Of two classes with one name the first is used, so that a shipped name keeps its class.
    """
    named: dict[str, tuple[type[Named], str]] = {}
    broken = []
    for label, load in _sources(package, base, group):
        try:
            classes = _named_in(load(), base)
        except Exception as error:
            broken.append(f"{label} is left out: {_error_line(error)}")
            continue
        for cls in classes:
            first, source = named.get(vars(cls)["name"], (cls, label))
            if fault := fault_of(cls):
                broken.append(f"{label} is left out: {fault}")
            elif first is not cls:
                taken = f"{vars(cls)['name']!r} is the name of {source}, choose another"
                broken.append(f"{label} is left out: {taken}")
            else:
                named[vars(cls)["name"]] = cls, source
    used = {name: named[name][0] for name in sorted(named)}
    return NamedClasses(used, tuple(dict.fromkeys(broken)))


def _sources(
    package: ModuleType, base: type[Any], group: str
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the label and the loader of each source of classes."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.ispkg:
            label = f"{module.name.removeprefix('faultline.').replace('.', '/')}.py"
            yield label, partial(import_module, module.name)
    yield from scheme_files.loaders().items()
    for point in sorted(entry_points(group=group), key=lambda point: (point.name, point.value)):
        origin = f" of {point.dist.name}" if point.dist else ""
        yield f"{group}: {point.name}{origin} ({point.value})", point.load
    for cls in registered.classes().values():
        if issubclass(cls, base):
            yield f"registered {cls.__name__}", partial(registered.class_named, cls.name)


def _named_in(loaded: Any, base: type[Named]) -> list[type[Named]]:
    """Return a class, or the classes of a module, if they define their own name."""
    is_module = isinstance(loaded, ModuleType)
    values = vars(loaded).values() if is_module else [loaded]
    classes = [value for value in values if isinstance(value, type) and issubclass(value, base)]
    if not (is_module or classes):
        raise TypeError(f"has no subclass of {base.__name__} with its own name")
    named = [cls for cls in classes if "name" in vars(cls)]
    if is_module and not _ships(loaded.__name__):
        # Shipped classes that a plug-in imports do not belong to it.
        named = [cls for cls in named if not is_shipped(cls)]
    return named


def is_shipped(cls: type[Any]) -> bool:
    """Return whether a class is part of Faultline."""
    return _ships(cls.__module__)


def _ships(module: str) -> bool:
    plugged = (f"{scheme_files.__name__}.", registered.__name__)
    return module.startswith("faultline.") and not module.startswith(plugged)


def fault_of(cls: type[Any]) -> str:
    """Return why a class cannot be used; empty if it can."""
    if isabstract(cls):
        return f"{cls.__name__} lacks {', '.join(sorted(cls.__abstractmethods__))}"
    name = vars(cls).get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return f"{cls.__name__}.name is {name!r}: use small letters, digits and hyphens"
    if not isinstance(getattr(cls, "summary", None), str):
        return f"{cls.__name__} lacks a summary: describe it in one line"
    options = getattr(cls, "Options", None)
    if not (isinstance(options, type) and issubclass(options, StrategyOptions)):
        return f"{cls.__name__}.Options is not a subclass of StrategyOptions"
    if not is_shipped(cls):
        # Pydantic builds a model at its first use. A plug-in's is built here to report its faults.
        try:
            options.model_rebuild()
        except Exception as error:
            return _error_line(error)
    return ""


def _error_line(error: Exception) -> str:
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}" if error.lineno else str(error.msg)
    return text_of(error)
