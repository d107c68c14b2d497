"""A page in a real browser, and what it did there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}


_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


@contextmanager
def chromium() -> Iterator[Any]:
    """Start a browser, or skip the test where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium: apt-get install -y --no-install-recommends chromium")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=_ARGUMENTS)
        yield started
        started.close()


def violations(page: Any) -> list[str]:
    """Return what axe-core has against a page: people who cannot see or point, cannot use it."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html'][:150]}" for one in found]


@dataclass
class Opened:
    """A page in the browser, and whatever went wrong on it."""

    page: Any
    mistakes: list[str] = field(default_factory=list)
    requests: list[Any] = field(default_factory=list)

    def note(self, request: Any) -> None:
        self.requests.append(request)

    def requested_pages(self) -> list[str]:
        """Return what the page got or tried to get; not what its own policy held back."""
        return [
            request.url
            for request in self.requests
            if not request.url.startswith("data:") and request.failure != "csp"
        ]


Open = Callable[..., Opened]
