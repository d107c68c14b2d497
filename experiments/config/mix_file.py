"""Mixes of causes of failures in TOML: shipped ones by name, a user's own by path."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from faultline.experiments.config.errors import Location, UserError, quote
from faultline.experiments.config.keys import mistakes_in
from faultline.experiments.config.toml_text import Library, TomlSource
from faultline.platforms.errors import PlatformError
from faultline.platforms.toml_lines import key_lines
from faultline.platforms.units import parse_time_s
from faultline.simulator.failures.distributions import Constant, Distribution, Lognormal, Uniform
from faultline.simulator.failures.failure import RULES, Kind, Level, kind_error
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

PER_1000_NODE_DAYS = 1000 * GPUS_PER_NODE * 86_400.0
"""Factor from a rate per second and GPU to one per 1,000 days of a node of eight GPUs."""

_MIXES = Library("mix", "mixes")
ENTRY_POINTS = "faultline.mixes"
"""Entry point group for mixes of installed packages."""
_CAUSE = re.compile(r"\s*\[\[\s*cause\s*\]\]")
_LONGEST_S = 1e10


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


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
"""A time with a unit: "54d", "3h"."""


class Observed(_Table):
    """``[observed]``: the GPUs and the time that the counts are from."""

    gpus: int = Field(ge=1, le=10**9, strict=True)
    span: Duration


class TimeRange(_Table):
    """A random time.

    ``"3h"`` is constant, ``{ least = "3d", most = "5d" }`` is uniform, and
    ``{ median = "10min", sigma = 1.9 }`` is lognormal, with the sigma of the natural logarithm.
    """

    least: Duration | None = None
    most: Duration | None = None
    median: Duration | None = None
    sigma: float | None = Field(None, gt=0, le=10)

    @model_validator(mode="after")
    def _one_of_two(self) -> TimeRange:
        given = [name for name, value in self if value is not None]
        if given not in (["least", "most"], ["median", "sigma"]):
            raise ValueError('needs least and most, or median and sigma, or is a time such as "3h"')
        if self.least and self.most and parse_time_s(self.least) > parse_time_s(self.most):
            raise ValueError("least should not exceed most")
        return self

    def distribution(self) -> Distribution:
        """Return the distribution of the time."""
        if self.median is not None and self.sigma is not None:
            return Lognormal(parse_time_s(self.median), self.sigma)
        least_s, most_s = parse_time_s(self.least), parse_time_s(self.most)
        return Constant(least_s) if least_s == most_s else Uniform(least_s, most_s)


class FactorRange(_Table):
    """``factor = { least = 1.1, most = 3.0 }`` is uniform; ``1.5`` is constant."""

    least: float = Field(ge=1, le=1000)
    most: float = Field(ge=1, le=1000)

    @model_validator(mode="after")
    def _in_order(self) -> FactorRange:
        if self.least > self.most:
            raise ValueError("least should not exceed most")
        return self


def _as_time_range(value: object) -> object:
    if isinstance(value, (dict, TimeRange)):
        return value
    return {"least": _check_duration(value), "most": value}


def _as_factor_range(value: object) -> object:
    return value if isinstance(value, (dict, FactorRange)) else {"least": value, "most": value}


Time = Annotated[TimeRange, BeforeValidator(_as_time_range)]


class CauseTable(_Table):
    """``[[cause]]``: one cause of failures.

    Its rate is `count` in the span and on the GPUs of ``[observed]``, or `per_1000_node_days` on
    nodes of eight GPUs. The rate is proportional to the GPUs of the job.
    """

    name: Annotated[str, AfterValidator(_check_name)]
    count: float | None = Field(None, gt=0, le=1e9)
    per_1000_node_days: float | None = Field(None, ge=1e-9, le=1e9)
    level: Level
    kind: Kind
    repair: Time | None = None
    shape: float | None = Field(None, ge=0.1, le=1000)
    lasts: Time | None = None
    factor: Annotated[FactorRange, BeforeValidator(_as_factor_range)] | None = None
    at_once: float = Field(1.0, ge=1, le=1e6)

    @model_validator(mode="after")
    def _one_rate(self) -> CauseTable:
        if (self.count is None) == (self.per_1000_node_days is None):
            raise ValueError("needs a rate: either count or per_1000_node_days")
        return self

    @model_validator(mode="after")
    def _fits_its_kind(self) -> CauseTable:
        rule = RULES[self.kind]
        for name, has in (("lasts", rule.lasts), ("factor", rule.factor)):
            stated = getattr(self, name) is not None
            if stated and has == "never":
                kinds = sorted(kind for kind, each in RULES.items() if getattr(each, name) != has)
                raise ValueError(f"{name} is of kinds {', '.join(kinds)}; leave it out")
            if not stated and has == "always":
                raise ValueError(f"a failure of kind {self.kind} needs {name}")
        has_factor = self.factor is not None and self.factor.least > 1.0
        wrong = kind_error(self.level, self.kind, has_factor)
        if wrong is not None:
            raise ValueError(wrong)
        return self


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
            raise ValueError(f"cause {min(twice)!r} is stated twice; name each cause differently")
        if self.observed is None and any(cause.count is not None for cause in self.cause):
            raise ValueError('count needs a table [observed] with gpus and span, such as "54d"')
        return self

    def causes(self) -> tuple[Cause, ...]:
        """Return the causes with their rates."""
        return tuple(
            Cause(
                table.name,
                table.level,
                table.kind,
                self._rate_per_gpu_s(table),
                table.repair.distribution() if table.repair else None,
                table.shape,
                table.lasts.distribution() if table.lasts else None,
                (table.factor.least, table.factor.most) if table.factor else (1.0, 1.0),
                table.at_once,
            )
            for table in self.cause
        )

    def _rate_per_gpu_s(self, table: CauseTable) -> float:
        if table.per_1000_node_days is not None:
            return table.per_1000_node_days / PER_1000_NODE_DAYS
        assert table.count is not None
        assert self.observed is not None
        return table.count / (self.observed.gpus * parse_time_s(self.observed.span))


def shipped_mixes() -> list[str]:
    """Return the names of the shipped mixes."""
    return _MIXES.names()


@cache
def plugged_mixes() -> dict[str, Path]:
    """Return the files of the mixes of installed packages, by the names of the mixes.

    Each is an entry point of `ENTRY_POINTS`. Its name is that of the mix, its value is a package,
    and the file is ``NAME.toml`` in the folder of the package. Others are left out.
    """
    found = {}
    for point in entry_points(group=ENTRY_POINTS):
        try:
            spec = find_spec(point.value)
        except ImportError:
            continue
        places = [] if spec is None else spec.submodule_search_locations or []
        files = [path for at in places if (path := Path(at, f"{point.name}.toml")).is_file()]
        if files and point.name not in shipped_mixes():
            found[point.name] = files[0]
    return found


def all_mixes() -> tuple[list[MixFile], list[str]]:
    """Return all mixes by name, and a line for each unusable mix of a package."""
    mixes, lines = {name: load_mix(name) for name in shipped_mixes()}, []
    for point in entry_points(group=ENTRY_POINTS):
        reason = ""
        if point.name in shipped_mixes():
            reason = "a shipped mix has that name, choose another"
        elif point.name not in plugged_mixes():
            reason = f"there is no {point.name}.toml in that package"
        else:
            try:
                mixes[point.name] = load_mix(point.name)
            except UserError as error:
                reason = str(error)
        if reason:
            lines.append(f"{ENTRY_POINTS}: {point.name} ({point.value}) is left out: {reason}")
    return list(mixes.values()), lines


def mix_text(name_or_path: str) -> str:
    """Return the TOML of a mix, by its name or its path; see `load_mix`."""
    file = str(plugged_mixes().get(name_or_path, name_or_path))
    return _MIXES.text(file, f"failures.mix = {quote(name_or_path)}")


def load_mix(name_or_path: str) -> MixFile:
    """Read a mix of causes by its name, or from a TOML file.

    Raises UserError if there is no such file or it is no mix; names the line of the first mistake
    and the number of others.
    """
    return _mix_of(name_or_path, mix_text(name_or_path))


@lru_cache(maxsize=8)
def _mix_of(name_or_path: str, content: str) -> MixFile:
    source = _MixSource.of_text(name_or_path, content)
    source.check_syntax()
    source.tables.setdefault("name", Path(name_or_path).stem)
    try:
        return MixFile.model_validate(source.tables)
    except ValidationError as error:
        raise source.refusal(mistakes_in(error, MixFile)) from error


class _MixSource(TomlSource):
    def line_of(self, location: Location) -> int | None:
        """Return the line of a key, also of a key in the n-th ``[[cause]]``."""
        match location:
            case ("cause", int(position), *names):
                lines = self.text.splitlines()
                headers = [n for n, line in enumerate(lines) if _CAUSE.match(line)]
                if position >= len(headers):
                    return None
                start, *rest = headers[position:]
                keys = key_lines("\n".join(lines[start : rest[0] if rest else None]))
                return start + keys.get(("cause", *map(str, names[:1])), 1)
        return super().line_of(location)
