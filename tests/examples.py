"""How many examples Hypothesis draws, relative to the profile of a test run."""

from __future__ import annotations

from typing import Any

from hypothesis import settings


def examples(share: float = 1.0, **others: Any) -> settings:
    """Return settings with a share of the profile's examples: 100 in `make test-full`, else 30."""
    number = max(1, round(share * settings.default.max_examples))
    return settings(max_examples=number, **others)
