"""Fixtures of the tests of experiments."""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.experiments.cli import main
from faultline.experiments.progress import WorkProgress

from tests.experiments.command_line import Cli


@pytest.fixture
def cli(
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Cli:
    """Return a runner of ``faultline``; its commands begin with `COMMAND` of the module, if any."""
    # A busy machine would print lines of progress.
    monkeypatch.setattr(WorkProgress, "line_every_s", 3600.0)
    return Cli(capsys, *getattr(request.module, "COMMAND", ()))


@pytest.fixture(scope="module")
def swept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of the sweep that the module names as `GRID`, simulated once."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "grid.toml").write_text(request.module.GRID, encoding="utf-8")
    assert main(["sweep", str(folder / "grid.toml"), "-o", str(folder / "out.sqlite")]) == 0
    return folder / "out.sqlite"
