"""Mixes of causes in TOML: the shipped ones by name, a user's own by path."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.mistakes import mistakes_in, quote
from faultline.experiments.config.text_file import read_text_file
from faultline.experiments.config.toml_text import parse_toml
from faultline.platforms.errors import PlatformError
from faultline.platforms.units import parse_time_s
from faultline.simulator.failures.distributions import Constant, Distribution, Uniform
from faultline.simulator.failures.failure import Kind, Level
from faultline.simulator.failures.mix import Cause
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

GPUS_PER_NODE = 8
"""GPUs of the nodes in ``per_1000_node_days`` (Kokolis et al. 2025, arXiv 2410.21680)."""

_SHIPPED = files("faultline.experiments.config").joinpath("mixes")
_DAY_S = 86_400.0
_LONGEST_S = 1e10


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _check_duration(text: object) -> object:
    try:
        time_s = parse_time_s(text)
    except PlatformError:
        raise ValueError("should be a number and a unit, such as 90min, 3h or 5d") from None
    if not 0 < time_s <= _LONGEST_S:
        raise ValueError(f"should be positive and at most {_LONGEST_S:g} s")
    return text


def _check_name(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,59}", text):
        raise ValueError("should be in small letters, digits and hyphens, such as gpu-memory")
    return text


Duration = Annotated[str, BeforeValidator(_check_duration)]
"""A time as people write it, with a unit: "54d", "3h"."""


class Observed(_Table):
    """``[observed]``: on how many GPUs, and for how long, the counts were made."""

    gpus: int = Field(ge=1, le=10**9, strict=True)
    span: Duration


class RepairRange(_Table):
    """``repair = { least = "3d", most = "5d" }``: any time between two; ``"3h"`` is always that."""

    least: Duration
    most: Duration

    @model_validator(mode="after")
    def _in_order(self) -> RepairRange:
        if parse_time_s(self.least) > parse_time_s(self.most):
            raise ValueError("least should not exceed most")
        return self


def _one_time_or_two(value: object) -> object:
    if isinstance(value, (dict, RepairRange)):
        return value
    return {"least": _check_duration(value), "most": value}


class CauseTable(_Table):
    """``[[cause]]``: one cause of failures.

    Its rate is `count` in the span and on the GPUs of ``[observed]``, or `per_1000_node_days` on
    nodes of eight GPUs. Either way it grows with the GPUs of the job.
    """

    name: Annotated[str, AfterValidator(_check_name)]
    count: float | None = Field(None, gt=0, le=1e9)
    per_1000_node_days: float | None = Field(None, ge=1e-9, le=1e9)
    level: Level
    kind: Kind
    repair: Annotated[RepairRange, BeforeValidator(_one_time_or_two)] | None = None
    shape: float | None = Field(None, ge=0.1, le=1000)

    @model_validator(mode="after")
    def _one_rate(self) -> CauseTable:
        if (self.count is None) == (self.per_1000_node_days is None):
            raise ValueError("needs a rate: either count or per_1000_node_days")
        return self

    def repair_time(self) -> Distribution | None:
        """Return the distribution of the time to repair; None where the file does not say."""
        if self.repair is None:
            return None
        least_s, most_s = parse_time_s(self.repair.least), parse_time_s(self.repair.most)
        return Constant(least_s) if least_s == most_s else Uniform(least_s, most_s)


class MixFile(_Table):
    """A mix of causes, and where its numbers come from."""

    name: str = ""
    description: str = ""
    source: str = Field(min_length=1)
    observed: Observed | None = None
    cause: list[CauseTable] = Field(min_length=1, max_length=200)

    @model_validator(mode="after")
    def _causes_fit_together(self) -> MixFile:
        names = [cause.name for cause in self.cause]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"cause {min(twice)!r} is there twice; give each a name of its own")
        if self.observed is None and any(cause.count is not None for cause in self.cause):
            raise ValueError(
                'count is of what? Add a table [observed] with gpus and span, such as "54d"'
            )
        return self

    def causes(self) -> tuple[Cause, ...]:
        """Return the causes with their rates."""
        return tuple(
            Cause(
                table.name,
                table.level,
                table.kind,
                self._rate_per_gpu_s(table),
                table.repair_time(),
                table.shape,
            )
            for table in self.cause
        )

    def _rate_per_gpu_s(self, table: CauseTable) -> float:
        if table.per_1000_node_days is not None:
            return table.per_1000_node_days / (1000 * GPUS_PER_NODE * _DAY_S)
        assert table.count is not None
        assert self.observed is not None
        return table.count / (self.observed.gpus * parse_time_s(self.observed.span))


def shipped_mixes() -> list[str]:
    """Return the names of the mixes that come with Faultline."""
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in _SHIPPED.iterdir()
        if entry.name.endswith(".toml")
    )


def load_mix(name_or_path: str) -> MixFile:
    """Read a mix of causes.

    Parameters
    ----------
    name_or_path : str
        The name of a shipped mix, or a TOML file.

    Raises
    ------
    UserError
        If there is no such file, or it is no mix; names the first mistake with its line, and how
        many more there are.
    """
    if name_or_path in shipped_mixes():
        text = _SHIPPED.joinpath(f"{name_or_path}.toml").read_text(encoding="utf-8")
    else:
        text = _text_of(name_or_path)
    tables, mistakes = parse_toml(text)
    if mistakes:
        first = mistakes[0]
        raise UserError(
            f"{_place(name_or_path, first.line)}: this is no TOML: {first.what}"
            + _and_more(len(mistakes))
        )
    tables.setdefault("name", Path(name_or_path).stem)
    try:
        return MixFile.model_validate(tables)
    except ValidationError as error:
        mistakes_told = mistakes_in(error, MixFile)
        first_told = mistakes_told[0]
        line = _line_of(text, first_told.location)
        raise UserError(
            f"{_place(name_or_path, line)}: {first_told.describe()}" + _and_more(len(mistakes_told))
        ) from error


def _text_of(name_or_path: str) -> str:
    try:
        return read_text_file(Path(name_or_path))
    except UserError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(
            f"failures.mix = {quote(name_or_path)}: {reason}; name a TOML file or a shipped mix "
            f"({', '.join(shipped_mixes())})"
        ) from error


def _line_of(text: str, location: tuple[str | int, ...]) -> int | None:
    """Return the line of a key, or of the table that it should be in; None if it is not found."""
    lines = text.splitlines()
    start, names = 0, [part for part in location if isinstance(part, str)]
    if len(location) > 1 and location[0] == "cause" and isinstance(location[1], int):
        headers = [n for n, line in enumerate(lines) if re.match(r"\s*\[\[\s*cause\s*\]\]", line)]
        if location[1] >= len(headers):
            return None
        start, names = headers[location[1]] + 1, names[1:]
        end = next((n for n in headers if n > start), len(lines))
    elif names and (header := _find(rf"\s*\[\s*{re.escape(names[0])}\s*\]", lines, 0, len(lines))):
        start, names, end = header, names[1:], len(lines)
    else:
        end = len(lines)
    key = re.escape(names[0]) if names else "$^"
    return _find(rf"""\s*["']?{key}["']?\s*=""", lines, start, end) or start or None


def _find(pattern: str, lines: list[str], start: int, end: int) -> int | None:
    """Return the line, from 1, of the first match in ``lines[start:end]``."""
    return next((n + 1 for n in range(start, end) if re.match(pattern, lines[n])), None)


def _place(origin: str, line: int | None) -> str:
    return origin if line is None else f"{origin}:{line}"


def _and_more(mistakes: int) -> str:
    return f" (and {mistakes - 1} more)" if mistakes > 1 else ""
