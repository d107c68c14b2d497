"""What a user is told when what they asked for cannot be done."""

from __future__ import annotations

from difflib import get_close_matches


class UserError(ValueError):
    """Bad input, told in one line: where, what is wrong, and what would be right."""


def did_you_mean(word: str, known: list[str]) -> str:
    """Return a remedy for an unknown word: the likely one, or all there are."""
    close = get_close_matches(word, known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"use one of {', '.join(sorted(known))}"
