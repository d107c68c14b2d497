"""A resolved scenario as a TOML file, each key with its unit, its origin and its meaning."""

from __future__ import annotations

from importlib.metadata import version

import tomlkit
from faultline.experiments.config.keys import KeyPath
from faultline.experiments.config.toml_text import toml_item, written
from faultline.experiments.job.resolved_keys import ResolvedKey, ResolvedScenario
from tomlkit.items import Table

_WIDEST_KEY = 40
_LINE_LENGTH = 120


def scenario_toml(
    resolved: ResolvedScenario, *, comments: bool = True, everything: bool = False
) -> str:
    """Return a TOML file that asks the same as the scenario, with every value stated.

    Parameters
    ----------
    resolved : ResolvedScenario
        The scenario.
    comments : bool
        Whether each key has a comment: its unit, where its value comes from, what it means.
    everything : bool
        Whether keys on which nothing depends are there too, though nobody stated them.
    """
    document = tomlkit.document()
    if comments:
        by = f"Resolved by Faultline {version('faultline')}."
        document.add(tomlkit.comment(f"{by} A comment says [unit, origin] meaning;"))
        document.add(tomlkit.comment("`faultline scenario explain KEY` tells more."))
        document.add(tomlkit.nl())
    tables: dict[KeyPath, tomlkit.TOMLDocument | Table] = {(): document}
    for path, keys in _by_table(resolved, everything).items():
        if path not in tables:
            tables[path] = tomlkit.table()
            tables[path[:-1]].add(path[-1], tables[path])
        _fill(tables[path], keys, comments)
    return tomlkit.dumps(document)


def _by_table(resolved: ResolvedScenario, everything: bool) -> dict[KeyPath, list[ResolvedKey]]:
    """Return the keys of each table; a table comes after the one it stands in."""
    tables: dict[KeyPath, list[ResolvedKey]] = {(): []}
    for path, key in resolved.keys.items():
        if everything or key.counts or key.origin in ("stated", "--set"):
            for length in range(1, len(path)):
                tables.setdefault(path[:length], [])
            tables[path[:-1]].append(key)
    return tables


def _fill(table: tomlkit.TOMLDocument | Table, keys: list[ResolvedKey], comments: bool) -> None:
    widths = [_width(key) for key in keys if key.value is not None]
    column = max((width for width in widths if width <= _WIDEST_KEY), default=0) + 2
    for key in keys:
        name = key.reference.path[-1]
        if key.value is None:
            if comments:
                table.add(tomlkit.comment(f"{name}:".ljust(column) + remark(key)))
            continue
        item = toml_item(key.value)
        if comments and _width(key) <= _WIDEST_KEY:
            item.comment(remark(key, _LINE_LENGTH - column))
            item.trivia.comment_ws = " " * (column - _width(key))
        table.add(name, item)


def _width(key: ResolvedKey) -> int:
    """Return how many columns the key and its value take, or a lot for a text of several lines."""
    text = f"{key.reference.path[-1]} = {written(key.value)}"
    return len(text) if "\n" not in text else len(text) + _WIDEST_KEY


def remark(key: ResolvedKey, longest: int = 1000) -> str:
    """Return a key's unit, the origin of its value and its meaning, in a line.

    What a choice means is left out where the line would become longer than `longest`.
    """
    reference = key.reference
    said: list[str] = [reference.unit] if reference.unit not in (None, "1") else []
    said.append(key.origin)
    if not key.counts:
        said.append("not in force")
    start, end = f"[{', '.join(said)}] {reference.summary}", ""
    if key.outcome:
        end = f": here {key.outcome}"
    elif key.origin == "derived" and not reference.choices:
        end = f": {reference.source.removeprefix('derived: ')}"
    elif isinstance(key.value, str) and reference.choices.get(key.value):
        end = f": {reference.choices[key.value]}"
    return start + end if len(start + end) <= longest else start
