"""What the tests of platforms have in common."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from faultline.platforms import ClusterSpec

Write = Callable[[ClusterSpec], Path]
"""Writes a spec to a fresh platform file and returns its path."""

THREE_LEVELS: dict[str, Any] = {
    "levels": 3,
    "leaves_per_pod": 2,
    "oversubscription": [2, 3],
    "domains": 8,
    "domains_per_leaf": 2,
}
