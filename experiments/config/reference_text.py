"""The reference of scenarios as text: a key for the terminal, all of them as a Markdown page."""

from __future__ import annotations

from collections.abc import Mapping

from faultline.experiments.config.reference import KeyReference, keys_of_table, scenario_reference

REGENERATE = "faultline scenario reference > docs/scenario-reference.md"

_NO_DEFAULTS = ("unset", "required")
_INTRODUCTION = f"""\
# Every key of a scenario

<!-- Made by `{REGENERATE}`; do not edit. -->

A scenario is a TOML file. Every key has a default, so that a file states what differs; each can be
set on the command line too, as in `--set job.groups=600`. Times are in seconds, sizes in bytes. The
unit 1 stands for counts, ratios and exponents.

`faultline scenario explain KEY` shows one of the entries below. `faultline scenario show FILE` says
what every key is in a scenario, and why. `faultline scenario check FILE` names all mistakes of a
file. [rules.md](rules.md) discusses the named choices that decide how failures are treated.
"""


def overview() -> str:
    """Return a line for each table, and for each key outside of tables."""
    tables = [known for known in scenario_reference().values() if known.is_table]
    outside = [known for known in keys_of_table(()) if not known.is_table]
    return "\n".join(
        [
            *_columns({known.dotted: known.summary for known in outside}),
            *_columns({f"[{table.dotted}]": table.summary for table in tables}),
        ]
    )


def explained(known: KeyReference) -> str:
    """Return the entry of a key, or what is in a table, for a terminal."""
    if known.is_table:
        keys = {_with_default(key): key.summary for key in keys_of_table(known.path)}
        return "\n".join([f"[{known.dotted}]", f"  {known.meaning}", "", *_columns(keys, "  ")])
    facts = {
        "written": known.kind,
        "unit": known.unit or "",
        "default": known.default,
        "range": known.limits,
        "counts": _condition(known),
        "source": known.source,
    }
    lines = [known.dotted, f"  {known.meaning}", ""]
    lines += _columns({name: fact for name, fact in facts.items() if fact}, "  ")
    if known.choices:
        named = {f'"{name}"': meaning for name, meaning in known.choices.items()}
        lines += ["  choices", *_columns(named, "    ")]
    return "\n".join(lines)


def reference_page() -> str:
    """Return the Markdown page of all keys."""
    sections = [
        _section(f"`[{table.dotted}]`", table.meaning, keys_of_table(table.path))
        for table in scenario_reference().values()
        if table.is_table
    ]
    outside = _section("Outside of tables", "", keys_of_table(()))
    return "\n".join([_INTRODUCTION, outside, *sections])


def _columns(entries: Mapping[str, str], indent: str = "") -> list[str]:
    width = max(map(len, entries), default=0)
    return [f"{indent}{name:{width}}  {text}".rstrip() for name, text in entries.items()]


def _with_default(known: KeyReference) -> str:
    name = known.path[-1]
    if known.is_table:
        return f"[{known.dotted}]"
    return name if known.default in _NO_DEFAULTS else f"{name} = {known.default}"


def _condition(known: KeyReference) -> str:
    needed = [f"{key} = {' or '.join(values)}" for key, values in known.only_with.items()]
    return f"only with {' and '.join(needed)}" if needed else ""


def _section(title: str, meaning: str, keys: list[KeyReference]) -> str:
    rows = [
        "| key | default | unit | range | meaning | where the default comes from |",
        "| --- | --- | --- | --- | --- | --- |",
        *(_row(key) for key in keys if not key.is_table),
    ]
    return "\n".join([f"## {title}", "", *([meaning, ""] if meaning else []), *rows, ""])


def _row(known: KeyReference) -> str:
    meaning = known.meaning
    if known.choices:
        listed = "<br>".join(f'`"{name}"`: {text}' for name, text in known.choices.items())
        meaning = f"{meaning}<br>{listed}"
    if condition := _condition(known):
        meaning = f"{meaning}<br>Counts {condition}."
    default = known.default if known.default in _NO_DEFAULTS else f"`{known.default}`"
    cells = (f"`{known.path[-1]}`", default, known.unit or "", known.limits, meaning, known.source)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
