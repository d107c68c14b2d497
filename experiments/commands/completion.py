"""``faultline completion``: what makes a shell complete commands, options and files."""

from __future__ import annotations

import argparse

from faultline.experiments.commands.arguments import add_common
from faultline.experiments.commands.parsers import add_parsers
from faultline.experiments.config.errors import UserError

_SHELLS = ("bash", "zsh", "tcsh")


def execute(arguments: argparse.Namespace) -> int:
    """Print the script of a shell."""
    if arguments.shell not in _SHELLS:
        raise UserError(f"completion {arguments.shell}: use one of {', '.join(_SHELLS)}")
    try:
        import shtab
    except ImportError as error:
        raise UserError(
            "completion: needs shtab, which is not installed; pip install 'faultline[completion]'"
        ) from error
    whole = argparse.ArgumentParser(prog="faultline")
    whole.add_argument("--version", action="store_true", help="print versions, and exit")
    add_common(whole)
    add_parsers(whole.add_subparsers(dest="command", metavar="COMMAND"))
    print(shtab.complete(whole, arguments.shell))
    return 0
