"""What pydantic has against the tables of a file, as lines for people."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, time
from difflib import get_close_matches
from functools import partial
from typing import Any

from faultline.experiments.config.errors import printable
from faultline.experiments.config.keys import Schema, remedy_for, schema_path
from pydantic import ValidationError

Location = tuple[str | int, ...]

_LONGEST_QUOTE = 60
_SUBJECT = re.compile(r"^(?:Input |String |List |Value error, )")
_PHRASES = {
    "model_type": "should be a table",
    "model_attributes_type": "should be a table",
    "list_type": "should be a list",
    "string_type": "should be text",
    "string_unicode": "should be text that can be printed",
    "bool_type": "should be true or false",
    "float_type": "should be a valid number",
}


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in the tables of a file.

    Attributes
    ----------
    location : tuple
        Path of the key at fault, with positions in lists; empty where none is named.
    describe : callable
        Returns one line: the key, what is wrong, and what would be right. To find the likely key
        takes a while, which is spent on mistakes that are told only.
    """

    location: Location
    describe: Callable[[], str]


def mistakes_in(error: ValidationError, schema: Schema) -> list[Mistake]:
    """Return all that is wrong with tables by a schema."""
    return [
        Mistake(mistake["loc"], partial(_describe, mistake, schema))
        for mistake in error.errors(include_url=False)
    ]


def and_more(mistakes: int) -> str:
    """Return how many mistakes there are besides the one that is told, for the end of its line."""
    return f" (and {mistakes} more)" if mistakes else ""


def quote(value: object) -> str:
    """Return a value as a message shows it: on one line, and not too long."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value.bit_length() > 64:
        return "a number of more than 64 bits"
    if isinstance(value, str):
        return _shortened(repr(value[: 2 * _LONGEST_QUOTE]))
    if isinstance(value, (int, float, date, time)):
        return str(value)
    return "a table" if isinstance(value, Mapping) else "a list"


def dotted(location: Location) -> str:
    """Return a path as a message shows it; positions in lists count from 1, in brackets."""
    name = ""
    for part in location:
        if isinstance(part, int):
            name += f"[{part + 1}]"
        else:
            name += ("." if name else "") + (part or '""')
    return _shortened(printable(name))


def _shortened(text: str) -> str:
    half = _LONGEST_QUOTE // 2
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:half]}…{text[-half:]}"


def _describe(mistake: Any, schema: Schema) -> str:
    location: Location = mistake["loc"]
    kind, given = mistake["type"], mistake["input"]
    key = dotted(location)
    if kind == "extra_forbidden":
        return f"{key}: unknown key; {remedy_for(schema_path(location, schema), schema)}"
    if kind == "missing":
        return f"{key}: is missing"
    what = _PHRASES.get(kind) or _SUBJECT.sub("", mistake["msg"])
    if kind == "literal_error" and isinstance(given, str):
        what += _likely_choice(given, mistake["ctx"]["expected"])
    if isinstance(given, Mapping) and kind == "value_error":
        # The table as a whole is at fault, and says itself what is wrong with it.
        return f"{key}: {what}" if key else what
    return f"{key} = {quote(given)}: {what}"


def _likely_choice(given: str, expected: str) -> str:
    choices = [choice for choice in expected.split("'") if choice.strip(" ,") not in ("", "or")]
    close = get_close_matches(given[:_LONGEST_QUOTE], choices, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
