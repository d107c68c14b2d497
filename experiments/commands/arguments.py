"""How commands and their options are declared, and how arguments are read.

Whatever takes long to import is imported where an argument needs it: ``--help`` needs none of it.
"""

from __future__ import annotations

from argparse import ArgumentTypeError, HelpFormatter
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple


class Option(NamedTuple):
    """What `argparse` is told of an option, or of an argument without a name."""

    names: tuple[str, ...]
    how: dict[str, Any]


def option(
    written: str, meaning: str | None = None, read: Callable[[str], Any] | None = None, **how: Any
) -> Option:
    """Return an option as its help writes it: ``-o --output FILE``, ``--json``, ``SCENARIO``.

    Parameters
    ----------
    written : str
        Its names, then what stands for its values; without any it is on or off. An argument
        without names is called as what stands for it.
    meaning : str, optional
        Its help.
    read : callable, optional
        Makes its value of the text.
    **how
        All else, as ``add_argument`` takes it.
    """
    words = written.split()
    names = tuple(word for word in words if word.startswith("-"))
    values = tuple(words[len(names) :])
    if values:
        how = {"metavar": values if len(values) > 1 else values[0], "type": read, **how}
    elif "choices" not in how:
        how = {"action": "store_true", **how}
    if not names:
        names = (how.pop("dest", values[0].lower()),)
    return Option(names, {"help": meaning, **how})


class Group(NamedTuple):
    """Options that stand together under a title, or of which there may be one only."""

    title: str | None
    options: tuple[Option | Group, ...]


class Command(NamedTuple):
    """A command, or one with commands of its own, which then take the options.

    Attributes
    ----------
    name, summary : str
        How it is called, and what it does, in a line.
    description, epilog : str or None
        What its help says before and after the options.
    options : tuple of Option or Group
        What it can be asked.
    execute : str
        ``module:function`` below `commands`. By default the module has the command's name, with
        underscores, and the function is ``execute``, or ``execute_...`` of each of several.
    parts : tuple of Command
        Those of its own.
    """

    name: str
    summary: str
    description: str | None = None
    epilog: str | None = None
    options: tuple[Option | Group, ...] = ()
    execute: str = ""
    parts: tuple[Command, ...] = ()


def declare(commands: Any, known: Iterable[Command], above: str = "") -> None:
    """Declare commands, in the order in which ``--help`` lists them."""
    for command in known:
        parser = commands.add_parser(
            command.name,
            help=command.summary,
            description=command.description,
            epilog=command.epilog,
            formatter_class=_Formatter,
        )
        own = command.name.replace("-", "_")
        execute = f"{above}:execute_{own}" if above else own
        parser.set_defaults(execute=command.execute or execute)
        _add(parser, command.options)
        if command.parts:
            inner = parser.add_subparsers(dest="subcommand", required=True, metavar="SUBCOMMAND")
            declare(inner, command.parts, own)


def _add(parser: Any, options: Iterable[Option | Group]) -> None:
    for one in options:
        if isinstance(one, Option):
            parser.add_argument(*one.names, **one.how)
        elif one.title is None:
            _add(parser.add_mutually_exclusive_group(), one.options)
        else:
            _add(parser.add_argument_group(one.title), one.options)


class _Formatter(HelpFormatter):
    """Fills in the algorithms where the text is shown: to import them takes its time."""

    def add_text(self, text: str | None) -> None:
        if text is not None and "{algorithms}" in text:
            from faultline.simulator.collectives.catalogue import ALGORITHMS

            known = (f"{name}: {', '.join(each)}" for name, each in ALGORITHMS.items())
            text = text.format(algorithms="; ".join(known))
        super().add_text(text)


def shipped(folder: str, package: str = "faultline.experiments.config") -> str:
    """Return the names of the TOML files that come with Faultline in a folder of a package."""
    spec = find_spec(package)
    places = [] if spec is None else spec.submodule_search_locations or []
    return ", ".join(sorted(file.stem for at in places for file in Path(at, folder).glob("*.toml")))


def whole(wrong: str, least: int = 1, most: float = float("inf")) -> Callable[[str], int]:
    """Return what reads a whole number within bounds, or says what is `wrong` with the text."""

    def read(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise ArgumentTypeError(f"{text!r}{wrong}")
        return int(text)

    return read


def days(text: str) -> float:
    """Read a time in days."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number <= 1e6:
        raise ArgumentTypeError(f"{text!r} is no time: use days, such as 54 or 0.5")
    return number


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


def set_option(meaning: str) -> Option:
    """Return ``--set``, which may be given more than once."""
    return option("--set KEY=VALUE", meaning, dest="settings", action="append", default=[])


def json_option(meaning: str) -> Option:
    """Return ``--json``."""
    return option("--json", meaning)


def output_option(metavar: str, meaning: str | None = None, **how: Any) -> Option:
    """Return ``-o``."""
    return option(f"-o --output {metavar}", meaning, Path, **how)


POSITIVE = whole(": use a whole number from 1")
SETTINGS = set_option("change one dotted key of the scenario; may be given more than once")
SCENARIO = (option("SCENARIO", f"a TOML file, or one of: {shipped('scenarios')}"), SETTINGS)
SEED = option(
    "--seed N", "default: 0", whole(" is no seed: use a whole number from 0", 0), default=0
)
ENGINE = {"choices": ("replay", "simgrid"), "default": "replay"}
