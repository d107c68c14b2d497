"""Tables beside the code of a study, in ``studies/NAME/data``, such as published values."""

from __future__ import annotations

import csv
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any, cast


@cache
def read_rows(study: str, table: str) -> tuple[dict[str, Any], ...]:
    """Return the rows of a table of a study; lines that begin with # name the sources.

    Numbers are numbers, ``yes`` is true, ``no`` is false, and an empty cell is omitted. A row has
    the keyword arguments of a call; an omitted one keeps its default.
    """
    path = files("faultline.experiments.studies").joinpath(study, "data", f"{table}.csv")
    text = path.read_text("utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return tuple(
        {name: value_of(text) for name, text in row.items() if text}
        for row in csv.DictReader(lines)
    )


def rows_if_any(study: str, table: str) -> tuple[dict[str, Any], ...]:
    """Return the rows of a table as `read_rows` does; none if the study has no such table."""
    try:
        return read_rows(study, table)
    except FileNotFoundError:
        return ()


def settings_of(study: str, part: str) -> dict[str, Any]:
    """Return a part of ``data/settings.csv`` of a study, by key; an empty value unsets its key."""
    listed = read_rows(study, "settings")
    return {line["key"]: line.get("value") for line in listed if line["part"] == part}


def published_value(study: str, quantity: str, scheme: str, setting: str) -> float:
    """Return the published value of a row in ``data/published_values.csv`` of a study."""
    value = value_if_published(study, quantity, scheme, setting)
    if value is None:
        raise KeyError((quantity, scheme, setting))
    return value


def value_if_published(study: str, quantity: str, scheme: str, setting: str) -> float | None:
    """Return the published value of a row: the first matching line of the study's table.

    Columns of ``data/published_values.csv`` are ``quantity``, ``scheme``, ``setting`` and
    ``published``; texts are patterns (``*`` matches anything, empty all). None if no line matches.
    """
    row = {"quantity": quantity, "scheme": scheme, "setting": setting}
    for line in rows_if_any(study, "published_values"):
        if all(fnmatchcase(text, str(line.get(name, "*"))) for name, text in row.items()):
            return cast("float", line["published"])
    return None


def parts_of(text: Any) -> list[str]:
    """Return the parts of a cell that "; " separates; an empty cell has none."""
    return str(text).split("; ") if text not in (None, "") else []


def value_of(text: str) -> Any:
    """Return the value of a cell: a number, yes or no, or the text itself."""
    if text in ("yes", "no"):
        return text == "yes"
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        return text
