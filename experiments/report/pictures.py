"""Figures as part of the page: SVG in a data URI, the same bytes for the same figure."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from io import BytesIO

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

# Matplotlib draws the identifiers in an SVG at random unless it is given a salt.
_HASH_SALT = "faultline"
_LARGEST_SVG_BYTES = 1_500_000


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure in the page.

    Attributes
    ----------
    name : str
        Short name, for links.
    title : str
        What it shows; also read out to those who cannot see it.
    uri : str
        The image itself.
    """

    name: str
    title: str
    uri: str


def embed(name: str, title: str, figure: Figure) -> Picture:
    """Turn a figure into a picture, and close it.

    A figure with tens of thousands of marks becomes a PNG: as an SVG it would weigh more than all
    the rest of the page.
    """
    content, kind = _save(figure, "svg"), "image/svg+xml"
    if len(content) > _LARGEST_SVG_BYTES:
        content, kind = _save(figure, "png"), "image/png"
    plt.close(figure)
    return Picture(name, title, f"data:{kind};base64,{b64encode(content).decode('ascii')}")


def _save(figure: Figure, file_format: str) -> bytes:
    stream = BytesIO()
    metadata = {"Date": None} if file_format == "svg" else None
    with mpl.rc_context({"svg.hashsalt": _HASH_SALT}):
        figure.savefig(
            stream, format=file_format, metadata=metadata, bbox_inches="tight", facecolor="white"
        )
    return stream.getvalue()
