"""Colours and names of the schemes in the figures and the report."""

from __future__ import annotations

from faultline.experiments.figures.style import SCHEME_COLOURS, scheme_looks
from faultline.experiments.studies.head_to_head.controls import NTP_ALONE

# Tol's muted scheme for those without a colour of their own: as large areas they have to be told
# apart by all kinds of colour vision. A hybrid is a lighter shade of what it is built on.
_COLOURS = {
    "dp-drop": "#882255",
    "ntp": "#44AA99",
    "ntp-pw": "#117733",
    "mecefo": "#DDCC77",
    "bamboo": "#999933",
    "oobleck": "#AA4499",
    "varuna": "#CC6677",
    "spare-ntp": "#88CCEE",
    "replication-ntp": "#F4B183",
    NTP_ALONE: "#DDDDDD",
}
NAMES = {
    "checkpoint": "checkpoint",
    "replication": "replication",
    "spare": "SPARe",
    "dp-drop": "DP-DROP",
    "ntp": "NTP",
    "ntp-pw": "NTP-PW",
    "mecefo": "MeCeFO*",
    "bamboo": "Bamboo",
    "oobleck": "Oobleck",
    "varuna": "Varuna",
    "spare-ntp": "SPARe on NTP",
    "replication-ntp": "replication on NTP",
    NTP_ALONE: "NTP without a restart",
}


def colour_of(scheme: str) -> str:
    """Return the colour of a scheme's region."""
    own = SCHEME_COLOURS.get(scheme) or _COLOURS.get(scheme)
    return own or scheme_looks([scheme])[scheme].colour


def name_of(scheme: str) -> str:
    """Return a scheme's name as its authors write it."""
    return NAMES.get(scheme, scheme)


def order_of(scheme: str) -> tuple[int, str]:
    """Return what sorts schemes: those with a name in its order, then all others."""
    known = list(NAMES)
    return (known.index(scheme) if scheme in known else len(known), scheme)
