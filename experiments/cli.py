"""The command line ``faultline``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from experiments.commands import (
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
from experiments.errors import UserError
from platforms.errors import PlatformError
from simulator.failures.distributions import DistributionError
from simulator.simgrid_engine.process import SimulationError
from strategies.errors import StrategyError
from strategies.protection.registry import broken_protections
from strategies.registry import broken_strategies

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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status: 0, or 2 for bad input, told in one line."""
    parser = _Parser(
        prog="faultline",
        description="Which fault-tolerance scheme trains this model soonest on this cluster?",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add_parser(commands)
    parsed = parser.parse_args(arguments)
    for line in (*broken_strategies(), *broken_protections()):
        print(f"faultline: {line}", file=sys.stderr)
    try:
        status: int = parsed.execute(parsed)
        sys.stdout.flush()
    except (UserError, PlatformError, StrategyError, DistributionError, SimulationError) as error:
        print(f"faultline: {_one_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("faultline: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except OSError as error:
        print(f"faultline: {_one_line(error)}", file=sys.stderr)
        return 2
    return status


class _Parser(argparse.ArgumentParser):
    """Tells what is wrong with an argument in one line, as everything else does."""

    def error(self, message: str) -> NoReturn:
        """Print the error without the usage, and exit with status 2."""
        self.exit(2, f"{self.prog}: error: {message}; see {self.prog} --help\n")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


if __name__ == "__main__":
    sys.exit(main())
