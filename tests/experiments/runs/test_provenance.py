"""The digest of the simulation's source: what it depends on, and what it does not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from faultline.experiments.runs import provenance as module
from faultline.experiments.runs.provenance import code_digest

from tests.child_processes import output_of_python
from tests.experiments.runs.processes import with_tests

PROJECT = Path(__file__).parents[3]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the source, of which the digest is taken."""
    for package in ("experiments", "platforms", "simulator", "strategies"):
        shutil.copytree(
            PROJECT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    monkeypatch.setattr(
        module, "files", lambda package: tmp_path / package.removeprefix("faultline.")
    )
    return tmp_path


def imported_by_a_run() -> list[str]:
    """Return the files of Faultline's modules that Python loads for `single_run`."""
    code = (
        "import sys, faultline.experiments.runs.single_run\n"
        "for module in list(sys.modules.values()):\n"
        "    print(getattr(module, '__file__', None))"
    )
    listed = output_of_python("-c", code, env=with_tests()).splitlines()
    inside = [Path(line) for line in listed if line.startswith(f"{PROJECT}/")]
    paths = [path.relative_to(PROJECT) for path in inside if ".venv" not in path.parts]
    # An __init__ of experiments has a docstring and nothing else.
    return [str(path) for path in paths if path.name != "__init__.py"]


def test_whatever_a_run_imports_counts(source: Path) -> None:
    before = code_digest()
    leading_there = [name for name in imported_by_a_run() if name.startswith("experiments/")]
    assert "experiments/job/resolved_job.py" in leading_there
    others = [
        "experiments/config/mixes/rsc-1.toml",
        "platforms/presets/hgx-h100.toml",
        "simulator/replay/engine.py",
        "simulator/processes/process.py",
        "strategies/schemes/spare/golomb_rulers.csv",
        "strategies/schemes/spare/spare.py",
    ]
    for name in (*leading_there, *others):
        path = source / name
        content = path.read_bytes()
        path.write_bytes(content + b"\n# edited\n")
        assert code_digest() != before, name
        path.write_bytes(content)
    assert code_digest() == before


def test_what_only_carries_records_about_does_not_count(source: Path) -> None:
    before = code_digest()
    for name in (
        "commands/sweep.py",
        "runs/store.py",
        "analysis/comparison.py",
        "cli.py",
        "config/scenarios/spare-study.toml",
    ):
        (source / "experiments" / name).write_text("# edited", encoding="utf-8")
    (source / "strategies" / "__pycache__").mkdir()
    (source / "strategies" / "__pycache__" / "spare.pyc").write_bytes(b"compiled")
    assert code_digest() == before
