"""Traces of failures as CSV: read with every mistake told, and written."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from io import StringIO
from math import isfinite
from pathlib import Path
from typing import get_args

from faultline.experiments.config.errors import UserError, did_you_mean
from faultline.experiments.config.keys import quote
from faultline.platforms.errors import PlatformError
from faultline.platforms.files import write_file
from faultline.platforms.units import parse_time_s
from faultline.simulator.failures.failure import KINDS, LEVELS, Failure, JobLayout, Kind, Level
from faultline.simulator.failures.failure import UNSTATED_CAUSE as UNSTATED

COLUMNS = ("time", "component", "cause", "kind", "repair")
REQUIRED = ("time", "component")
LARGEST_BYTES = 2**28
MOST_CAUSES = 200

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_COMPONENT = re.compile(rf"({'|'.join(LEVELS[:-1])})-(\d{{1,15}})")
_LATEST_S = 1e15


class _Wrong(ValueError):
    """What is wrong with a cell, and what would be right."""


@dataclass(slots=True)
class _Reader:
    """Turns rows into failures, and keeps what is wrong with the others.

    Attributes
    ----------
    path : Path
        The file.
    layout : JobLayout
        Tells which components there are, and which groups they take down.
    start : datetime or None
        The moment that is time 0, where times are timestamps.
    failures : list of Failure
        What has been read.
    mistakes : list of str
        One line a mistake, with its place.
    """

    path: Path
    layout: JobLayout
    start: datetime | None
    failures: list[Failure] = field(default_factory=list)
    mistakes: list[str] = field(default_factory=list)

    def read(self, cells: dict[str, str], line: int) -> None:
        try:
            time_s = self._time_s(cells["time"])
            level, index = self._component(cells["component"])
            cause = _cause(cells.get("cause", ""))
            kind = _kind(cells.get("kind", ""))
            repair_s = _repair_s(cells.get("repair", ""))
        except _Wrong as wrong:
            self.mistakes.append(f"{self.path}:{line}: {wrong}")
            return
        if time_s >= 0.0:
            groups = self.layout.groups_of(level, index)
            self.failures.append(Failure(time_s, level, index, cause, kind, repair_s, groups))

    def _time_s(self, text: str) -> float:
        if _DATE.match(text):
            if self.start is None:
                raise _Wrong(
                    f"time {quote(text)} is a timestamp: set failures.trace_start to the moment at "
                    "which the job starts"
                )
            return (parse_timestamp(text) - self.start).total_seconds()
        if self.start is not None:
            raise _Wrong(
                f"time {quote(text)} is no timestamp, but failures.trace_start is set; write "
                "2024-05-01T12:00:00, or unset it"
            )
        return _seconds("time", text)

    def _component(self, text: str) -> tuple[Level, int]:
        if text == "job":
            return "job", 0
        match = _COMPONENT.fullmatch(text)
        if match is None:
            raise _Wrong(
                f"component {quote(text)} is none: write "
                f"{', '.join(f'{level}-0' for level in LEVELS[:-1])} or job"
            )
        level: Level = next(known for known in LEVELS if known == match[1])
        index, there_are = int(match[2]), self.layout.components(level)
        if index >= there_are:
            raise _Wrong(f"component {text}: the job has {level}-0 to {level}-{there_are - 1}")
        return level, index


def read_trace(path: Path, layout: JobLayout, start: datetime | None = None) -> list[Failure]:
    """Read a trace.

    Parameters
    ----------
    path : Path
        A CSV file whose header names its columns: time and component, and if it likes cause, kind
        and repair. Times and repairs are in seconds, or carry a unit; times may be timestamps.
    layout : JobLayout
        Tells which components there are, and which groups they take down.
    start : datetime, optional
        The moment that is time 0, where times are timestamps. What happened before is left out.

    Returns
    -------
    list of Failure
        In the order of time; rows of the same time keep theirs.

    Raises
    ------
    UserError
        If there is no such file, or it is no trace; names the first mistake with its line, and how
        many more there are.
    """
    reader = _Reader(path, layout, start)
    lines = csv.reader(StringIO(_text_of(path), newline=""), strict=True, skipinitialspace=True)
    header: list[str] | None = None
    try:
        for row in lines:
            cells = [cell.strip() for cell in row]
            if not any(cells):
                continue
            if header is None:
                header = _header(cells, f"{path}:{lines.line_num}")
            elif len(cells) != len(header):
                reader.mistakes.append(
                    f"{path}:{lines.line_num}: has {len(cells)} cells where the header has "
                    f"{len(header)}: {', '.join(header)}"
                )
            else:
                reader.read(dict(zip(header, cells, strict=True)), lines.line_num)
    except csv.Error as error:
        reader.mistakes.append(f"{path}:{lines.line_num}: this is no CSV: {error}")
    if reader.mistakes:
        more = len(reader.mistakes) - 1
        raise UserError(reader.mistakes[0] + (f" (and {more} more)" if more else ""))
    causes = {failure.cause for failure in reader.failures}
    if len(causes) > MOST_CAUSES:
        raise UserError(
            f"{path}: has {len(causes):,} causes; sum them up to at most {MOST_CAUSES}, such as "
            "gpu, host, network, software"
        )
    if not reader.failures:
        after = "" if start is None else " from failures.trace_start on"
        raise UserError(f"{path}: there is no failure in it{after}; write a row a failure")
    return sorted(reader.failures, key=lambda failure: failure.time_s)


def write_trace(failures: Iterable[Failure], path: Path) -> None:
    """Write failures so that `read_trace` gives back the very same ones.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    text = StringIO(newline="")
    rows = csv.writer(text)
    rows.writerow(COLUMNS)
    for failure in failures:
        repair = "" if failure.repair_s is None else repr(failure.repair_s)
        rows.writerow(
            (repr(failure.time_s), failure.component, failure.cause, failure.kind, repair)
        )
    write_file(path, text.getvalue())


def parse_timestamp(text: str) -> datetime:
    """Read a timestamp of ISO 8601, in UTC where it does not say.

    Raises
    ------
    ValueError
        If it is none; the message says what would be right.
    """
    try:
        # Python 3.10 does not know the Z.
        moment = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text.strip()))
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        return moment.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        raise _Wrong(f"{quote(text)} is no timestamp; write 2024-05-01T12:00:00") from None


def _text_of(path: Path) -> str:
    try:
        if not path.is_file():
            what = "no such file" if not path.exists() else "not a file"
            raise UserError(f"failures.trace = {quote(str(path))}: {what}; name a CSV file")
        if path.stat().st_size > LARGEST_BYTES:
            raise UserError(f"{path}: larger than {LARGEST_BYTES // 2**20} MiB; keep what matters")
        # Spreadsheets write a byte order mark.
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: this is no CSV: it is not UTF-8 text") from error
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; name a CSV file") from error


def _header(cells: list[str], place: str) -> list[str]:
    names = [cell.lower() for cell in cells]
    for name in names:
        if name not in COLUMNS:
            raise UserError(
                f"{place}: unknown column {quote(name)}; {did_you_mean(name, list(COLUMNS))} "
                "The first line names the columns"
            )
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        raise UserError(f"{place}: column {missing[0]} is missing; write {','.join(COLUMNS)}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"{place}: column {twice} is there twice; keep one of them")
    return names


def _cause(text: str) -> str:
    if len(text) > 60 or not text.isprintable():
        raise _Wrong(f"cause {quote(text)} is too long, or cannot be printed; name it shortly")
    return text or UNSTATED


def _kind(text: str) -> Kind:
    if not text:
        return "hardware"
    found: dict[str, Kind] = {kind: kind for kind in KINDS}
    if text.lower() not in found:
        raise _Wrong(f"kind {quote(text)} is none; write {', '.join(get_args(Kind))} or nothing")
    return found[text.lower()]


def _repair_s(text: str) -> float | None:
    return _seconds("repair", text) if text else None


def _seconds(column: str, text: str) -> float:
    read: Callable[[str], float] = float if _NUMBER.fullmatch(text) else parse_time_s
    try:
        seconds = read(text)
    except PlatformError:
        raise _Wrong(f"{column} {quote(text)} is no time; write seconds, or 90min or 3h") from None
    if not isfinite(seconds) or not 0.0 <= seconds <= _LATEST_S:
        raise _Wrong(f"{column} {quote(text)} is out of range: write 0 to {_LATEST_S:g} seconds")
    return seconds
