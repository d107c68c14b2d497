"""What several commands ask for in the same words, and how their arguments are read.

Whatever takes long to import is imported where an argument needs it: ``--help`` needs none of it.
"""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def shipped(folder: str, package: str = "faultline.experiments.config") -> str:
    """Return the names of the TOML files that come with Faultline in a folder of a package."""
    spec = find_spec(package)
    places = [] if spec is None else spec.submodule_search_locations or []
    return ", ".join(sorted(file.stem for at in places for file in Path(at, folder).glob("*.toml")))


def add_command(commands: Any, name: str, **texts: Any) -> ArgumentParser:
    """Declare a command; the module of its name, with underscores, executes it."""
    parser: ArgumentParser = commands.add_parser(name, **texts)
    parser.set_defaults(execute=name.replace("-", "_"))
    return parser


def subcommands(commands: Any, name: str, **texts: Any) -> Callable[..., ArgumentParser]:
    """Declare a command of several, and return what declares those.

    A function ``execute_...`` in the module of the command executes each.
    """
    parser = add_command(commands, name, **texts)
    inner = parser.add_subparsers(dest="subcommand", required=True, metavar="SUBCOMMAND")

    def add(subcommand: str, **texts: Any) -> ArgumentParser:
        added: ArgumentParser = inner.add_parser(subcommand, **texts)
        added.set_defaults(execute=f"{name}:execute_{subcommand}")
        return added

    return add


def add_scenario(parser: Any) -> None:
    """Declare the scenario, and the settings on top of it."""
    parser.add_argument(
        "scenario", metavar="SCENARIO", help=f"a TOML file, or one of: {shipped('scenarios')}"
    )
    add_settings(parser)


def add_settings(
    parser: Any, meaning: str = "change one dotted key of the scenario; may be given more than once"
) -> None:
    """Declare ``--set``, for a parser or a group of its arguments."""
    parser.add_argument(
        "--set", dest="settings", metavar="KEY=VALUE", action="append", default=[], help=meaning
    )


def add_seed(parser: Any) -> None:
    """Declare ``--seed``."""
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="default: 0")


def add_json(parser: Any, meaning: str) -> None:
    """Declare ``--json``."""
    parser.add_argument("--json", action="store_true", help=meaning)


def add_output(parser: Any, metavar: str, meaning: str | None = None, **how: Any) -> None:
    """Declare ``-o``."""
    parser.add_argument("-o", "--output", type=Path, metavar=metavar, help=meaning, **how)


def positive(text: str) -> int:
    """Read a whole number from 1."""
    if not text.isdecimal() or int(text) == 0:
        raise ArgumentTypeError(f"{text!r}: use a whole number from 1")
    return int(text)


def seed(text: str) -> int:
    """Read a seed: a whole number, not negative."""
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} is no seed: use a whole number from 0")
    return int(text)


def gpu_count(text: str) -> int:
    """Read a number of GPUs: a whole number from 1."""
    if not text.isdecimal() or not 1 <= int(text) <= 10**9:
        raise ArgumentTypeError(f"{text!r} is no number of GPUs: use 1 to 1000000000")
    return int(text)


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
