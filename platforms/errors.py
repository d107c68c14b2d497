"""The exception that this package raises for wrong input, and the text of its messages."""

from __future__ import annotations

import difflib
import errno
import os
import resource
from collections.abc import Iterable


class PlatformError(ValueError):
    """A quantity, a cluster spec or a platform file is wrong.

    The message is a single line: the place, the mistake and the remedy.

    Parameters
    ----------
    what
        The mistake and the remedy.
    where
        The place, for example ``"cluster.toml:12: scale_up.bandwidth"``; empty if unknown.
    """

    def __init__(self, what: str, where: str = "") -> None:
        super().__init__(one_line(f"{where}: {what}" if where else what))


class KeyedError(ValueError):
    """A rule over several keys is broken; `key` is the wrong one. Internal to the package."""

    def __init__(self, key: str, what: str) -> None:
        super().__init__(what)
        self.key = tuple(key.split("."))


_LONGEST_LINE = 1_000

_NO_THREAD = "can't start new thread"
_NO_LIBRARY = ("failed to map segment", "cannot allocate memory")


def one_line(text: str) -> str:
    """Return a message as one printable line of bounded length.

    Line breaks become blanks. Unprintable characters are escaped. A text above the limit keeps its
    beginning and end.
    """
    line = printable(" ".join(text.split()))
    if len(line) <= _LONGEST_LINE:
        return line
    half = _LONGEST_LINE // 2 - 10
    return f"{line[:half]} [...] {line[-half:]}"


def printable(text: str) -> str:
    """Return a text with control and other unprintable characters escaped."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `` (did you mean 'x'?)`` for the known name closest to `name`, or nothing."""
    candidates = sorted(known) if name else []
    close = difflib.get_close_matches(name.lower(), candidates, n=1, cutoff=0.6)
    if close:
        return f" (did you mean {close[0]!r}?)"
    # A missing or extra word ("latency" for "link_latency") scores low as a spelling.
    longer = [known_name for known_name in candidates if name in known_name or known_name in name]
    return f" (did you mean {longer[0]!r}?)" if longer else ""


def shortage(error: Exception) -> str | None:
    """Return one line if an error is a lack of memory, threads, processes or open files; else None.

    C++ libraries report a lack of threads and processes only by the system's message text. The
    loader of shared libraries has its own texts.
    """
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return f"{os.strerror(error.errno)}; raise ulimit -n ({files:,}), or close some"
    system_texts = [os.strerror(code) for code in (errno.ENOMEM, errno.EAGAIN)]
    if not (
        isinstance(error, MemoryError)
        or (isinstance(error, OSError) and error.errno in (errno.ENOMEM, errno.EAGAIN))
        or (isinstance(error, RuntimeError) and str(error) in [*system_texts, _NO_THREAD])
        or (isinstance(error, ImportError) and any(map(str(error).__contains__, _NO_LIBRARY)))
    ):
        return None
    limits = resource.RLIMIT_AS, resource.RLIMIT_NPROC
    size, count = (resource.getrlimit(limit)[0] for limit in limits)
    memory = "unlimited" if size == resource.RLIM_INFINITY else f"{size // 1024:,} kB"
    threads = "unlimited" if count == resource.RLIM_INFINITY else f"{count:,}"
    return one_line(
        f"out of memory or threads ({str(error) or 'no memory left'}); raise ulimit -v ({memory}) "
        f"or ulimit -u ({threads}), or free some"
    )
