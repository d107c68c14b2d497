"""The traffic of each link over time, as SimGrid's own trace: a Paje file.

SimGrid 4.1 crashes on two things with its tracing on: routers, which it traces before they are in a
zone, and the graph of a platform of many zones. So a traced run uses a copy of the platform on
which routers are hosts that compute nothing, and no graph is requested.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from faultline.platforms.files import write_file

_PROLOGUE = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
"""


@contextmanager
def links_traced(platform: Path, trace: Path | None) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Yield the platform to run on and SimGrid's options, and write the trace at the end.

    Parameters
    ----------
    platform : Path
        Platform XML.
    trace : Path or None
        Where the trace goes; without one, platform and options do not change.
    """
    if trace is None:
        yield platform, ()
        return
    with TemporaryDirectory() as name:
        copy, written = Path(name) / "platform.xml", Path(name) / "links.trace"
        tree = ElementTree.parse(platform)
        for router in list(tree.iter("router")):
            router.tag = "host"
            router.set("speed", "1f")
        write_file(copy, _PROLOGUE + ElementTree.tostring(tree.getroot(), "unicode"))
        settings = {
            "tracing": "yes",
            "tracing/filename": str(written),
            "tracing/uncategorized": "yes",
            "tracing/platform/topology": "no",
            "tracing/precision": "9",
        }
        yield copy, tuple(f"--cfg={key}:{value}" for key, value in settings.items())
        write_file(trace, written.read_bytes())
