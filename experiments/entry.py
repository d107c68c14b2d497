"""Where the command ``faultline`` begins: it can tell that what Faultline needs is not there."""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, requires, version


def main() -> int:
    """Run the command line; 2, and one line, where a package is missing that it depends on."""
    try:
        from faultline.experiments.cli import main as run

        return run()
    except ModuleNotFoundError:
        missing = _missing()
        if not missing:
            raise
        said = f"faultline: not installed: {', '.join(missing)}"
        print(f"{said}; install Faultline with its dependencies (see README)", file=sys.stderr)
        return 2


def _missing() -> list[str]:
    """Return the names of the packages that Faultline depends on and that are not installed."""
    missing = []
    for requirement in requires("faultline") or ():
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        if ";" not in requirement:
            try:
                version(name)
            except PackageNotFoundError:
                missing.append(name)
    return missing
