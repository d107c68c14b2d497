"""What a sweep came from, how to get it again, and what to know before believing it."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pandas as pd
import tomlkit
from faultline.experiments.analysis.selection import caveats
from faultline.experiments.report.tables import Table, table_of, text
from faultline.experiments.runs.table import Sweep

_PACKAGES = {
    "SimGrid": "simgrid",
    "numpy": "numpy",
    "pandas": "pandas",
}


def grid_text(grid: Mapping[str, Any]) -> str:
    """Return the grid file of a sweep, written anew from its manifest.

    Parameters
    ----------
    grid : mapping
        ``grid`` of the manifest: the file as read, with dotted keys.
    """
    stated = {key: value for key, value in grid.items() if key != "cases" and value != {}}
    cases = [dict(case) for case in grid.get("cases", []) if case]
    return tomlkit.dumps({**stated, **({"cases": cases} if cases else {})}).strip() + "\n"


def provenance_table(frame: pd.DataFrame, manifest: Mapping[str, Any]) -> Table:
    """Return versions, seeds, engine and hashes.

    What made the runs comes from the sweep, so that it is true on any machine; the versions of the
    libraries are those that wrote the page.
    """
    rows = {
        "Sweep planned by": f"Faultline {manifest['faultline']}",
        "Runs played by": _played_by(frame),
        "Page written by": ", ".join(
            f"{name} {number}" for name, number in installed_versions().items()
        ),
        "Engine": str(manifest["engine"]),
        "Seeds": seeds_text(manifest["seeds"]),
        "Scenario hash": _hashes(frame),
    }
    return table_of(
        "provenance-table",
        "Versions, seeds and hashes",
        (text("what", "what"), text("value", "value", "prose")),
        [{"what": name, "value": value} for name, value in rows.items()],
    )


def installed_versions() -> dict[str, str]:
    """Return the versions of Faultline, Python and what the numbers pass through."""
    packages = {"Faultline": "faultline", **_PACKAGES}
    found = {name: _version(package) for name, package in packages.items()}
    return {"Faultline": found.pop("Faultline"), "Python": platform.python_version(), **found}


def seeds_text(seeds: Sequence[int]) -> str:
    """Return seeds as people write them: ``0 to 9``, or ``1, 5, 7``."""
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"{seeds[0]} to {seeds[-1]}"
    shown = ", ".join(map(str, seeds[:20]))
    return f"{shown} and {len(seeds) - 20:,} more" if len(seeds) > 20 else shown


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _played_by(frame: pd.DataFrame) -> str:
    versions = _values(frame, "version")
    codes = _values(frame, "code")
    return f"Faultline {', '.join(versions) or 'unknown'}; digest of its code: {', '.join(codes)}"


def _hashes(frame: pd.DataFrame) -> str:
    hashes = _values(frame, "scenario_hash")
    if len(hashes) == 1:
        return hashes[0]
    return f"{len(hashes):,} different ones, one a point: in the last column of all points"


def _values(frame: pd.DataFrame, column: str) -> list[str]:
    return [str(value) for value in frame[column].dropna().unique()] if column in frame else []


def notices(sweep: Sweep) -> tuple[str, ...]:
    """Return what a reader must know of the runs before believing the numbers, a sentence each."""
    sentences = []
    there = len(sweep.frame)
    if there < sweep.planned:
        sentences.append(
            f"This sweep is not finished: {there:,} of {sweep.planned:,} runs are there. The same "
            "faultline sweep command again plays the rest."
        )
    if sweep.problems:
        count = len(sweep.problems)
        what = "1 file was" if count == 1 else f"{count:,} files were"
        sentences.append(f"{what} left out: damaged, or not of this sweep.")
    if sweep.frame["code"].nunique() > 1:
        sentences.append("These runs were played by different states of Faultline's code.")
    return (*sentences, *caveats(sweep.frame))
