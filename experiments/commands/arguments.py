"""What ``faultline`` can be asked, without importing what answers it: ``--help`` is quick.

Commands are declared in ``commands.txt``, with their options as ``--help`` writes them. Whatever
takes long to import is imported where an argument needs it.
"""

from __future__ import annotations

import re
import sys
from argparse import (
    SUPPRESS,
    Action,
    ArgumentParser,
    ArgumentTypeError,
    HelpFormatter,
    Namespace,
)
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from sys import float_info
from textwrap import dedent
from typing import Any, NamedTuple, NoReturn

PLOT_FORMATS = ("png", "svg", "pdf")

DRAWN_GPUS = 16_384
"""GPUs of the job, where a failure model is drawn by itself: those of Llama 3's pretraining."""

DRAWN_GPUS_PER_GROUP = 128
"""About as many make a group then: tensor parallelism 8 times pipeline parallelism 16."""

Reader = Callable[[str], Any]

_FILES = {"FILE", "GRID", "SCENARIO", "SPEC", "WHAT"}
_COMPLETE_FILES = {"bash": "_shtab_compgen_files", "zsh": "_files", "tcsh": "f"}
"""What ``shtab`` completes a file by."""

_MARKS: dict[str, dict[str, Any]] = {
    "...": {"nargs": "+"},
    "?": {"nargs": "?"},
    "!": {"required": True},
}


_PLAIN = {"scenario reference", "scenario schema", "completion", "schema"}
"""Commands that print a file of a kind of its own; all others print JSON too."""


_CONDITION = re.compile(r"\((?:(not)|only) with (-[-\w]+)(?: ([-\w|]+))?\)")
"""What a help says of an option that has no effect with another, or without it."""

_UNSTATED = object()


class Command(NamedTuple):
    """A command, or one that has others, whose words begin with its own."""

    name: str  # The words that it is called by.
    summary: str  # What it does, in a line.
    # What its help says before and after the options.
    description: str | None = None
    epilog: str | None = None
    # What it can be asked, in the words of its help: ``--seeds N [3]  how many``. A value may be a
    # choice (``png|svg``), more than one (``FILE...``), left out (``KEY?``) or required (``DIR!``);
    # its default stands in brackets, and an option without any is on or off. Lines that go on are
    # indented, ``or`` begins what excludes the option before, and a blank line ends a group that
    # begins with its title and a colon. ``(not with --json)`` or ``(only with --only a|b)`` end a
    # meaning: otherwise the option has no effect, and is refused.
    options: str = ""
    # ``module:function`` below `commands`. By default the module has the first of the words, with
    # underscores, and the function is ``execute``, or ``execute_`` with the second.
    execute: str = ""


def parser() -> ArgumentParser:
    """Return what reads the command line."""
    whole = _Parser(
        prog="faultline",
        description="Which fault-tolerance scheme trains this model soonest on this cluster?",
    )
    whole.add_argument("--version", action=_Version, help="print versions, and exit")
    add_common(whole)
    declare(whole.add_subparsers(dest="command", required=True, metavar="COMMAND"), all_commands())
    return whole


class _Version(Action):
    """Prints the version, which is looked up only then."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:  # noqa: A002
        super().__init__(option_strings, dest, nargs=0, default=SUPPRESS, help=help)

    def __call__(self, parser: ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        from faultline.experiments.config.distribution import own_version

        python = ".".join(map(str, sys.version_info[:3]))
        told = f"faultline {own_version()} (SimGrid {version('simgrid')}, Python {python})"
        print(told)
        parser.exit()


class _Parser(ArgumentParser):
    """Tells what is wrong with an argument in one line, as everything else does."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, and refuse an option that has no effect beside the others."""
        conditional = {
            action: found
            for action in self._actions
            if (found := list(_CONDITION.finditer(action.help or "")))
        }
        namespace = Namespace() if namespace is None else namespace
        for action in conditional:
            # An option that is repeated has an empty list where it is not stated.
            if action.default != []:
                setattr(namespace, action.dest, _UNSTATED)
        parsed, others = super().parse_known_args(args, namespace)
        stated = [
            action
            for action in conditional
            if getattr(parsed, action.dest) is not _UNSTATED and getattr(parsed, action.dest) != []
        ]
        for action in conditional:
            if getattr(parsed, action.dest) is _UNSTATED:
                default = action.default
                if isinstance(default, str):
                    default = self._get_value(action, default)
                setattr(parsed, action.dest, default)
        for action in stated:
            self._check_effect(action, conditional[action], parsed)
        return parsed, others

    def _check_effect(self, action: Action, conditions: Iterable[re.Match[str]], on: Any) -> None:
        options = self._option_string_actions
        for excluded, name, values in map(re.Match.groups, conditions):
            other = getattr(on, options[name].dest)
            is_there = other in values.split("|") if values else other not in (None, False, [])
            if is_there == bool(excluded):
                written = f"{name} {other if excluded else values}" if values else name
                self.error(
                    f"{action.option_strings[-1]}: has no effect "
                    + (
                        f"with {written}; leave one of them out"
                        if excluded
                        else f"without {written}; add that, or leave it out"
                    )
                )

    def error(self, message: str) -> NoReturn:
        """Print the error without the usage, and exit with status 2."""
        from faultline.platforms.errors import one_line

        self.exit(2, one_line(f"{self.prog}: error: {message}; see {self.prog} --help") + "\n")


def all_commands() -> list[Command]:
    """Return all commands in the order of ``--help``, as ``commands.txt`` declares them."""
    text = files("faultline.experiments.commands").joinpath("commands.txt").read_text("utf-8")
    shared = {
        "presets": _shipped("presets", "faultline.platforms"),
        **{name: _shipped(name) for name in ("scenarios", "grids", "mixes")},
        "formats": "|".join(PLOT_FORMATS),
        "default_gpus": str(DRAWN_GPUS),
        "drawn_gpus": f"{DRAWN_GPUS:,}",
        "drawn_gpus_per_group": str(DRAWN_GPUS_PER_GROUP),
    }
    commands = []
    for section in text.split("\n== ")[1:]:
        title, _, said = section.partition("\n")
        for name, part in shared.items():
            said = said.replace(f"{{{name}}}", part)
        if title.startswith("{"):
            shared[title.strip("{}")] = said.strip("\n")
        else:
            commands.append(_command(title, said.strip("\n")))
    return commands


def _command(title: str, said: str) -> Command:
    name, _, execute = title.partition(" -> ")
    about, *blocks = said.split("\n\n")
    summary, *description = about.splitlines()
    epilog = blocks.pop(0).split("\n") if blocks and re.match("examples?:", blocks[0]) else []
    told = (" ".join(description) or None, " ".join(epilog) or None)
    return Command(name, summary, *told, "\n\n".join(blocks), execute)


def declare(commands: Any, known: Iterable[Command]) -> None:
    """Declare commands below an argument that chooses one, in the order of ``--help``."""
    known = list(known)
    parsers: dict[str, Any] = {}
    choices = {"": commands}
    for command in known:
        above, _, name = command.name.rpartition(" ")
        if above not in choices:
            choices[above] = parsers[above].add_subparsers(
                dest="subcommand", required=True, metavar="SUBCOMMAND"
            )
        parser = parsers[command.name] = choices[above].add_parser(
            name,
            help=command.summary,
            description=command.description,
            epilog=command.epilog,
            formatter_class=_Formatter,
        )
        execute = command.name.replace("-", "_").replace(" ", ":execute_")
        parser.set_defaults(execute=command.execute or execute)
        for block in filter(None, dedent(command.options).strip("\n").split("\n\n")):
            _add_block(parser, block, {**_READERS, **_READ.get(command.name, {})})
        add_common(parser, inner=True)
        has_others = any(other.name.startswith(f"{command.name} ") for other in known)
        if not has_others and command.name not in _PLAIN:
            parser.add_argument("--json", action="store_true", help="print JSON, in SI units")


def add_common(parser: Any, *, inner: bool = False) -> None:
    """Add what every command can be told, before its name or after it.

    What was said before a command's name stays where it is a command's.
    """
    left_out: dict[str, Any] = {"default": SUPPRESS} if inner else {}
    parser.add_argument(
        "-q",
        "--quiet",
        action="store_true",
        help=SUPPRESS if inner else "results and errors only: no progress, no notes",
        **left_out,
    )
    parser.add_argument(
        "--scheme-file",
        metavar="FILE",
        action="append",
        help=SUPPRESS
        if inner
        else "a Python file with a scheme or protection of your own; may be given more than once",
        **(left_out or {"default": []}),
    ).complete = _COMPLETE_FILES


def _add_block(parser: Any, block: str, read: Mapping[str, Reader]) -> None:
    entries = re.split(r"\n(?=\S)", block)
    if entries[0].endswith(":"):
        parser = parser.add_argument_group(entries.pop(0).removesuffix(":"))
    place = parser
    for entry, following in zip(entries, [*entries[1:], ""], strict=True):
        if not entry.startswith("or "):
            place = parser
            if following.startswith("or "):
                place = parser.add_mutually_exclusive_group()
        written, _, meaning = entry.removeprefix("or ").partition("  ")
        names, how = _told(written.split(), read)
        added = place.add_argument(*names, help=" ".join(meaning.split()) or None, **how)
        if how.get("type") is Path or how.get("metavar") in _FILES:
            added.complete = _COMPLETE_FILES


def _told(words: list[str], read: Mapping[str, Reader]) -> tuple[list[str], dict[str, Any]]:
    """Return the names of an option, and what `argparse` is told of its values."""
    names = [word for word in words if word.startswith("-")]
    how: dict[str, Any] = {}
    if words[-1].startswith("["):
        how["default"] = words.pop()[1:-1]
    values = words[len(names) :]
    if not values:
        return names, {"action": "store_true"}
    mark = next((mark for mark in _MARKS if values[-1].endswith(mark)), "")
    values[-1] = values[-1].removesuffix(mark)
    how |= _MARKS.get(mark, {})
    if "=" in values[0]:
        return names, {"metavar": values[0], "dest": "settings", "action": "append", "default": []}
    if "|" in values[0]:
        return names, {"choices": values[0].split("|"), **how}
    how |= {"metavar": values[0], "type": read.get((names or values)[-1], read.get(values[0]))}
    if len(values) > 1:
        how |= {"metavar": tuple(values), "nargs": len(values)}
    return names or [values[0].lower()], how


class _Formatter(HelpFormatter):
    """Fills in the algorithms where the text is shown: to import them takes its time."""

    def add_text(self, text: str | None) -> None:
        if text is not None and "{algorithms}" in text:
            from faultline.simulator.collectives.catalogue import ALGORITHMS

            known = (f"{name}: {', '.join(each)}" for name, each in ALGORITHMS.items())
            text = text.format(algorithms="; ".join(known))
        super().add_text(text)


def _shipped(folder: str, package: str = "faultline.experiments.config") -> str:
    """Return the names of the TOML files that come with Faultline in a folder of a package."""
    spec = find_spec(package)
    places = [] if spec is None else spec.submodule_search_locations or []
    return ", ".join(sorted(file.stem for at in places for file in Path(at, folder).glob("*.toml")))


def whole(wrong: str, least: int = 1, most: float = float("inf")) -> Callable[[str], int]:
    """Return what reads a whole number within bounds, or says what is `wrong` with the text."""

    def read(text: str) -> int:
        # Python reads whole numbers of 4,300 digits at most.
        if not text.isdecimal() or len(text) > 4_000 or not least <= int(text) <= most:
            raise ArgumentTypeError(f"{text!r}{wrong}")
        return int(text)

    return read


def number_to(most: float, wrong: str) -> Callable[[str], float]:
    """Return what reads a number above zero, up to so much, or says what is `wrong` with a text."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0 < number <= most:
            raise ArgumentTypeError(f"{text!r}{wrong}")
        return number

    return read


def names(text: str) -> list[str]:
    """Read names between commas."""
    return [name.strip() for name in text.split(",")]


def above_zero(kind: str, remedy: str) -> Callable[[str], float]:
    """Return what reads a quantity with a unit: a time in seconds or a size in bytes, not zero."""

    def read(text: str) -> float:
        from faultline.platforms.errors import PlatformError
        from faultline.platforms.units import SIZE, TIME, parse_quantity

        try:
            value = parse_quantity(text, TIME if kind == "time" else SIZE)
        except PlatformError as error:
            raise ArgumentTypeError(str(error)) from error
        if value == 0:
            raise ArgumentTypeError(f"{text!r}: {remedy}")
        return value

    return read


_LIMIT = "nothing runs within nothing; use more"
_READERS: dict[str, Reader] = {
    **dict.fromkeys(("N", "K"), whole(": use a whole number from 1")),
    **dict.fromkeys(("FILE", "DIR", "FOLDER", "PATH", "PNG", "SOURCE", "LOG"), Path),
    "--seed": whole(" is no seed: use a whole number from 0", 0),
    "A,B": names,
    "D": number_to(1e6, " is no time: use days, such as 54 or 0.5"),
    "X": number_to(float_info.max, " is no price: use a number above zero, such as 2.5"),
    "TIME": above_zero("time", "use a time above zero, for example 5min"),
    "--time-limit": above_zero("time", _LIMIT),
    "--memory-limit": above_zero("size", _LIMIT),
    "--window": float,
    "--nodes": whole(" is no number of nodes: use 1 to 1000000", 1, 10**6),
    "--gpus-per-node": whole(" is no number of GPUs: use 1 to 1000", 1, 1000),
}
"""What makes values of the texts, by the name of an option, or by what stands for its value."""

_GPUS = {"--gpus": whole(" is no number of GPUs: use 1 to 1000000000", most=10**9)}
_COLLECTIVE: dict[str, Reader] = {"FILE": str, "--ranks": int}
_READ: Mapping[str, Mapping[str, Reader]] = {
    "scenario check": {"FILE": str},
    "platform probe": _COLLECTIVE,
    "platform break": {**_COLLECTIVE, "TIME": str},
    "failures list": _GPUS,
    "failures draw": _GPUS,
}
"""Where it is not the usual, by command."""
