"""Entry point of the command ``faultline``; it also reports missing dependencies."""

from __future__ import annotations

import re
import resource

from faultline.experiments.streams import print_note

_LEAST = (
    (resource.RLIMIT_AS, "-v (all memory)", 500_000),
    (resource.RLIMIT_STACK, "-s (stack)", 256),
)
"""Below these limits, libraries written in C end the process, or wait for memory."""


def main() -> int:
    """Run the command line.

    Returns
    -------
    int
        The command's status; 2, and one line, if a dependency is not installed, or if the limits
        of the shell leave too little memory to import it.
    """
    for limit, option, least_kb in _LEAST:
        soft_bytes = resource.getrlimit(limit)[0]
        if 0 <= soft_bytes < least_kb * 1024:
            problem = f"too little memory: ulimit {option} is {soft_bytes // 1024}"
            print_note(f"{problem}; set it to {least_kb} kB or more")
            return 2
    try:
        from faultline.experiments.cli import main as run

        return run()
    except ModuleNotFoundError:
        missing = _missing()
        if not missing:
            raise
        problem = f"not installed: {', '.join(missing)}"
        print_note(f"{problem}; install Faultline with its dependencies (see README)")
        return 2


def _missing() -> list[str]:
    """Return the names of Faultline's dependencies that are not installed."""
    # Slow to import, so only on this path.
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
