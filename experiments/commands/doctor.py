"""``faultline doctor``: find out whether this machine is fit for Faultline."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from itertools import groupby

from faultline.experiments.health.checks import Check, limit_checks, version_checks
from faultline.experiments.health.selftests import simgrid_checks
from rich.console import Console
from rich.markup import escape
from rich.table import Table

_STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red"}


def execute(arguments: argparse.Namespace) -> int:
    """Run the command; 1 if a check failed."""
    checks = [*version_checks(), *limit_checks(), *simgrid_checks()]
    failed = sum(check.state == "failed" for check in checks)
    if arguments.json:
        told = {"ok": failed == 0, "checks": [asdict(check) for check in checks]}
        print(json.dumps(told, allow_nan=False))
    else:
        _print_checks(checks, failed)
    return 1 if failed else 0


def _print_checks(checks: list[Check], failed: int) -> None:
    console = Console()
    for section, members in groupby(checks, key=lambda check: check.section):
        table = Table(title=section, title_justify="left", show_header=False)
        for style in ("bold", None, None, "dim"):
            table.add_column(style=style)
        for check in members:
            state = f"[{_STYLES[check.state]}]{check.state}[/]"
            table.add_row(escape(check.what), escape(check.value), state, escape(check.meaning))
        console.print(table)
    if failed:
        console.print(f"{failed} check{'s' if failed > 1 else ''} failed.", style="bold red")
    else:
        console.print("All is well.", style="green")
