"""Settings of all tests: a private cache, and the same examples in every run."""

from __future__ import annotations

import os
from pathlib import Path

import matplotlib
import pytest
from hypothesis import settings

# The same examples in every run; `make test` has fewer: --hypothesis-profile=quick.
EXAMPLES = settings(derandomize=True, deadline=None)
settings.register_profile("quick", EXAMPLES, max_examples=30)
settings.register_profile("thorough", EXAMPLES)
settings.load_profile("thorough")


# pytest-xdist sets a width of 80 for its own report, which the program would take for the user's.
os.environ.pop("COLUMNS", None)


@pytest.fixture(scope="session", autouse=True)
def private_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keep generated platforms and measurements apart from the user's cache.

    Child processes inherit it. All workers of a test run share it, so that each measurement on
    SimGrid is made once.
    """
    base = tmp_path_factory.getbasetemp()
    cache = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared-cache"
    cache.mkdir(exist_ok=True)
    # Matplotlib keeps its list of fonts: to build it anew takes seconds, and prints a warning.
    os.environ.setdefault("MPLCONFIGDIR", matplotlib.get_cachedir())
    os.environ["XDG_CACHE_HOME"] = str(cache)
    return cache
