"""``faultline new-scheme``: a package with a scheme."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from faultline.experiments.commands.output import print_files
from faultline.experiments.plugins.skeleton import write_scheme_package


def execute_new_scheme(arguments: argparse.Namespace) -> None:
    """Write a package with a scheme."""
    folder: Path = arguments.output or Path(arguments.name)
    written = write_scheme_package(arguments.name, folder)
    print_files(arguments, {path: str(path) for path in written})
    if arguments.json:
        return
    # This environment's Python: another may have no Faultline, or a stranger's package.
    here = shlex.quote(sys.executable)
    print(f"next:   {here} -m pip install -e {shlex.quote(str(folder))}")
    print(f"        faultline run spare-sound --set strategy.name={arguments.name} \\")
    print("            --set job.groups=24 --set job.steps=200")
