"""Finds classes by their names, so that a plug-in needs only its own file or package.

Classes come from the modules of a package of Faultline, from files that a user lists (`plugged`),
and from installed packages, which list theirs as entry points.
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
from typing import Any, Generic, NamedTuple, TypeVar

from faultline.strategies import plugged
from faultline.strategies.base import StrategyOptions
from faultline.strategies.errors import StrategyError
from faultline.strategies.guarding import guard, is_foreign, text_of

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

Named = TypeVar("Named")


@dataclass(frozen=True, slots=True)
class Found(Generic[Named]):
    """The valid classes of a package, by name.

    `broken` has a line for each file that cannot be used and for each duplicate name.
    """

    classes: dict[str, type[Named]]
    broken: tuple[str, ...]

    def get(self, where: str, kind: str, name: str) -> type[Named]:
        """Return the class of a name.

        Raises
        ------
        StrategyError
            If there is none. The message lists the broken files, as the class may be in one.
        """
        if name in self.classes:
            return self.classes[name]
        what = "; ".join((f"there is no {kind} {name!r}", *self.broken))
        raise StrategyError(where, what, f"use one of {', '.join(self.classes)}")


class _Source(NamedTuple):
    """A source of classes: its label, its loader, and whether it is part of Faultline."""

    label: str
    load: Callable[[], Any]
    is_shipped: bool


class _Candidate(NamedTuple):
    """A class with a name, and its source."""

    value: type[Any]
    source: _Source


def classes_with_a_name(package: ModuleType, base: type[Named], group: str) -> Found[Named]:
    """Return the subclasses of `base` with a `name`.

    An import error leaves out only its own file. If two classes have one name, neither is used,
    since the choice would be arbitrary. A shipped class keeps its name against plug-ins.

    Parameters
    ----------
    package : module
        The package of Faultline whose modules are searched.
    base : type
        The base of the classes.
    group : str
        Entry points of installed packages: each refers to a class or a module with classes.
    """
    candidates: dict[str, dict[str, _Candidate]] = {}
    broken = []
    for source in _sources(package, group):
        try:
            found = _named_in(source.load(), base, source.is_shipped)
        except BaseException as error:
            if not (isinstance(error, Exception) or is_foreign(error)):
                raise
            broken.append(f"{source.label} is left out: {_error_line(error)}")
            continue
        for value in found:
            fault = _fault(value)
            if fault:
                broken.append(f"{source.label} is left out: {fault}")
            else:
                same_name = candidates.setdefault(vars(value)["name"], {})
                same_name.setdefault(
                    value.__module__ + value.__qualname__, _Candidate(value, source)
                )
    used: dict[str, type[Named]] = {}
    for name, same_name in sorted(candidates.items()):
        shipped = [one for one in same_name.values() if one.source.is_shipped]
        chosen = shipped or list(same_name.values())
        if len(chosen) == 1:
            if not chosen[0].source.is_shipped:
                guard(chosen[0].value, is_shipped)
            used[name] = chosen[0].value
            taken = f"{name!r} is the name of {_file(chosen[0].value)}, choose another"
            others = [one for one in same_name.values() if one is not chosen[0]]
            broken += [f"{one.source.label} is left out: {taken}" for one in others]
        else:
            where = " and ".join(
                _file(one.value) if one.source.is_shipped else one.source.label for one in chosen
            )
            broken.append(f"{where} are left out: both are named {name!r}, rename one")
    return Found(used, tuple(dict.fromkeys(broken)))


def _sources(package: ModuleType, group: str) -> Iterator[_Source]:
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        label = f"{module.name.removeprefix('faultline.').replace('.', '/')}.py"
        yield _Source(label, partial(import_module, module.name), is_shipped=True)
    for path, load in plugged.files().items():
        yield _Source(path, load, is_shipped=False)
    for point in sorted(entry_points(group=group), key=lambda point: (point.name, point.value)):
        origin = f" of {point.dist.name}" if point.dist else ""
        label = f"{group}: {point.name}{origin} ({point.value})"
        yield _Source(label, point.load, is_shipped=False)


def _named_in(loaded: Any, base: type[Named], from_shipped: bool) -> list[type[Named]]:
    if isinstance(loaded, ModuleType):
        values = vars(loaded).values()
        own = [value for value in values if isinstance(value, type) and issubclass(value, base)]
        # Shipped classes that a plug-in imports do not belong to it.
        own = [value for value in own if from_shipped or not is_shipped(value)]
        return [value for value in own if "name" in vars(value)]
    if isinstance(loaded, type) and issubclass(loaded, base) and "name" in vars(loaded):
        return [loaded]
    raise TypeError(f"has no subclass of {base.__name__} with its own name")


def is_shipped(value: type[Any]) -> bool:
    """Return whether a class is part of Faultline."""
    module = value.__module__
    return module.startswith("faultline.") and not module.startswith(f"{plugged.__name__}.")


def _fault(value: type[Any]) -> str:
    """Return why a class cannot be used; empty if it can."""
    if isabstract(value):
        lacking = sorted(getattr(value, "__abstractmethods__", ()))
        return f"{value.__name__} lacks {', '.join(lacking)}"
    name = vars(value)["name"]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return f"{value.__name__}.name is {name!r}: use small letters, digits and hyphens"
    if not isinstance(getattr(value, "summary", None), str):
        return f"{value.__name__} lacks a summary: describe it in one line"
    options = getattr(value, "Options", None)
    if not (isinstance(options, type) and issubclass(options, StrategyOptions)):
        return f"{value.__name__}.Options is not a subclass of StrategyOptions"
    if not is_shipped(value):
        # Options are built when first used, those of a plug-in where what is wrong can be told.
        try:
            options.model_rebuild()
        except Exception as error:
            return _error_line(error)
    return ""


def _file(value: type[Any]) -> str:
    return f"{value.__module__.removeprefix('faultline.').replace('.', '/')}.py"


def _error_line(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}" if error.lineno else str(error.msg)
    return text_of(error)
