"""Calls into foreign classes: whatever they raise is reported and never ends the program.

``sys.exit(0)`` in a scheme would end a run without a result and without an error. A
`BrokenPipeError` would be taken for a closed output, and a `KeyboardInterrupt` for the user's. An
error that passes is noted with the method it comes from, as its text may be empty.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from opcode import opmap
from types import FunctionType
from typing import Any

from faultline.strategies.errors import StrategyError

_OWN = "__faultline_guarded__"


def is_foreign(error: BaseException) -> bool:
    """Return whether an error of other code would be taken for the program's or the user's own."""
    if isinstance(error, KeyboardInterrupt):
        return _is_raised(error)
    return isinstance(error, OSError) or not isinstance(error, Exception)


def text_of(error: BaseException) -> str:
    """Return the kind of an error, its message and its notes, in one line."""
    try:
        text = str(error)
    except Exception:  # Whatever a class of others makes of it.
        text = ""
    line = " ".join(f"{type(error).__name__}: {text}".split()).removesuffix(":")
    return " ".join([line, *(f"({note})" for note in getattr(error, "__notes__", ()))])


def guard(value: type[Any], is_shipped: Callable[[type[Any]], bool]) -> None:
    """Wrap the methods and properties that a class of others defines, once."""
    for each in value.__mro__:
        known = is_shipped(each) or each.__module__.partition(".")[0] in sys.stdlib_module_names
        if known or _OWN in vars(each):
            continue
        for name, member in list(vars(each).items()):
            called = f"{value.__name__}.{name}"
            if isinstance(member, FunctionType):
                setattr(each, name, _guarded(member, called))
            elif isinstance(member, (staticmethod, classmethod)):
                setattr(each, name, type(member)(_guarded(member.__func__, called)))
            elif isinstance(member, property) and member.fget:
                setattr(each, name, member.getter(_guarded(member.fget, called)))
        setattr(each, _OWN, True)


def _guarded(function: Callable[..., Any], called: str) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        streams = sys.stdout, sys.stderr
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            if not is_foreign(error):
                if not (isinstance(error, StrategyError) or hasattr(error, "__notes__")):
                    error.add_note(f"raised in {called}")
                raise
            raise StrategyError(
                called, f"raised {text_of(error)}", "return from it, or raise a StrategyError"
            ) from error
        finally:
            # The result is printed there.
            sys.stdout, sys.stderr = streams

    return call


def _is_raised(error: BaseException) -> bool:
    """Return whether a statement raised an error: a signal interrupts at any other instruction."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return False
    return last.tb_frame.f_code.co_code[last.tb_lasti] == opmap["RAISE_VARARGS"]
