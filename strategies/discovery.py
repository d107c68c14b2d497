"""Finds the classes of a package by their names, so that a new one joins by its own file alone."""

from __future__ import annotations

import pkgutil
from collections import defaultdict
from dataclasses import dataclass
from importlib import import_module
from inspect import isabstract
from types import ModuleType
from typing import Generic, TypeVar

from faultline.strategies.errors import StrategyError

Named = TypeVar("Named")


@dataclass(frozen=True, slots=True)
class Found(Generic[Named]):
    """What a package has.

    Attributes
    ----------
    classes : dict of str to type
        By name; only those that nothing is wrong with.
    broken : tuple of str
        A line for each file that cannot be used, and for each name that two classes claim.
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


def classes_with_a_name(package: ModuleType, base: type[Named]) -> Found[Named]:
    """Return every subclass of `base` with a `name` in the modules of a package.

    A module that cannot be imported takes nobody else down with it. Of two classes with one name
    neither is used, as which one was meant cannot be known.
    """
    claims: dict[str, dict[str, type[Named]]] = defaultdict(dict)
    broken = []
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        try:
            values = vars(import_module(module.name)).values()
        except Exception as error:
            broken.append(f"{_file(module.name)} is left out: {_told(error)}")
            continue
        for value in values:
            if isinstance(value, type) and issubclass(value, base) and "name" in vars(value):
                if isabstract(value):
                    lacking = sorted(getattr(value, "__abstractmethods__", ()))
                    lacks = f"{value.__name__} lacks {', '.join(lacking)}"
                    broken.append(f"{_file(module.name)} is left out: {lacks}")
                else:
                    claims[vars(value)["name"]][value.__module__ + value.__qualname__] = value
    for name, classes in claims.items():
        if len(classes) > 1:
            where = " and ".join(_file(one.__module__) for one in classes.values())
            broken.append(f"{where} are left out: both are called {name!r}, rename one")
    once = {name: next(iter(them.values())) for name, them in claims.items() if len(them) == 1}
    return Found(dict(sorted(once.items())), tuple(dict.fromkeys(broken)))


def _file(module: str) -> str:
    return f"{module.removeprefix('faultline.').replace('.', '/')}.py"


def _told(error: Exception) -> str:
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    return f"{type(error).__name__}: {error}"
