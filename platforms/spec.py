"""The spec of a cluster: its tables, and the rules between them.

`load_spec` reads a `ClusterSpec` from TOML.
"""

from __future__ import annotations

from typing import Any

from faultline.platforms import spec_rules
from faultline.platforms.spec_tables import ClusterTables, Host
from pydantic import model_validator


class ClusterSpec(ClusterTables):
    """A cluster. The classes of its tables describe the keys."""

    @model_validator(mode="after")
    def _rules_over_several_keys(self) -> ClusterSpec:
        spec_rules.check(self)
        return self

    def as_mapping(self) -> dict[str, Any]:
        """Return the spec as nested dictionaries with quantities as text, like its TOML file."""
        mapping: dict[str, Any] = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        # A host with defaults only needs no table.
        if self.host == Host():
            del mapping["host"]
        return mapping
