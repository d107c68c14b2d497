"""The whole command line: the parser of all commands."""

from __future__ import annotations

import sys
from argparse import SUPPRESS, Action, ArgumentParser
from collections.abc import Sequence

from faultline.experiments.commands.declarations import (
    failures,
    learn,
    plan,
    platform,
    plot,
    preparing,
    reproduce,
    run,
    scenario,
    sweep,
)
from faultline.experiments.commands.declarations.parsing import (
    Commands,
    Parser,
    add_common,
    prepare_completion,
)
from faultline.experiments.streams import print_text


def parser() -> Parser:
    """Return the parser of the command line, whose help lists the commands by task."""
    whole, commands = _declared()
    _group(whole, commands)
    return whole


def _declared() -> tuple[Parser, Commands]:
    whole = Parser(
        prog="faultline",
        description="Which fault-tolerance scheme trains this model soonest on this cluster?",
    )
    whole.add_argument("--version", action=_Version, help="print versions, and exit")
    add_common(whole)
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for topic in (
        run,
        plan,
        sweep,
        plot,
        reproduce,
        scenario,
        platform,
        failures,
        learn,
        preparing,
    ):
        topic.declare(commands)
    return whole, commands


_TASKS = {
    "one job": ("run", "plan", "explain-recovery"),
    "many runs": ("sweep", "export", "compare", "plot", "report"),
    "published results": ("reproduce", "head-to-head"),
    "what is simulated": ("scenario", "platform", "failures", "list"),
    "logs of your job": ("learn", "backtest"),
    "Faultline itself": ("new-scheme", "doctor"),
}
"""The commands by task, in the order of ``--help``."""


def _group(whole: Parser, commands: Commands) -> None:
    """List the commands by task in the help, instead of in one list."""
    shown = {action.dest: action for action in commands._choices_actions}
    for task, names in _TASKS.items():
        group = whole.add_argument_group(task)
        group._group_actions.extend(shown.pop(name) for name in names)
    assert not shown, f"commands without a task: {', '.join(shown)}"
    commands.help = SUPPRESS
    # Only now: the commands' own usages begin with that of the whole.
    whole.usage = "%(prog)s [-q] [--scheme-file FILE] COMMAND ..."


def for_completion() -> Parser:
    """Return the parser for ``shtab``, which writes the script by which a shell completes."""
    whole, _ = _declared()
    prepare_completion(whole)
    return whole


class _Version(Action):
    """Prints the versions, which are looked up only on request."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:  # noqa: A002
        super().__init__(option_strings, dest, nargs=0, default=SUPPRESS, help=help)

    def __call__(self, parser: ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        from faultline.experiments.config.distribution import own_version

        python = ".".join(map(str, sys.version_info[:3]))
        print_text(f"faultline {own_version()} (SimGrid {version('simgrid')}, Python {python})")
        parser.exit()
