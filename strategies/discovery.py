"""Finds classes by their names, so that a new one joins by its own file or its own package.

They come from the modules of a package of ours, from files that a user names (`plugged`), and from
installed packages, which name theirs as entry points.
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
from faultline.strategies.guarding import guard, is_foreign, told

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

Named = TypeVar("Named")


@dataclass(frozen=True, slots=True)
class Found(Generic[Named]):
    """What a package has: classes by name, those that nothing is wrong with.

    `broken` has a line for each file that cannot be used, and each name that two classes claim.
    """

    classes: dict[str, type[Named]]
    broken: tuple[str, ...]

    def get(self, where: str, kind: str, name: str) -> type[Named]:
        """Return the class of a name.

        Raises
        ------
        StrategyError
            If there is none, with what is broken: it may be that.
        """
        if name in self.classes:
            return self.classes[name]
        what = "; ".join((f"there is no {kind} {name!r}", *self.broken))
        raise StrategyError(where, what, f"use one of {', '.join(self.classes)}")


class _Place(NamedTuple):
    """Where classes may be: how to call it, how to get at it, and whether it comes with us."""

    called: str
    load: Callable[[], Any]
    is_ours: bool


class _Claim(NamedTuple):
    """A class that wants to be known by its name, and where it was found."""

    value: type[Any]
    place: _Place


def classes_with_a_name(package: ModuleType, base: type[Named], group: str) -> Found[Named]:
    """Return every subclass of `base` with a `name`.

    What cannot be imported takes nobody else down with it. Of two classes with one name neither is
    used, as which one was meant cannot be known; but nobody takes the name of one of ours.

    Parameters
    ----------
    package : module
        Of ours, whose modules are looked through.
    base : type
        What the classes derive from.
    group : str
        Entry points of installed packages: each names a class, or a module with classes.
    """
    claims: dict[str, dict[str, _Claim]] = {}
    broken = []
    for place in _places(package, group):
        try:
            found = _named_in(place.load(), base, place.is_ours)
        except BaseException as error:
            if not (isinstance(error, Exception) or is_foreign(error)):
                raise
            broken.append(f"{place.called} is left out: {_told(error)}")
            continue
        for value in found:
            wrong = _what_is_wrong(value)
            if wrong:
                broken.append(f"{place.called} is left out: {wrong}")
            else:
                same = claims.setdefault(vars(value)["name"], {})
                same.setdefault(value.__module__ + value.__qualname__, _Claim(value, place))
    used: dict[str, type[Named]] = {}
    for name, each in sorted(claims.items()):
        ours = [claim for claim in each.values() if claim.place.is_ours]
        chosen = ours or list(each.values())
        if len(chosen) == 1:
            if not chosen[0].place.is_ours:
                guard(chosen[0].value, is_shipped)
            used[name] = chosen[0].value
            taken = f"{name!r} is the name of {_file(chosen[0].value)}, choose another"
            others = [claim for claim in each.values() if claim is not chosen[0]]
            broken += [f"{claim.place.called} is left out: {taken}" for claim in others]
        else:
            where = " and ".join(
                _file(claim.value) if claim.place.is_ours else claim.place.called
                for claim in chosen
            )
            broken.append(f"{where} are left out: both are called {name!r}, rename one")
    return Found(used, tuple(dict.fromkeys(broken)))


def _places(package: ModuleType, group: str) -> Iterator[_Place]:
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        called = f"{module.name.removeprefix('faultline.').replace('.', '/')}.py"
        yield _Place(called, partial(import_module, module.name), is_ours=True)
    for path, load in plugged.files().items():
        yield _Place(path, load, is_ours=False)
    for point in sorted(entry_points(group=group), key=lambda one: (one.name, one.value)):
        origin = f" of {point.dist.name}" if point.dist else ""
        yield _Place(f"{group}: {point.name}{origin} ({point.value})", point.load, is_ours=False)


def _named_in(loaded: Any, base: type[Named], is_ours: bool) -> list[type[Named]]:
    if isinstance(loaded, ModuleType):
        values = vars(loaded).values()
        own = [one for one in values if isinstance(one, type) and issubclass(one, base)]
        # What a plug-in imports of ours is none of its own.
        own = [one for one in own if is_ours or not is_shipped(one)]
        return [one for one in own if "name" in vars(one)]
    if isinstance(loaded, type) and issubclass(loaded, base) and "name" in vars(loaded):
        return [loaded]
    raise TypeError(f"names no subclass of {base.__name__} with a name of its own")


def is_shipped(value: type[Any]) -> bool:
    """Return whether a class comes with Faultline."""
    module = value.__module__
    return module.startswith("faultline.") and not module.startswith(f"{plugged.__name__}.")


def _what_is_wrong(value: type[Any]) -> str:
    """Return why a class cannot be used; it would else be in every command's way."""
    if isabstract(value):
        lacking = sorted(getattr(value, "__abstractmethods__", ()))
        return f"{value.__name__} lacks {', '.join(lacking)}"
    name = vars(value)["name"]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return f"{value.__name__}.name is {name!r}: use small letters, digits and hyphens"
    if not isinstance(getattr(value, "summary", None), str):
        return f"{value.__name__} lacks a summary: say in a line what it is"
    options = getattr(value, "Options", None)
    if not (isinstance(options, type) and issubclass(options, StrategyOptions)):
        return f"{value.__name__}.Options is no subclass of StrategyOptions"
    return ""


def _file(value: type[Any]) -> str:
    return f"{value.__module__.removeprefix('faultline.').replace('.', '/')}.py"


def _told(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    return told(error)
