"""Guards calls into plug-in classes: no error of theirs ends the program unreported.

``sys.exit(0)`` in a scheme would end a run without a result and without an error. A
`BrokenPipeError` would be mistaken for a closed output, a `KeyboardInterrupt` for the user's. Other
errors pass with a note that names the method, because their text may be empty.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from opcode import opmap
from types import FunctionType
from typing import Any

from faultline.strategies.interface.errors import StrategyError

_GUARDED = "__faultline_guarded__"


def is_foreign(error: BaseException) -> bool:
    """Return whether a plug-in's error would be mistaken for one of the program or the user."""
    if isinstance(error, KeyboardInterrupt):
        return _is_raised(error)
    return isinstance(error, OSError) or not isinstance(error, Exception)


def text_of(error: BaseException) -> str:
    """Return the kind of an error, its message and its notes, in one line."""
    try:
        text = str(error)
    except Exception:  # A plug-in's error class may raise in `__str__`.
        text = ""
    line = " ".join(f"{type(error).__name__}: {text}".split()).removesuffix(":")
    return " ".join([line, *(f"({note})" for note in getattr(error, "__notes__", ()))])


def guard(plugin: type[Any], is_shipped: Callable[[type[Any]], bool]) -> None:
    """Wrap the methods and properties of a plug-in class and its own bases, once."""
    for cls in plugin.__mro__:
        trusted = is_shipped(cls) or cls.__module__.partition(".")[0] in sys.stdlib_module_names
        if trusted or _GUARDED in vars(cls):
            continue
        for name, member in list(vars(cls).items()):
            method = f"{plugin.__name__}.{name}"
            if isinstance(member, FunctionType):
                setattr(cls, name, _guarded(member, method))
            elif isinstance(member, (staticmethod, classmethod)):
                setattr(cls, name, type(member)(_guarded(member.__func__, method)))
            elif isinstance(member, property) and member.fget:
                setattr(cls, name, member.getter(_guarded(member.fget, method)))
        setattr(cls, _GUARDED, True)


def _guarded(function: Callable[..., Any], method: str) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        streams = sys.stdout, sys.stderr
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            if not is_foreign(error):
                if not (isinstance(error, StrategyError) or hasattr(error, "__notes__")):
                    error.add_note(f"raised in {method}")
                raise
            raise StrategyError(
                method, f"raised {text_of(error)}", "return from it, or raise a StrategyError"
            ) from error
        finally:
            # A plug-in may have replaced the streams to which the result is printed.
            sys.stdout, sys.stderr = streams

    return call


def _is_raised(error: BaseException) -> bool:
    """Return whether a ``raise`` statement raised an error, rather than a signal."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return False
    return last.tb_frame.f_code.co_code[last.tb_lasti] == opmap["RAISE_VARARGS"]
