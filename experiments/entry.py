"""Where the command ``faultline`` begins: it can tell that what Faultline needs is not there."""

from __future__ import annotations

import re
import resource
import sys

_LEAST = (
    (resource.RLIMIT_AS, "-v (all memory)", 500_000),
    (resource.RLIMIT_STACK, "-s (stack)", 256),
)
"""Limits below which libraries written in C end the process, or wait for memory, by themselves."""


def main() -> int:
    """Run the command line.

    Returns
    -------
    int
        The command's status; 2, and one line, where a package is missing that it depends on, or
        where the limits of the shell leave too little memory to import them.
    """
    for limit, option, least_kb in _LEAST:
        soft_bytes = resource.getrlimit(limit)[0]
        if 0 <= soft_bytes < least_kb * 1024:
            said = f"too little memory: ulimit {option} is {soft_bytes // 1024}"
            print(f"faultline: {said}; set it to {least_kb} kB or more", file=sys.stderr)
            return 2
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
    # Takes its time to be imported.
    from importlib.metadata import PackageNotFoundError, requires, version

    from faultline.experiments.config.distribution import DISTRIBUTION

    missing = []
    for requirement in requires(DISTRIBUTION) or ():
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        if ";" not in requirement:
            try:
                version(name)
            except PackageNotFoundError:
                missing.append(name)
    return missing
