"""TOML read with every mistake named, where the standard library stops at the first."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import Any

from faultline.platforms.toml_lines import key_lines

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_BARE_WORD = re.compile(r"\s*(?P<key>[\w.\- ]+?)\s*=\s*(?P<word>[A-Za-z][\w./\-]*)\s*(?:#.*)?")
# The library's time grows with the square of the parts of a key.
_ENDLESS_KEY = re.compile(
    r"""(?<![\w\-"'.])(?:(?:[\w\-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){50}"""
)
_REPEATED = ("Cannot overwrite", "Cannot declare", "Cannot mutate", "Duplicate")
_MOST_MISTAKES = 20


@dataclass(frozen=True, slots=True)
class SyntaxMistake:
    """What makes a text no TOML.

    Attributes
    ----------
    line : int or None
        Where, from 1; None where nobody knows.
    what : str
        What is wrong, in one line.
    repeated : bool
        Whether the line would be right if it were not there already.
    """

    line: int | None
    what: str
    repeated: bool = False


def parse_toml(text: str) -> tuple[dict[str, Any], list[SyntaxMistake]]:
    """Return the tables of a TOML text and its mistakes.

    After a mistake that lies in one line, the text is read again without that line, or without
    its table where the line begins one. Where it cannot be told how far a mistake reaches, the
    first ones and no tables are returned.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    mistakes: list[SyntaxMistake] = []
    while len(mistakes) < _MOST_MISTAKES:
        read = _read(lines)
        if isinstance(read, dict):
            return read, mistakes
        mistakes.append(read)
        if not _leave_out(read, lines):
            break
    return {}, mistakes


def parse_toml_value(text: str) -> Any:
    """Return a single TOML value; text that is none stands for itself, without quotes."""
    try:
        tables = _loads(f"value = {text}")
    except (ValueError, OverflowError, RecursionError):
        return text
    return tables["value"] if len(tables) == 1 else text


def _loads(text: str) -> dict[str, Any]:
    if _ENDLESS_KEY.search(text):
        raise RecursionError
    return tomllib.loads(text)


def _read(lines: list[str]) -> dict[str, Any] | SyntaxMistake:
    try:
        return _loads("\n".join(lines))
    except tomllib.TOMLDecodeError as error:
        return _explain(str(error), lines)
    except RecursionError:
        return SyntaxMistake(None, "lists or tables are nested too deeply")
    except (ValueError, OverflowError):
        # Python refuses to read whole numbers of thousands of digits.
        return SyntaxMistake(None, "a number has too many digits")


def _explain(message: str, lines: list[str]) -> SyntaxMistake:
    place = _PLACE.search(message)
    if place is None or place[1] is None:
        return SyntaxMistake(len(lines), f"{_decapitalised(_PLACE.sub('', message))} at the end")
    number, what = int(place[1]), message[: place.start()]
    if what.startswith(_REPEATED):
        return SyntaxMistake(number, _repetition(lines, number), repeated=True)
    if word := _BARE_WORD.fullmatch(lines[number - 1]):
        if word["word"].lower() in ("true", "false"):
            return SyntaxMistake(number, f"write {word['key']} = {word['word'].lower()}")
        return SyntaxMistake(number, f'text needs quotes: {word["key"]} = "{word["word"]}"')
    return SyntaxMistake(number, f"{_decapitalised(what)} at column {place[2]}")


def _decapitalised(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _repetition(lines: list[str], number: int) -> str:
    path = _path_in(lines, number)
    first = key_lines("\n".join(lines)).get(path)
    before = f" in line {first}" if first is not None and first < number else ""
    return f"{'.'.join(path) or 'this'} is there already{before}; keep one of them"


def _path_in(lines: list[str], number: int) -> tuple[str, ...]:
    """Return the path of the key or table that a line (from 1) states; empty if it states none."""
    line = lines[number - 1]
    headers = [before for before in lines[: number - 1] if _begins_table(before)]
    context = [] if _begins_table(line) else headers[-1:]
    return max(key_lines("\n".join([*context, line])), key=len, default=())


def _begins_table(line: str) -> bool:
    return line.lstrip().startswith("[")


def _leave_out(mistake: SyntaxMistake, lines: list[str]) -> bool:
    """Empty the line of a mistake, or the table it begins; False if it may lie elsewhere."""
    if mistake.line is None or not lines[mistake.line - 1].strip():
        return False
    first = end = mistake.line - 1
    if _begins_table(lines[first]):
        end += 1
        while end < len(lines) and not _begins_table(lines[end]):
            end += 1
    elif mistake.repeated or _wrong_by_itself(lines[first]):
        end += 1
    lines[first:end] = [""] * (end - first)
    return end > first


def _wrong_by_itself(line: str) -> bool:
    try:
        _loads(line.strip())
    except (ValueError, RecursionError):
        return True
    return False
