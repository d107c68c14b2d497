"""TOML: a reader that reports all mistakes (the standard library stops at the first), a writer.

Values are written for people: 2e13 and 600_000, long texts over several lines.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from faultline.experiments.config.errors import Location, Mistake, UserError, and_more
from faultline.platforms.errors import nearest
from faultline.platforms.files import MEBIBYTE, read_text
from faultline.platforms.preset_library import preset_names
from faultline.platforms.toml_lines import key_lines, load_toml

if TYPE_CHECKING:
    from tomlkit.items import Item
    from typing_extensions import Self


if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_BARE_WORD = re.compile(r"\s*(?P<key>[\w.\- ]+?)\s*=\s*(?P<word>[A-Za-z][\w./\-]*)\s*(?:#.*)?")
_REPEATED = ("Cannot overwrite", "Cannot declare", "Cannot mutate", "Duplicate")
_MOST_MISTAKES = 20
_MOST_READ_AGAIN = 2_000_000
_LINE_LENGTH = 80


LARGEST_BYTES = MEBIBYTE
"""More than any file that is written by hand."""


_FOLDERS = {"scenario": "scenarios", "grid": "grids", "mix": "mixes"}
"""Folders of shipped files, by their kind."""


@dataclass(frozen=True, slots=True)
class Library:
    """TOML files of one kind: the shipped ones by name, a user's own by path."""

    kind: str  # Its name in messages.
    folder: str  # Folder of the shipped files, in this package.

    def names(self) -> list[str]:
        """Return the names of the shipped files."""
        shipped = files("faultline.experiments.config").joinpath(self.folder).iterdir()
        return sorted(
            file.name.removesuffix(".toml") for file in shipped if file.name.endswith(".toml")
        )

    def text(self, name_or_path: str, called: str = "") -> str:
        """Return the text of a shipped file by its name, or of a user's file by its path.

        Messages call it `called`. Raises UserError if there is no such file, or it is unreadable.
        """
        shipped = self.names()
        if name_or_path in shipped:
            folder = files("faultline.experiments.config").joinpath(self.folder)
            return folder.joinpath(f"{name_or_path}.toml").read_text(encoding="utf-8")
        try:
            return read_text(name_or_path, LARGEST_BYTES)
        except OSError as error:
            what, remedy = str(error.strerror), ""
            if isinstance(error, FileNotFoundError):
                kind = self._other_kind(name_or_path.lower())
                what = f"that is a {kind}" if kind else "no such file"
                remedy = "" if kind else nearest(name_or_path, shipped)
            place = called or name_or_path
            remedy = remedy or f"; name a {self.kind} ({', '.join(shipped)}) or a TOML file"
            raise UserError(f"{place}: {what}{remedy}") from error

    def _other_kind(self, name: str) -> str | None:
        """Return the kind of a shipped thing of another kind; None if nothing has this name."""
        from faultline.strategies.plugins.registry import all_protections, all_strategies

        others = {
            kind: Library(kind, place).names()
            for kind, place in _FOLDERS.items()
            if kind != self.kind
        }
        others |= {"scheme": [*all_strategies()], "protection": [*all_protections()]}
        others["platform"] = [*preset_names()]
        return next((kind for kind, names in others.items() if name in names), None)


@dataclass(frozen=True, slots=True)
class SyntaxMistake:
    """A syntax mistake of a TOML text."""

    line: int | None  # From 1; None if unknown.
    what: str  # In one line.
    repeated: bool = False  # Whether the line is correct, but repeats an earlier one.


@dataclass
class TomlSource:
    """The tables of a TOML file, with its text, to find the lines of keys."""

    origin: str  # Its name in messages: a path, or the name of a shipped file.
    tables: dict[str, Any]  # Nested tables; only the readable ones if there are mistakes.
    syntax_mistakes: list[SyntaxMistake] = field(default_factory=list)
    text: str = ""  # Empty if the tables do not come from a text.

    @classmethod
    def of_text(cls, origin: str, text: str) -> Self:
        """Return the source with this text; its syntax mistakes are kept and not raised."""
        return cls(origin, *parse_toml(text), text)

    @cached_property
    def lines(self) -> Mapping[tuple[str, ...], int]:
        """Lines of all keys and tables of the text, by their paths; computed on first use."""
        return key_lines(self.text)

    def line_of(self, location: Location) -> int | None:
        """Return the line of a key, or of the closest table around it; None if there is none."""
        # Dots divide quoted keys, too, since `lines` does not distinguish them.
        stated = (part for part in location if isinstance(part, str))
        names = tuple(name for part in stated for name in part.split("."))
        for length in range(len(names), 0, -1):
            if names[:length] in self.lines:
                return self.lines[names[:length]]
        return None

    def place(self, line: int | None) -> str:
        """Return a line of the file for a message."""
        return self.origin if line is None else f"{self.origin}:{line}"

    def place_of(self, location: Location) -> str:
        """Return the line of a key for a message."""
        return self.place(self.line_of(location))

    def syntax_error(self, mistake: SyntaxMistake) -> str:
        """Return a mistake of the text with its place, as one line."""
        return f"{self.place(mistake.line)}: this is no TOML: {mistake.what}"

    def check_syntax(self) -> None:
        """Refuse a text that is no TOML.

        Raises UserError, which names the first mistake and the number of others.
        """
        if self.syntax_mistakes:
            first, *others = self.syntax_mistakes
            raise UserError(self.syntax_error(first) + and_more(len(others)))

    def text_of(self, mistake: Mistake) -> str:
        """Return a mistake with its place, as one line."""
        return f"{self.place_of(mistake.location)}: {mistake.describe()}"

    def refusal(self, mistakes: Sequence[Mistake]) -> UserError:
        """Return the error that names the first mistake and the number of others."""
        return UserError(self.text_of(mistakes[0]) + and_more(len(mistakes) - 1))


def parse_toml(text: str) -> tuple[dict[str, Any], list[SyntaxMistake]]:
    """Return the tables of a TOML text and its mistakes.

    After a mistake within one line, the text is read again without that line, or without its table
    if the line begins one. If the end of a mistake is unknown, the mistakes so far and no tables
    are returned.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    mistakes: list[SyntaxMistake] = []
    # Reading a long text takes time, so it is read again less often.
    most = min(_MOST_MISTAKES, 1 + _MOST_READ_AGAIN // (len(text) + 1))
    while len(mistakes) < most:
        read = _read(lines)
        if isinstance(read, dict):
            return read, mistakes
        mistakes.append(read)
        if not _leave_out(read, lines):
            break
    return {}, mistakes


def parse_toml_value(text: str) -> Any:
    """Return a single TOML value; any other text is a string without quotes."""
    try:
        tables = load_toml(f"value = {text}")
    except (ValueError, OverflowError, RecursionError):
        return text
    return tables["value"] if len(tables) == 1 else text


def _read(lines: list[str]) -> dict[str, Any] | SyntaxMistake:
    try:
        return load_toml("\n".join(lines))
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
    """Empty the line of a mistake, or its table; False if the mistake may be in another line."""
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
        load_toml(line.strip())
    except (ValueError, RecursionError):
        return True
    return False


def toml_item(value: Any) -> Item:
    """Return a value as an item of a TOML document."""
    import tomlkit
    from tomlkit.items import Float, Integer, Trivia

    if isinstance(value, int) and not isinstance(value, bool):
        return Integer(value, Trivia(), f"{value:_}" if abs(value) >= 10_000 else str(value))
    if isinstance(value, float):
        return Float(value, Trivia(), _shortest(value))
    if isinstance(value, str) and len(value) > _LINE_LENGTH:
        return _long_text(value)
    if isinstance(value, dict):
        inline = tomlkit.inline_table()
        inline.update(value)
        return inline
    item: Item = tomlkit.item(value)
    return item


def written(value: Any) -> str:
    """Return a value in TOML."""
    return toml_item(value).as_string()


def _shortest(value: float) -> str:
    """Return a text that reads back as the same number: 340.0, or 2e13 if that is shorter."""
    short = f"{value:g}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")
    return short if "e" in short and float(short) == value else repr(value)


def _long_text(value: str) -> Item:
    """Break a text into lines of a TOML text, if it has single blanks only."""
    import tomlkit

    item: Item = tomlkit.string(value)
    quoted = item.as_string()[1:-1]
    if "  " in value or value != value.strip() or quoted.endswith("\\"):
        return item
    lines = wrap(quoted, _LINE_LENGTH - 2, break_long_words=False, break_on_hyphens=False)
    broken = tomlkit.value('"""\\\n' + " \\\n".join(lines) + '"""')
    return broken if broken.unwrap() == value else item
