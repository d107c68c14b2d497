"""Entry point of the command ``faultline``; it also reports missing dependencies."""

from __future__ import annotations

import re

from faultline.experiments.streams import print_note


def main() -> int:
    """Run the command line.

    Returns
    -------
    int
        The command's status; 2, and one line, if a dependency is not installed; 130 after an
        interrupt, which may come while modules are imported.
    """
    try:
        from faultline.experiments.cli import main as run

        return run()
    except KeyboardInterrupt:
        print_note("interrupted")
        return 130
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
