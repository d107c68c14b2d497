"""How each scheme looks and what it is called, the same in every figure, table and text.

A scheme's own class says it (`strategies.base.Strategy`: `title`, `legend`, `colour`, `marker`). A
scheme that does not say gets what its name alone decides: whoever joins, nobody else changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

from faultline.strategies.registry import all_strategies

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555")
"""Colours of what is no scheme: Okabe and Ito (2008), a palette for all kinds of colour vision."""

Dashes = Literal["-", "--", "-.", ":"]
"""Matplotlib's names of line styles."""

# Of Okabe and Ito (2008), for all kinds of colour vision, what no shipped scheme has; without
# yellow, which is too pale for a line. Shipped schemes have solid lines, plug-in schemes do not.
FREE_COLOURS = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8A7A00")
FREE_MARKERS = ("o", "D", "v", "P", "X", "<", ">", "*", "h", "p")
_FREE_DASHES: tuple[Dashes, ...] = ("--", "-.", ":")


@dataclass(frozen=True, slots=True)
class LineLook:
    """How one line of a picture looks, and what it is called in the legend."""

    label: str
    colour: str
    marker: str
    dashes: Dashes = "-"

    @property
    def line(self) -> dict[str, Any]:
        """The look as matplotlib's lines take it."""
        named = {"color": self.colour, "marker": self.marker, "linestyle": self.dashes}
        return {**named, "label": self.label}


def look_of(scheme: str) -> LineLook:
    """Return how a scheme looks, by its registered name; others than registered ones look too."""
    # Without what it inherits: a scheme derived from another one is not that one.
    stated: dict[str, Any] = dict(vars(all_strategies().get(scheme, object)))
    number = int.from_bytes(sha256(scheme.encode()).digest()[:8], "big")
    number, colour = divmod(number, len(FREE_COLOURS))
    number, dashes = divmod(number, len(_FREE_DASHES))
    own_colour = stated.get("colour")
    return LineLook(
        stated.get("legend") or stated.get("title") or scheme,
        own_colour or FREE_COLOURS[colour],
        stated.get("marker") or FREE_MARKERS[number % len(FREE_MARKERS)],
        "-" if own_colour else _FREE_DASHES[dashes],
    )


def looks_of_schemes(schemes: Iterable[str]) -> dict[str, LineLook]:
    """Return the look of each scheme, in their order."""
    return {scheme: look_of(scheme) for scheme in schemes}


def title_of(scheme: str, star: bool = False) -> str:
    """Return a scheme's name as published; with a `star` behind it if it is approximate."""
    cls = all_strategies().get(scheme)
    title = vars(cls).get("title") or scheme if cls else scheme
    return f"{title}*" if star and cls and cls.approximate else str(title)
