from pathlib import Path

import pytest
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.xml_writer import write_xml

from tests.platforms.helpers import Write, four_by_four


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a spec to a fresh platform file and return its path."""

    def write_fresh(spec: ClusterSpec) -> Path:
        path = tmp_path / f"platform-{len(list(tmp_path.iterdir()))}.xml"
        write_xml(spec, path)
        return path

    return write_fresh


@pytest.fixture
def small() -> ClusterSpec:
    """Four domains of four GPUs, two domains a leaf, rail-optimised, non-blocking."""
    return four_by_four()
