"""Priors: distributions of numeric keys whose exact value is unknown.

A scenario states them under ``[uncertain]``; the shipped ones are in ``tables/priors.toml``. The
scenario's own value stays the point estimate: a run uses it, a plan draws from the prior.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, inf, log, nextafter
from typing import TYPE_CHECKING, Any, Literal

from annotated_types import Ge, Gt, Le, Lt
from faultline.experiments.config.errors import did_you_mean
from faultline.experiments.config.keys import Key, Schema, path_of, remedy_for, schema_keys
from faultline.experiments.config.tables.table import ScenarioTable
from pydantic import Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Kind = Literal["uniform", "log-uniform", "normal", "lognormal", "triangular"]

TABLE = "uncertain"
"""Name of the table of priors in a scenario."""

_LOGARITHMIC = ("log-uniform", "lognormal")
_Z95 = 1.6448536269514722
"""95 % quantile of the standard normal distribution."""


class Prior(ScenarioTable):
    """``[uncertain]``: the distribution of a numeric key, as ``"table.key" = { ... }``."""

    kind: Kind
    low: float = Field(description="Lower bound, or 5 % quantile of normal and lognormal.")
    high: float = Field(description="Upper bound, or 95 % quantile of normal and lognormal.")
    mode: float | None = Field(None, description="Peak of triangular; else the median.")
    source: str = Field(
        min_length=1, max_length=2000, description="Where the range comes from, in a sentence."
    )

    @model_validator(mode="before")
    @classmethod
    def _has_known_keys(cls, stated: Any) -> Any:
        unknown = set(stated) - set(cls.model_fields) if isinstance(stated, Mapping) else ()
        if unknown:
            name = min(map(str, unknown))
            raise ValueError(f"unknown key {name!r}; {did_you_mean(name, list(cls.model_fields))}")
        return stated

    @model_validator(mode="after")
    def _is_a_range(self) -> Prior:
        if not self.low < self.high:
            raise ValueError(f"low must be less than high (got {self.low:g} and {self.high:g})")
        if self.kind in _LOGARITHMIC and self.low <= 0:
            raise ValueError(
                f'low must be greater than 0 for kind = "{self.kind}" (got {self.low:g})'
            )
        if self.kind == "triangular" and self.mode is None:
            raise ValueError('kind = "triangular" needs a mode between low and high')
        if self.mode is not None and self.kind in ("uniform", "log-uniform"):
            raise ValueError(f'kind = "{self.kind}" has no mode; leave it out')
        if self.mode is not None and not self.low <= self.mode <= self.high:
            raise ValueError(
                f"mode must be between low and high (got {self.mode:g}, not in {self.low:g} to "
                f"{self.high:g})"
            )
        if not self.source.strip():
            raise ValueError("source must state the origin of the range in a sentence")
        return self

    def quantile(self, share: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return quantiles of the distribution.

        Parameters
        ----------
        share : ndarray
            Probabilities between 0 and 1.
        """
        import numpy as np
        from scipy.special import ndtri

        low, high = self.low, self.high
        if self.kind in _LOGARITHMIC:
            low, high = log(low), log(high)
        if self.kind == "triangular":
            assert self.mode is not None, "validated"
            peak = (self.mode - low) / (high - low)
            rising = np.sqrt(share * peak)
            falling = 1.0 - np.sqrt((1.0 - share) * (1.0 - peak))
            place = np.where(share < peak, rising, falling)
        elif self.kind in ("normal", "lognormal"):
            place = 0.5 + ndtri(share) / (2 * _Z95)
        else:
            place = share
        values: NDArray[np.float64] = low + (high - low) * place
        return np.exp(values) if self.kind in _LOGARITHMIC else values

    @property
    def median(self) -> float:
        """The median, in the key's unit."""
        if self.kind in _LOGARITHMIC:
            return exp((log(self.low) + log(self.high)) / 2)
        if self.kind != "triangular":
            return (self.low + self.high) / 2
        import numpy as np

        return float(self.quantile(np.array([0.5]))[0])

    def text(self) -> str:
        """Return the distribution in a few words."""
        bounds = "5 % to 95 %: " if self.kind in ("normal", "lognormal") else ""
        peak = "" if self.kind != "triangular" else f", mode {self.mode:g}"
        return f"{self.kind}, {bounds}{self.low:g} to {self.high:g}{peak}"


def prior_in_unit(stated: Any, known: Key | None) -> Any:
    """Return the table of a prior with its bounds, such as "1h", as numbers in its key's unit."""
    if known is None or not isinstance(stated, Mapping):
        return stated
    return {
        name: known.number(value) if name in ("low", "high", "mode") else value
        for name, value in stated.items()
    }


def limits_of(known: Key) -> tuple[float, float]:
    """Return the least and the greatest value that a numeric key may have."""
    low, high = -inf, inf
    for limit in known.field.metadata:
        match limit:
            case Ge(ge=float() | int() as least):
                low = float(least)
            case Gt(gt=float() | int() as least):
                low = nextafter(float(least), inf)
            case Le(le=float() | int() as most):
                high = float(most)
            case Lt(lt=float() | int() as most):
                high = nextafter(float(most), -inf)
    return low, high


def check_priors(priors: Mapping[str, Prior], schema: Schema) -> None:
    """Refuse priors of unknown keys and of keys without a number, and priors out of range.

    Raises a pydantic ValidationError with the place of each mistake.
    """
    mistakes = [
        InitErrorDetails(
            type=PydanticCustomError("prior", "{what}", {"what": what}), loc=loc, input=given
        )
        for dotted, prior in priors.items()
        for loc, what, given in _mistakes(dotted, prior, schema)
    ]
    if mistakes:
        raise ValidationError.from_exception_data(TABLE, mistakes)


def _mistakes(dotted: str, prior: Prior, schema: Schema) -> list[tuple[tuple[str, ...], str, Any]]:
    path = path_of(dotted)
    known = schema_keys(schema).get(path)
    if known is None:
        return [((dotted,), f"unknown key; {remedy_for(path, schema)}", prior)]
    if not known.is_number:
        return [((dotted,), "is not a number, so that it has no distribution", prior)]
    least, most = limits_of(known)
    return [
        (
            (dotted, name),
            f"must be between {least:g} and {most:g}, as {dotted} (got {value:g})",
            prior,
        )
        for name, value in (("low", prior.low), ("high", prior.high))
        if not least <= value <= most
    ]
