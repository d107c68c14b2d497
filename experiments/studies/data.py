"""Tables that a study keeps beside its code, in ``studies/NAME/data``: what is published, say."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def read_rows(study: str, table: str) -> tuple[dict[str, Any], ...]:
    """Return the rows of a table of a study; lines that begin with # say where they come from.

    Numbers are numbers, ``yes`` is true, ``no`` is false, and an empty cell is left out: a row is
    keywords of a call, and what it does not say is left to the default.
    """
    path = files("faultline.experiments.studies").joinpath(study, "data", f"{table}.csv")
    text = path.read_text("utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return tuple(
        {name: _value(text) for name, text in row.items() if text} for row in csv.DictReader(lines)
    )


def _value(text: str) -> Any:
    if text in ("yes", "no"):
        return text == "yes"
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        return text
