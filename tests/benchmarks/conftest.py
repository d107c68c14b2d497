"""The table of ratios that `make bench` prints below pytest-benchmark's own."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

Compared = list[tuple[str, float, float | None, float | None, str]]
"""What was measured, its median in seconds, its target, its ratio, and what that compares with."""


class Speed:
    """Measures a function by pytest-benchmark, and keeps what it is to be compared with."""

    def __init__(self, benchmark: Any, compared: Compared, name: str) -> None:
        self._benchmark, self._compared, self._name = benchmark, compared, name

    def of(
        self,
        function: Any,
        *,
        setup: Any = None,
        rounds: int = 3,
        divided_by: float = 1.0,
        target_s: float | None = None,
        rival_s: float | None = None,
        rival: str = "",
    ) -> float:
        """Return the median time of a call in seconds, over `divided_by` parts of it.

        The ratio is the time of a rival over it.
        """
        self._benchmark.pedantic(function, setup=setup, rounds=rounds)
        seconds = float(self._benchmark.stats.stats.median) / divided_by
        ratio = None if rival_s is None else rival_s / seconds
        self._compared.append((self._name, seconds, target_s, ratio, rival))
        return seconds


_COMPARED = pytest.StashKey[Compared]()


@pytest.fixture
def speed(benchmark: Any, request: pytest.FixtureRequest) -> Speed:
    """What measures the time of one case."""
    compared = request.config.stash.setdefault(_COMPARED, [])
    return Speed(benchmark, compared, request.node.name.removeprefix("test_").replace("_", " "))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print a row a case: its time, its target, and its ratio."""
    table = Table("case", "median", "target", "times as fast as", title="Faultline")
    for name, seconds, target_s, ratio, rival in terminalreporter.config.stash.get(_COMPARED, []):
        target = "" if target_s is None else f"{_readable(target_s)}, {_met(seconds, target_s)}"
        times = "" if ratio is None else f"{ratio:,.0f} x {rival}"
        table.add_row(Text(name), _readable(seconds), target, times)
    if table.rows:
        Console(width=120).print(table)


def _met(seconds: float, target_s: float) -> str:
    return "met" if seconds <= target_s else "not met"


def _readable(seconds: float) -> str:
    for unit, per_second in (("us", 1e6), ("ms", 1e3)):
        if seconds * per_second < 1e3:
            return f"{seconds * per_second:.3g} {unit}"
    return f"{seconds:.3g} s"
