"""The error of a scheme whose values are invalid, and the text of any error."""

from __future__ import annotations


class StrategyError(ValueError):
    """A scheme cannot be built from its values.

    Parameters
    ----------
    where : str
        Dotted key of the invalid value, as written in a scenario.
    what : str
        The fault.
    remedy : str
        A valid choice.
    """

    def __init__(self, where: str, what: str, remedy: str) -> None:
        super().__init__(f"{where}: {what}; {remedy}")
        self.where = where
        self.what = what
        self.remedy = remedy


def text_of(error: BaseException) -> str:
    """Return the kind of an error and its message, in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
