"""What tests of experiments share."""

from __future__ import annotations

import pytest

from tests.experiments.asking import Ask


@pytest.fixture
def ask(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Return what asks ``faultline``; with the command that the module names as `COMMAND`."""
    return Ask(capsys, *getattr(request.module, "COMMAND", ()))
