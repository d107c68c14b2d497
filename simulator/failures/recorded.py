"""Millions of recorded failures, kept in columns and made into `Failure` when needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan
from typing import Any, overload

import numpy as np
from faultline.simulator.failures.failure import KINDS, LEVELS, Failure
from numpy.typing import NDArray

COLUMN_TYPES = {
    "time_s": np.float64,
    "level": np.int8,
    "number": np.int32,
    "cause": np.int32,
    "kind": np.int8,
    "repair_s": np.float64,
    "first_group": np.int32,
    "end_group": np.int32,
    "lasts_s": np.float64,
    "factor": np.float64,
}
_CHUNK = 4_096


@dataclass(frozen=True, slots=True, eq=False)
class RecordedFailures(Sequence[Failure]):
    """A sequence of failures, with one column per attribute of `Failure`."""

    # As in `Failure`, in seconds; NaN for an unknown repair time.
    time_s: NDArray[np.float64]
    # Places in `LEVELS`, `KINDS` and `causes`.
    level: NDArray[np.int8]
    number: NDArray[np.int32]  # As in `Failure`.
    cause: NDArray[np.int32]
    kind: NDArray[np.int8]
    repair_s: NDArray[np.float64]
    # The first group that stops, and the one after the last.
    first_group: NDArray[np.int32]
    end_group: NDArray[np.int32]
    # As in `Failure`.
    lasts_s: NDArray[np.float64]
    factor: NDArray[np.float64]
    causes: tuple[str, ...]  # Names of all causes.

    @classmethod
    def of(cls, failures: Iterable[Failure]) -> RecordedFailures:
        """Return failures in columns."""
        rows = list(failures)
        causes = tuple(dict.fromkeys(failure.cause for failure in rows))
        columns: dict[str, list[Any]] = {
            "time_s": [row.time_s for row in rows],
            "level": [LEVELS.index(row.level) for row in rows],
            "number": [row.number for row in rows],
            "cause": [causes.index(row.cause) for row in rows],
            "kind": [KINDS.index(row.kind) for row in rows],
            "repair_s": [nan if row.repair_s is None else row.repair_s for row in rows],
            "first_group": [row.groups.start for row in rows],
            "end_group": [row.groups.stop for row in rows],
            "lasts_s": [row.lasts_s for row in rows],
            "factor": [row.factor for row in rows],
        }
        return cls(**{name: as_column(name, each) for name, each in columns.items()}, causes=causes)

    def select(self, rows: slice | NDArray[np.int64]) -> RecordedFailures:
        """Return the failures in some rows, by their numbers."""
        return replace(self, **{name: getattr(self, name)[rows] for name in COLUMN_TYPES})

    def in_order_of_time(self) -> RecordedFailures:
        """Return the failures sorted; those of the same time keep their order."""
        if np.all(self.time_s[1:] >= self.time_s[:-1]):
            return self
        return self.select(np.argsort(self.time_s, kind="stable"))

    def later(self, delay_s: float) -> RecordedFailures:
        """Return the same failures, `delay_s` seconds later."""
        return replace(self, time_s=self.time_s + delay_s)

    def __len__(self) -> int:
        return len(self.time_s)

    @overload
    def __getitem__(self, row: int) -> Failure: ...
    @overload
    def __getitem__(self, row: slice) -> RecordedFailures: ...
    def __getitem__(self, row: int | slice) -> Failure | RecordedFailures:
        if isinstance(row, slice):
            return self.select(row)
        place = range(len(self))[row]
        return next(iter(self.select(slice(place, place + 1))))

    def chunks(self) -> Iterator[list[Failure]]:
        """Yield the failures, 4,096 at a time."""
        for start in range(0, len(self), _CHUNK):
            some = self.select(slice(start, start + _CHUNK))
            yield [
                Failure(
                    time_s,
                    LEVELS[level],
                    number,
                    self.causes[cause],
                    KINDS[kind],
                    None if isnan(repair_s) else repair_s,
                    range(first, end),
                    lasts_s,
                    factor,
                )
                for time_s, level, number, cause, kind, repair_s, first, end, lasts_s, factor
                in zip(
                    some.time_s.tolist(), some.level.tolist(), some.number.tolist(),
                    some.cause.tolist(), some.kind.tolist(), some.repair_s.tolist(),
                    some.first_group.tolist(), some.end_group.tolist(),
                    some.lasts_s.tolist(), some.factor.tolist(),
                    strict=True,
                )
            ]  # fmt: skip

    def __iter__(self) -> Iterator[Failure]:
        for chunk in self.chunks():
            yield from chunk

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]


def as_column(name: str, values: Sequence[Any]) -> NDArray[Any]:
    """Return the values of a column in its type."""
    return np.array(values, COLUMN_TYPES[name])
