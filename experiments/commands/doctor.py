"""``faultline doctor``: find out whether this machine is fit for Faultline."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from itertools import groupby

from faultline.experiments.analysis.printing import text_table
from faultline.experiments.commands.output import print_json
from faultline.experiments.health.checks import Check, limit_checks, version_checks
from faultline.experiments.health.selftests import simgrid_checks
from rich.console import Console
from rich.markup import escape

_STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red"}


def execute(arguments: argparse.Namespace) -> int:
    """Run the command; 1 if a check failed."""
    checks = [*version_checks(), *limit_checks(), *simgrid_checks()]
    failed = sum(check.state == "failed" for check in checks)
    if arguments.json:
        told = {"ok": failed == 0, "checks": [asdict(check) for check in checks]}
        print_json(told)
    else:
        _print_checks(checks, failed)
    return 1 if failed else 0


def _print_checks(checks: list[Check], failed: int) -> None:
    console = Console()
    for section, members in groupby(checks, key=lambda check: check.section):
        rows = (
            (
                escape(check.what),
                escape(check.value),
                f"[{_STYLES[check.state]}]{check.state}[/]",
                escape(check.meaning),
            )
            for check in members
        )
        styles = [{"style": style} for style in ("bold", None, None, "dim")]
        console.print(text_table(rows, styles, title=section, show_header=False))
    if failed:
        console.print(f"{failed} check{'s' if failed > 1 else ''} failed.", style="bold red")
    else:
        console.print("All is well.", style="green")
