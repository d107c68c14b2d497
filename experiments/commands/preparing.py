"""``faultline new-scheme`` and ``doctor``: plug-ins, this machine."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from faultline.experiments.analysis.printing import text_table
from faultline.experiments.commands.output import print_files, print_json
from faultline.experiments.health import limit_checks, simgrid_checks, version_checks
from faultline.experiments.plugins.scheme_package import write_scheme_package
from faultline.experiments.screen import Screen
from faultline.experiments.streams import print_text
from rich.text import Text

_STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red"}


def execute_new_scheme(arguments: argparse.Namespace) -> None:
    """Write a package with a scheme."""
    folder: Path = arguments.output or Path(arguments.name)
    written = write_scheme_package(arguments.name, folder)
    print_files(arguments, {path: str(path) for path in written})
    if arguments.json:
        return
    # Another Python may lack Faultline, or have another package of that name.
    here = shlex.quote(sys.executable)
    print_text(f"next:   {here} -m pip install -e {shlex.quote(f'{folder}[test]')}")
    print_text(f"        {here} -m pytest -s {shlex.quote(str(folder))}")
    print_text(f"        faultline run spare-sound --set strategy.name={arguments.name} \\")
    print_text("            --set job.groups=24 --set job.steps=200")


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
            (check.what, check.value, Text(check.state, _STYLES[check.state]), check.meaning)
            for check in members
        )
        # The path of a cache is broken where it is longer than its column.
        styles = [{"style": "bold", "overflow": "fold"}, {}, {}, {"style": "dim"}]
        console.print(text_table(rows, styles, title=section, show_header=False))
    if failed:
        console.print(f"{failed} check{'s' if failed > 1 else ''} failed.", style="bold red")
    else:
        console.print("All is well.", style="green")
    return 1 if failed else 0
