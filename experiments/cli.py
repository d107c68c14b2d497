"""The command line ``faultline``."""

from __future__ import annotations

import argparse
import os
import select
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from faultline.experiments.commands import (
    bench,
    compare,
    doctor,
    failures,
    head_to_head,
    plan,
    platform,
    plot,
    report,
    reproduce,
    run,
    scenario,
    sweep,
)
from faultline.experiments.config.errors import UserError
from faultline.platforms.errors import PlatformError
from faultline.simulator.failures.distributions import DistributionError
from faultline.simulator.simgrid_engine.process import SimulationError
from faultline.strategies.errors import StrategyError
from faultline.strategies.protection.registry import broken_protections
from faultline.strategies.registry import broken_strategies

_COMMANDS = (
    run,
    plan,
    sweep,
    compare,
    plot,
    report,
    reproduce,
    head_to_head,
    scenario,
    platform,
    failures,
    doctor,
    bench,
)


_SIGPIPE_STATUS = 141
"""What a shell reports of a program that a closed pipe has ended: 128 + SIGPIPE."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Returns
    -------
    int
        The exit status: the command's own, 2 for bad input, told in one line, 130 after an
        interrupt, 141 where the reader of the standard output has gone.
    """
    try:
        return _run(arguments)
    except BrokenPipeError:
        pass
    except SystemExit as stop:
        # Rich answers a closed pipe with status 1; argparse lets it pass when it prints help.
        if not isinstance(stop.__context__, BrokenPipeError) and (stop.code or _is_read()):
            raise
    # Nothing is left to say: what still stands in the buffers goes nowhere, without a complaint.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
    return _SIGPIPE_STATUS


def _run(arguments: Sequence[str] | None) -> int:
    try:
        parsed = _parser().parse_args(arguments)
        for line in (*broken_strategies(), *broken_protections()):
            print(f"faultline: {line}", file=sys.stderr)
        status: int = parsed.execute(parsed)
        sys.stdout.flush()
    except (UserError, PlatformError, StrategyError, DistributionError, SimulationError) as error:
        print(f"faultline: {_one_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("faultline: interrupted", file=sys.stderr)
        return 130
    except OSError as error:
        if isinstance(error, BrokenPipeError) and not _is_read():
            raise
        print(f"faultline: {_one_line(error)}", file=sys.stderr)
        return 2
    return status


def _is_read() -> bool:
    """Whether the standard output is no pipe whose reader has gone: no other's end is quiet."""
    poll = select.poll()
    try:
        poll.register(sys.stdout, 0)
    except (OSError, ValueError):
        return True
    return not any(event & select.POLLERR for _, event in poll.poll(0))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="faultline",
        description="Which fault-tolerance scheme trains this model soonest on this cluster?",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add_parser(commands)
    return parser


class _Parser(argparse.ArgumentParser):
    """Tells what is wrong with an argument in one line, as everything else does."""

    def error(self, message: str) -> NoReturn:
        """Print the error without the usage, and exit with status 2."""
        self.exit(2, f"{self.prog}: error: {message}; see {self.prog} --help\n")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


if __name__ == "__main__":
    sys.exit(main())
