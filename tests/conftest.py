"""Settings of all tests: a private cache, and the same examples in every run."""

from __future__ import annotations

import os
import sys
import tempfile
from importlib.metadata import entry_points
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
# The user's settings of the program have no effect on tests.
for name in [name for name in os.environ if name.startswith("FAULTLINE_")]:
    del os.environ[name]


def _hide_plugins() -> tempfile.TemporaryDirectory[str] | None:
    """Hide installed plug-ins from this process and its children; return the folder that does so.

    Of two distributions with one name, Python uses the first on its path. Therefore the folder,
    which comes first, has an empty distribution for each plug-in. Plug-ins that a test puts on the
    path later have an effect.
    """
    groups = ("faultline.schemes", "faultline.protections", "faultline.mixes")
    points = (point for group in groups for point in entry_points(group=group))
    names = {point.dist.metadata["Name"] for point in points if point.dist is not None}
    if not names:
        return None
    folder = tempfile.TemporaryDirectory(prefix="faultline-no-plugins-")
    for name in names:
        metadata = Path(folder.name) / f"{name.replace('-', '_')}-0.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0\n", encoding="utf-8")
    sys.path.insert(0, folder.name)
    places = filter(None, [folder.name, os.environ.get("PYTHONPATH")])
    os.environ["PYTHONPATH"] = os.pathsep.join(places)
    return folder


# Now, since test modules and other conftests look for schemes when they are imported.
NO_PLUGINS = _hide_plugins()


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
