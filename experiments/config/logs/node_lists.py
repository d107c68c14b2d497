"""Slurm's lists of nodes: ``gpu[001-003,7],login1``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from faultline.experiments.config.errors import quote
from faultline.experiments.config.logs.failure_log import LARGEST_NUMBER_OF_NODES

MOST_EXPANDED = 5_000_000
"""Names in all lists of a log."""

_PART = re.compile(r",|([^\[\],\s]+)|\[([^\[\]]+)\]")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)

_Pieces = Sequence[str | tuple[int, int, int]]
"""Alternatives for a part of a name: a text, or the first and last number and their digits."""


class TooManyNodesError(ValueError):
    """Lists of nodes would take too much memory."""


def expand_nodes(text: str, most: int = LARGEST_NUMBER_OF_NODES) -> list[str]:
    """Return the nodes of a list with Slurm's ranges, each once: ``gpu[001-003,7],login1``.

    Raises ValueError if it is no such list; TooManyNodesError if it names more than `most` nodes,
    which are counted before any name is built.
    """
    names: list[list[_Pieces]] = [[]]
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None:
            raise ValueError(f"cannot be read from {quote(text[at : at + 100])} on")
        if match[0] == ",":
            names.append([])
        else:
            names[-1].append(_pieces(match[2]) if match[2] else [match[0]])
        at = match.end()
    if not all(names):
        raise ValueError("has an empty name")
    if sum(prod(map(_count, parts)) for parts in names) > most:
        raise TooManyNodesError(
            f"has more than {most:,} nodes: keep fewer days, a list may have "
            f"{LARGEST_NUMBER_OF_NODES:,} and all of a log {MOST_EXPANDED:,}"
        )
    expanded = ("".join(name) for parts in names for name in product(*map(_texts, parts)))
    return list(dict.fromkeys(expanded))


def _pieces(ranges: str) -> _Pieces:
    pieces = []
    for piece in ranges.split(","):
        match = _RANGE.fullmatch(piece.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if match is None or last < first:
            raise ValueError(f"{quote(piece)} is no range")
        pieces.append((first, last, len(match[1])))
    return pieces


def _count(pieces: _Pieces) -> int:
    return sum(1 if isinstance(piece, str) else piece[1] - piece[0] + 1 for piece in pieces)


def _texts(pieces: _Pieces) -> Iterator[str]:
    for piece in pieces:
        if isinstance(piece, str):
            yield piece
        else:
            first, last, digits = piece
            yield from (f"{number:0{digits}d}" for number in range(first, last + 1))
