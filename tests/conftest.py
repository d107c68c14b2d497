"""Settings of all tests: a private cache, and the same examples in every run."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from importlib.metadata import entry_points, version
from pathlib import Path

import matplotlib
import pytest
from hypothesis import settings

_ROOT = Path(__file__).resolve().parents[1]

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


def _code_that_measures() -> str:
    """Return a digest of the code that generates platforms and measures on them."""
    digest = hashlib.sha256(version("simgrid").encode())
    for room in ("platforms", "simulator"):
        for path in sorted((_ROOT / room).rglob("*")):
            if path.suffix in (".py", ".toml", ".csv", ".xml"):
                digest.update(str(path).encode() + path.read_bytes())
    return digest.hexdigest()[:16]


@pytest.fixture(scope="session", autouse=True)
def private_cache(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keep generated platforms and measurements apart from the user's cache.

    Child processes inherit it. All workers and later test runs of the same code share it, so that
    each measurement on SimGrid is made once.
    """
    # Matplotlib keeps its list of fonts: to build it anew takes seconds, and prints a warning.
    os.environ.setdefault("MPLCONFIGDIR", matplotlib.get_cachedir())
    cache = _kept_cache(pytestconfig) or tmp_path_factory.mktemp("cache")
    os.environ["XDG_CACHE_HOME"] = str(cache)
    return cache


def _kept_cache(config: pytest.Config) -> Path | None:
    """Return the cache that runs of the same code share; None if pytest keeps none."""
    kept = getattr(config, "cache", None)
    if kept is None:
        return None
    folder: Path = kept.mkdir("measured")
    mine = folder / _code_that_measures()
    for other in folder.iterdir():
        if other != mine:
            shutil.rmtree(other, ignore_errors=True)
    mine.mkdir(exist_ok=True)
    return mine
