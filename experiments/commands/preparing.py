"""``new-scheme``, ``certificates`` and ``completion``: files that later commands use."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from faultline.experiments.commands.declarations import parser
from faultline.experiments.commands.declarations.parsing import prepare_completion
from faultline.experiments.commands.output import print_files, print_json
from faultline.experiments.config.distribution import with_extra
from faultline.experiments.config.errors import UserError
from faultline.experiments.plugins.skeleton import write_scheme_package
from faultline.experiments.runs.certificates import (
    AUTHORITY,
    CERTIFICATE,
    KEY,
    cluster_commands,
    make_certificates,
)

_SHELLS = ("bash", "zsh", "tcsh")


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


def execute_certificates(arguments: argparse.Namespace) -> None:
    """Make the certificates of a cluster."""
    folder = arguments.dir
    make_certificates(folder)
    if arguments.json:
        print_json({"files": [str(folder / name) for name in (AUTHORITY, CERTIFICATE, KEY)]})
        return
    commands = cluster_commands(folder)
    print(f"{folder}: copy it to every machine of the cluster, and to no other machine")
    print(f"scheduler: {commands['scheduler']}")
    print(f"worker:    {commands['worker']}")
    quoted = shlex.quote(str(folder))
    print(f"sweep:     faultline sweep ... --scheduler tls://ADDRESS:8786 --certificates {quoted}")


def execute_completion(arguments: argparse.Namespace) -> None:
    """Print the script of a shell."""
    if arguments.shell not in _SHELLS:
        raise UserError(f"completion {arguments.shell}: use one of {', '.join(_SHELLS)}")
    try:
        import shtab
    except ImportError as error:
        raise UserError(
            f"completion: needs shtab, which is not installed; {with_extra('completion')}"
        ) from error
    whole = parser()
    prepare_completion(whole)
    print(shtab.complete(whole, arguments.shell))
