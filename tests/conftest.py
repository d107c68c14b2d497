"""What all tests share: a cache of their own, and examples that are the same on every run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples every time; `make test` has fewer of them: --hypothesis-profile=quick.
EXAMPLES = settings(derandomize=True, deadline=None)
settings.register_profile("quick", EXAMPLES, max_examples=30)
settings.register_profile("thorough", EXAMPLES)
settings.load_profile("thorough")


# pytest-xdist states a width of 80 for its own report; the program would take it for a user's.
os.environ.pop("COLUMNS", None)


@pytest.fixture(scope="session", autouse=True)
def private_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keep generated platforms and measurements away from the user's; child processes inherit.

    Workers of one run of the tests share it: what SimGrid has measured for one need not be
    measured for another.
    """
    base = tmp_path_factory.getbasetemp()
    cache = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared-cache"
    cache.mkdir(exist_ok=True)
    os.environ["XDG_CACHE_HOME"] = str(cache)
    return cache
