"""An ``argparse`` with conditions between options, errors in one line, and late names in texts.

No module of this folder imports a slow one, so that ``--help`` is quick.
"""

from __future__ import annotations

import re
import sys
from argparse import (
    SUPPRESS,
    Action,
    ArgumentError,
    ArgumentParser,
    HelpFormatter,
    Namespace,
    _SubParsersAction,
)
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill, wrap
from typing import Any, NamedTuple, NoReturn, TypeAlias

_FILES = {"FILE", "GRID", "SCENARIO", "SPEC", "WHAT"}
"""Names of file arguments in help texts."""

Commands: TypeAlias = "_SubParsersAction[Parser]"


class _Condition(NamedTuple):
    option: str
    other: str  # The option that makes the first one have no effect, or an effect.
    excluded: bool  # Whether the first has no effect with the other; else it has none without.
    values: Sequence[str]  # Values of the other option that count; all if empty.


class Parser(ArgumentParser):
    """Prints an error in one line, and refuses an option that has no effect with the others."""

    def __init__(self, **options: Any) -> None:
        # A prefix of an option would change its meaning when an option is added.
        super().__init__(formatter_class=_Formatter, allow_abbrev=False, **options)
        self._conditions: list[_Condition] = []
        self._is_inside = False  # Whether `parse_known_intermixed_args` is running.

    def not_with(self, other: str, *options: str, values: Sequence[str] = ()) -> None:
        """Refuse options together with another one, or with some of its values."""
        self._add_conditions(other, options, True, values)

    def only_with(self, other: str, *options: str) -> None:
        """Refuse options without another one."""
        self._add_conditions(other, options, False, ())

    def _add_conditions(
        self, other: str, options: Sequence[str], excluded: bool, values: Sequence[str]
    ) -> None:
        words = [other, "|".join(values)] if values else [other]
        for option in options:
            self._conditions.append(_Condition(option, other, excluded, values))
            action = self._option_string_actions[option]
            condition = f"{'not' if excluded else 'only'} with {' '.join(words)}"
            text = f"{action.help or ''} ({condition})".strip()
            # One pair of brackets for all conditions of an option.
            action.help = text.replace(f") ({condition})", f"; {condition})")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, and refuse an option that has no effect with the others."""
        namespace = Namespace() if namespace is None else namespace
        # `parse_known_intermixed_args` calls this method twice.
        if self._is_inside or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        actions = [self._option_string_actions[one.option] for one in self._conditions]
        # A list, since a repeated option appends to a copy of it.
        unstated: list[str] = []
        for action in actions:
            setattr(namespace, action.dest, unstated)
        self._is_inside = True
        try:
            # An argument that may be left out may follow options.
            parsed, others = self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_inside = False
        stated = [getattr(parsed, action.dest) is not unstated for action in actions]
        for action in actions:
            if getattr(parsed, action.dest) is unstated:
                setattr(parsed, action.dest, action.default)
        if others:
            self.error(self._unknown(others))
        for condition, is_stated in zip(self._conditions, stated, strict=True):
            if is_stated:
                self._check_effect(condition, parsed)
        return parsed, others

    def _check_effect(self, condition: _Condition, parsed: Namespace) -> None:
        option, other, excluded, values = condition
        value = getattr(parsed, self._option_string_actions[other].dest)
        is_there = str(value) in values if values else value not in (None, False, [])
        if is_there and excluded:
            written = f"{other} {value}" if values else other
            self.error(f"{option}: has no effect with {written}; leave one of them out")
        if not is_there and not excluded:
            self.error(f"{option}: has no effect without {other}; add that, or leave it out")

    def _print_message(self, message: str, file: Any = None) -> None:
        # As in argparse, which ignores that help could not be written.
        (file or sys.stderr).write(message)

    def _check_value(self, action: Action, value: Any) -> None:
        """Refuse a choice that is none, with the likely one instead of all."""
        if action.choices is not None and value not in action.choices:
            from faultline.experiments.config.errors import did_you_mean

            known = [str(choice) for choice in action.choices]
            raise ArgumentError(action, f"there is no {value!r}; {did_you_mean(str(value), known)}")

    def _unknown(self, words: Sequence[str]) -> str:
        """Return a message about arguments that no option takes, with its remedy."""
        from faultline.experiments.config.errors import likely

        option = next((word.partition("=")[0] for word in words if word.startswith("-")), None)
        message = f"{' '.join(words)}: no such argument"
        if option is None:
            return f"{message}; a list is written A,B"
        meant = likely(option, [*self._option_string_actions])
        return f"{message}; did you mean {meant!r}?" if meant else message

    def error(self, message: str) -> NoReturn:
        """Print the error without the usage, and exit with status 2."""
        from faultline.experiments.streams import between_words
        from faultline.platforms.errors import one_line

        message = _ARGUMENT.sub(r"\1: ", message).replace(_MISSING, "missing: ")
        message = message.replace("-o/--output", "-o, the file to write")
        line = one_line(f"{self.prog}: error: {message}; see {self.prog} --help")
        self.exit(2, between_words(line) + "\n")


_MISSING = "the following arguments are required: "
_ARGUMENT = re.compile(r"^argument (\S+?)(?:/\S+)?: ")
"""The start of argparse's messages about an argument, with the other names of an option."""


def add_command(
    commands: Commands,
    name: str,
    summary: str,
    execute: str,
    *,
    description: str | None = None,
    epilog: str | None = None,
    has_json: bool = True,
) -> Parser:
    """Add a command; `description` and `epilog` are before and after the options in its help.

    The function that runs it is `execute`, as ``module:function`` below
    `faultline.experiments.commands`; the command imports it when it runs.
    """
    parser = commands.add_parser(name, help=summary, description=description, epilog=epilog)
    parser.set_defaults(execute=execute)
    add_common(parser, inner=True)
    if has_json:
        parser.add_argument("--json", action="store_true", help="print JSON, in SI units")
    return parser


def add_group(commands: Commands, name: str, summary: str, description: str) -> Commands:
    """Add a command with subcommands, and return the subparsers for these."""
    parser = commands.add_parser(name, help=summary, description=description)
    add_common(parser, inner=True)
    return parser.add_subparsers(dest="subcommand", required=True, metavar="SUBCOMMAND")


def add_common(parser: Parser, *, inner: bool = False) -> None:
    """Add the options that every command has, before its name or after it.

    A command does not reset an option that precedes its name.
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
    )


def prepare_completion(parser: ArgumentParser) -> None:
    """Mark the arguments that are files for ``shtab``, and fill in the names in all texts."""
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for inner in action.choices.values():
                prepare_completion(inner)
        elif action.type is Path or action.metavar in _FILES:
            vars(action)["complete"] = {
                "bash": "_shtab_compgen_files",
                "zsh": "_files",
                "tcsh": "f",
            }
        if action.help not in (None, SUPPRESS):
            action.help = filled(action.help or "")


class _Formatter(HelpFormatter):
    """Fills in names from the program when a text is shown, and breaks none at its hyphens."""

    def _get_help_string(self, action: Action) -> str | None:
        return filled(action.help or "")

    def add_text(self, text: str | None) -> None:
        super().add_text(text and filled(text))

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap(text, width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return fill(
            " ".join(text.split()), width, initial_indent=indent, subsequent_indent=indent,
            break_on_hyphens=False,
        )  # fmt: skip


def filled(text: str) -> str:
    """Return a text with the names in place of, say, ``{scenarios}``."""
    return re.sub(r"\{(\w+)\}", lambda found: _NAMES[found[1]](), text)


def _shipped(folder: str, package: str = "faultline.experiments.config") -> str:
    """Return the names of the TOML files that come with Faultline in a folder of a package."""
    spec = find_spec(package)
    places = [] if spec is None else spec.submodule_search_locations or []
    return ", ".join(sorted(file.stem for at in places for file in Path(at, folder).glob("*.toml")))


def _algorithms() -> str:
    from faultline.simulator.collectives.algorithms import ALGORITHMS

    return "; ".join(f"{name}: {', '.join(known)}" for name, known in ALGORITHMS.items())


def _collectives() -> str:
    from faultline.simulator.collectives.algorithms import ALGORITHMS

    return ", ".join(ALGORITHMS)


_NAMES: dict[str, Callable[[], str]] = {
    "scenarios": lambda: _shipped("scenarios"),
    "grids": lambda: _shipped("grids"),
    "mixes": lambda: _shipped("mixes"),
    "clusters": lambda: _shipped("presets", "faultline.platforms"),
    "algorithms": _algorithms,
    "collectives": _collectives,
}
