"""Field types of a spec: text with a unit in the file, floats in SI units in Python."""

from __future__ import annotations

from typing import Annotated

from faultline.platforms.units import (
    BANDWIDTH,
    POWER,
    SIZE,
    SPEED,
    TIME,
    Kind,
    format_quantity,
    parse_quantity,
)
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, StrictInt


class KeyedError(ValueError):
    """A rule over several keys is broken; carries the key to blame. Internal to the package."""

    def __init__(self, key: str, what: str) -> None:
        super().__init__(what)
        self.key = tuple(key.split("."))


class Table(BaseModel):
    """A table of a spec: no unknown keys, nothing infinite, no change once it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _reader(kind: Kind, positive: bool) -> BeforeValidator:
    def read(text: object) -> float:
        value = parse_quantity(text, kind)
        if positive and value == 0:
            raise ValueError(f"{text!r} is zero: write {kind.name} above zero, like {kind.example}")
        return value

    return BeforeValidator(read)


def _writer(kind: Kind) -> PlainSerializer:
    return PlainSerializer(lambda value: format_quantity(value, kind), return_type=str)


Bandwidth = Annotated[float, _reader(BANDWIDTH, positive=True), _writer(BANDWIDTH)]
Latency = Annotated[float, _reader(TIME, positive=False), _writer(TIME)]
Memory = Annotated[float, _reader(SIZE, positive=True), _writer(SIZE)]
Speed = Annotated[float, _reader(SPEED, positive=True), _writer(SPEED)]
Power = Annotated[float, _reader(POWER, positive=True), _writer(POWER)]
Count = Annotated[StrictInt, Field(ge=1, le=10_000_000)]
Ratio = Annotated[float, Field(ge=1)]
