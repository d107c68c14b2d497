"""Finds classes by their names, so that a plug-in needs only its own file or package.

Classes come from the modules of a package of Faultline, from files that a user lists
(`scheme_files`), and from installed packages, which list theirs as entry points.
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

from faultline.strategies.interface.errors import StrategyError
from faultline.strategies.interface.scheme import StrategyOptions
from faultline.strategies.plugins import scheme_files
from faultline.strategies.plugins.guarding import guard, is_foreign, text_of

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

Named = TypeVar("Named")


@dataclass(frozen=True, slots=True)
class NamedClasses(Generic[Named]):
    """The valid classes of a package and of plug-ins, by name.

    `broken` has a line for each file that cannot be used and for each duplicate name.
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

    The modules of `package` and its folders, plug-in files and the entry points `group` of
    installed packages are searched; an entry point refers to a class or a module with classes. An
    error leaves out only its own file. If two classes have one name, neither is used, since the
    choice would be arbitrary; but a shipped class keeps its name, and the plug-in is left out.
    """
    named: dict[str, dict[type[Named], str]] = {}
    broken = []
    for label, load in _sources(package, group):
        try:
            classes = _named_in(load(), base)
        except BaseException as error:
            if not (isinstance(error, Exception) or is_foreign(error)):
                raise
            broken.append(f"{label} is left out: {_error_line(error)}")
            continue
        for cls in classes:
            if fault := _fault(cls):
                broken.append(f"{label} is left out: {fault}")
            else:
                source = _file(cls) if is_shipped(cls) else label
                named.setdefault(vars(cls)["name"], {}).setdefault(cls, source)
    used: dict[str, type[Named]] = {}
    for name, sources in sorted(named.items()):
        rivals = [cls for cls in sources if is_shipped(cls)] or list(sources)
        if len(rivals) > 1:
            where = " and ".join(sources[cls] for cls in rivals)
            broken.append(f"{where} are left out: both are named {name!r}, rename one")
            continue
        used[name] = chosen = rivals[0]
        if not is_shipped(chosen):
            guard(chosen, is_shipped)
        taken = f"{name!r} is the name of {_file(chosen)}, choose another"
        broken += [f"{sources[cls]} is left out: {taken}" for cls in sources if cls is not chosen]
    return NamedClasses(used, tuple(dict.fromkeys(broken)))


def _sources(package: ModuleType, group: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the label and the loader of each source of classes."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if module.ispkg:
            continue
        label = f"{module.name.removeprefix('faultline.').replace('.', '/')}.py"
        yield label, partial(import_module, module.name)
    yield from scheme_files.loaders().items()
    for point in sorted(entry_points(group=group), key=lambda point: (point.name, point.value)):
        origin = f" of {point.dist.name}" if point.dist else ""
        yield f"{group}: {point.name}{origin} ({point.value})", point.load


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
    return module.startswith("faultline.") and not module.startswith(f"{scheme_files.__name__}.")


def _fault(cls: type[Any]) -> str:
    """Return why a class cannot be used; empty if it can."""
    if isabstract(cls):
        return f"{cls.__name__} lacks {', '.join(sorted(cls.__abstractmethods__))}"
    name = vars(cls)["name"]
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


def _file(cls: type[Any]) -> str:
    return f"{cls.__module__.removeprefix('faultline.').replace('.', '/')}.py"


def _error_line(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}" if error.lineno else str(error.msg)
    return text_of(error)
