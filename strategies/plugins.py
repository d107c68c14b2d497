"""What is plugged in: schemes and protections that are no part of Faultline."""

from __future__ import annotations

import sys
from pathlib import Path

from faultline.strategies.discovery import is_shipped
from faultline.strategies.protection.registry import all_protections
from faultline.strategies.registry import all_strategies


def plugged_files() -> list[Path]:
    """Return the source files of what is plugged in: a module, or the package that it is in."""
    known = (*all_strategies().values(), *all_protections().values())
    files: set[Path] = set()
    for module in {one.__module__ for one in known if not is_shipped(one)}:
        file = Path(str(sys.modules[module].__file__))
        top = module.partition(".")[0]
        root = Path(str(sys.modules[top].__file__)).parent
        is_package = top not in ("faultline", module) or file.name == "__init__.py"
        files |= {*root.rglob("*.py")} if is_package else {file}
    return sorted(files)
