"""What tests of sweeps share."""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerContext

import pytest


@pytest.fixture(scope="session")
def forks() -> ForkServerContext:
    """Return processes that start in no time: from one that has imported everything."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.experiments.runs.in_process"])
    return context
