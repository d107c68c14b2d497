"""What a strategy raises when it cannot be set up as asked."""

from __future__ import annotations


class StrategyError(ValueError):
    """A scheme cannot be built from the values it was given.

    Parameters
    ----------
    where : str
        Dotted key of the value at fault, as a user writes it in a scenario.
    what : str
        What is wrong with it.
    remedy : str
        What would be right.
    """

    def __init__(self, where: str, what: str, remedy: str) -> None:
        super().__init__(f"{where}: {what}; {remedy}")
        self.where = where
        self.what = what
        self.remedy = remedy
