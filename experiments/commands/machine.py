"""``faultline doctor``: checks of this machine."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from itertools import groupby

from faultline.experiments.analysis.printing import text_table
from faultline.experiments.commands.output import print_json
from faultline.experiments.health import limit_checks, simgrid_checks, version_checks
from faultline.experiments.screen import Screen
from rich.text import Text

_STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red"}


def execute_doctor(arguments: argparse.Namespace) -> int:
    """Run the command; 1 if a check failed."""
    checks = [*version_checks(), *limit_checks(), *simgrid_checks()]
    failed = sum(check.state == "failed" for check in checks)
    if arguments.json:
        print_json({"ok": failed == 0, "checks": [asdict(check) for check in checks]})
        return 1 if failed else 0
    console = Screen()
    for section, members in groupby(checks, key=lambda check: check.section):
        rows = (
            (one.what, one.value, Text(one.state, _STYLES[one.state]), one.meaning)
            for one in members
        )
        styles = [{"style": style} for style in ("bold", None, None, "dim")]
        console.print(text_table(rows, styles, title=section, show_header=False))
    if failed:
        console.print(f"{failed} check{'s' if failed > 1 else ''} failed.", style="bold red")
    else:
        console.print("All is well.", style="green")
    return 1 if failed else 0
