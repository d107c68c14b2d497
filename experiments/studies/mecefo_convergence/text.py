"""Real text that every machine with a Python has: the sources of its standard library, as bytes."""

from __future__ import annotations

import hashlib
import sysconfig
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

VOCABULARY = 256
_HELD_OUT_ONE_IN = 10


@cache
def library_text() -> tuple[Bytes, Bytes]:
    """Return the text to train on, and held-out text of other files.

    All modules at the top of the standard library, in the order of the digests of their contents,
    which also say what is held out: one file in ten. The same Python has the same text anywhere.
    """
    folder = Path(sysconfig.get_paths()["stdlib"])
    sources = (path.read_bytes() for path in folder.glob("*.py"))
    by_digest = sorted((hashlib.sha256(source).digest(), source) for source in sources)
    parts: tuple[list[bytes], list[bytes]] = ([], [])
    for digest, source in by_digest:
        parts[digest[0] % _HELD_OUT_ONE_IN == 0].append(source)
    train, held_out = (np.frombuffer(b"".join(part), np.uint8) for part in parts)
    return train, held_out


def sequences(text: Bytes, count: int, tokens: int, rng: np.random.Generator) -> Bytes:
    """Return random pieces of a text, shape (count, tokens + 1): the last is only predicted."""
    starts = rng.integers(len(text) - tokens, size=count)
    pieces: Bytes = text[starts[:, None] + np.arange(tokens + 1)]
    return pieces
