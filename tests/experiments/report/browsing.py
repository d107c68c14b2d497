"""A page in a real browser, and what it did there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}


@dataclass
class Opened:
    """A page in the browser, and whatever went wrong on it."""

    page: Any
    mistakes: list[str] = field(default_factory=list)
    requests: list[Any] = field(default_factory=list)

    def note(self, request: Any) -> None:
        self.requests.append(request)

    def asked_for(self) -> list[str]:
        """Return what the page got or tried to get; not what its own policy held back."""
        return [
            request.url
            for request in self.requests
            if not request.url.startswith("data:") and request.failure != "csp"
        ]

    def cells(self, heading: str) -> list[str]:
        """Return a column of the table of all points, as far as it is shown."""
        texts: list[str] = self.page.evaluate(
            """(heading) => {
                const table = document.getElementById("points-table");
                const headings = [...table.tHead.rows[0].cells].map((cell) => cell.innerText);
                const place = headings.findIndex((text) => text.trim().startsWith(heading));
                const rows = [...table.tBodies[0].rows].filter((row) => row.offsetParent !== null);
                return rows.map((row) => row.cells[place].innerText.trim());
            }""",
            heading,
        )
        return texts

    def heading(self, name: str) -> Any:
        return self.page.locator("#points-table th").filter(has_text=name)


Open = Callable[..., Opened]
