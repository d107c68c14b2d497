"""The look and the name of each scheme, the same in every figure, table and text.

Those of shipped schemes stand here. Those of other schemes follow from the scheme's name alone, so
that they do not depend on other schemes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from faultline.strategies.plugins.registry import all_strategies

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555")
"""Colours other than of schemes: Okabe and Ito (2008), a palette for all kinds of colour vision."""

Dashes = Literal["-", "--", "-.", ":"]
"""Matplotlib's names of line styles."""

# Colours of Okabe and Ito (2008) that no shipped scheme has, without yellow, which is too pale for
# a line. Shipped schemes have solid lines, plug-in schemes do not.
FREE_COLOURS = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8A7A00")
FREE_MARKERS = ("o", "D", "v", "P", "X", "<", ">", "*", "h", "p")
_FREE_DASHES: tuple[Dashes, ...] = ("--", "-.", ":")


@dataclass(frozen=True, slots=True)
class LineLook:
    """The look of a line, and its label in the legend."""

    label: str
    colour: str
    marker: str
    dashes: Dashes = "-"

    @property
    def line(self) -> dict[str, Any]:
        """The look as arguments of Matplotlib's lines."""
        named = {"color": self.colour, "marker": self.marker, "linestyle": self.dashes}
        return {**named, "label": self.label}


class _Shipped(NamedTuple):
    """The look of a shipped scheme."""

    title: str  # Its published name.
    colour: str
    marker: str
    legend: str = ""  # Its label in legends, if that is not the title.


_SHIPPED = {
    "checkpoint": _Shipped("checkpoint", "#555555", "^", "checkpoint only"),
    "replication": _Shipped("replication", "#D55E00", "s", "replication + checkpoint"),
    "spare": _Shipped("SPARe", "#0072B2", "o", "SPARe + checkpoint"),
    "replica-drop": _Shipped("replica drop", "#16157A", "8"),
    "warm-standby": _Shipped("warm standby", "#C8C200", "H"),
    "ntp": _Shipped("NTP", "#11CCBB", "D"),
    "ntp-pw": _Shipped("NTP-PW", "#5A0014", "d"),
    "dp-drop": _Shipped("DP-DROP", "#DD11AA", "v"),
    "recycle": _Shipped("ReCycle", "#007722", "*"),
    "mecefo": _Shipped("MeCeFO", "#E0B07A", "P"),
    "bamboo": _Shipped("Bamboo", "#6A2BFF", "X"),
    "oobleck": _Shipped("Oobleck", "#CC99FF", "<"),
    "varuna": _Shipped("Varuna", "#E0607E", ">"),
}


def look_of(scheme: str) -> LineLook:
    """Return the look of a scheme by its name, which need not be registered."""
    if shipped := _SHIPPED.get(scheme):
        return LineLook(shipped.legend or shipped.title, shipped.colour, shipped.marker)
    number = int.from_bytes(sha256(scheme.encode()).digest()[:8], "big")
    number, colour = divmod(number, len(FREE_COLOURS))
    number, dashes = divmod(number, len(_FREE_DASHES))
    marker = FREE_MARKERS[number % len(FREE_MARKERS)]
    return LineLook(scheme, FREE_COLOURS[colour], marker, _FREE_DASHES[dashes])


def looks_of_schemes(schemes: Iterable[str]) -> dict[str, LineLook]:
    """Return the look of each scheme, in order."""
    return {scheme: look_of(scheme) for scheme in schemes}


def title_of(scheme: str, star: bool = False) -> str:
    """Return a scheme's published name; with `star`, approximate ones have an asterisk."""
    cls = all_strategies().get(scheme)
    title = _SHIPPED[scheme].title if scheme in _SHIPPED else scheme
    return f"{title}*" if star and cls and cls.approximate else title
