"""The page of promises: the tests that it names exist."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT

NAMED = sorted(set(re.findall(r"`(tests/\S+?)::(\w+)`", (ROOT / "docs/trust.md").read_text())))


def test_promises_name_tests() -> None:
    assert len(NAMED) >= 30


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_a_named_test_exists(path: str, name: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    assert re.search(rf"^def {name}\(", text, re.MULTILINE)
