"""The generated platform files that are kept beside the code, to be read and to be edited.

``python -m platforms.examples`` writes them anew.
"""

from __future__ import annotations

from pathlib import Path

from faultline.platforms.preset_library import load_preset
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.xml_writer import write_xml

EXAMPLE_DIRECTORY = Path(__file__).parent / "generated"


def examples() -> dict[str, ClusterSpec]:
    """Return the spec of every example by the name of its file, smallest platform first."""
    return {
        "spare-600k-24-groups.xml": load_preset("spare-600k", groups=24),
        "hgx-h100-32-gpus.xml": load_preset("hgx-h100", domains=4, domains_per_leaf=2),
        "gb200-nvl72-144-gpus.xml": load_preset("gb200-nvl72", domains=2, domains_per_leaf=1),
    }


if __name__ == "__main__":
    for name, spec in examples().items():
        write_xml(spec, EXAMPLE_DIRECTORY / name)
