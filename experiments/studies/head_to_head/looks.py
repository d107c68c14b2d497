"""Colours and names of the schemes in the figures and the report."""

from __future__ import annotations

from faultline.experiments.figures.palette import look_of, title_of
from faultline.experiments.studies.head_to_head.controls import NTP_ALONE

_ORDER = (
    "checkpoint", "replication", "spare", "dp-drop", "ntp", "ntp-pw", "mecefo", "bamboo", "oobleck",
    "varuna", "spare-ntp", "replication-ntp", NTP_ALONE,
)  # fmt: skip


def colour_of(scheme: str) -> str:
    """Return the colour of a scheme's region."""
    return "#DDDDDD" if scheme == NTP_ALONE else look_of(scheme).colour


def name_of(scheme: str) -> str:
    """Return a scheme's name as its authors write it; with a star if it is approximate."""
    return "NTP without a restart" if scheme == NTP_ALONE else title_of(scheme, star=True)


def order_of(scheme: str) -> tuple[int, str]:
    """Return what sorts schemes: those that are shipped in their order, then all others."""
    return (_ORDER.index(scheme) if scheme in _ORDER else len(_ORDER), scheme)
