"""Values of uncertain inputs as people write them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from faultline.experiments.analysis.design import Design, Floats
from faultline.experiments.analysis.quantities import duration_text, number_text, quantity


@dataclass(frozen=True, slots=True, eq=False)
class InputScale:
    """How an input of a design is written."""

    label: str  # Without its unit.
    shown_unit: str
    unit: Floats  # Quantiles in ascending order.
    values: Floats  # Values at these quantiles.

    def value(self, unit: float) -> float:
        """Return the input's value at a quantile of its prior."""
        return float(np.interp(unit, self.unit, self.values))

    def text(self, unit: float) -> str:
        """Return the value at a quantile, with its unit: ``13 min``."""
        return self.value_text(self.value(unit))

    def value_text(self, value: float) -> str:
        """Return a value with its unit."""
        if self.shown_unit == "s" and value >= 1.0:
            return duration_text(value)
        return " ".join(filter(None, (number_text(value, 3), self.shown_unit)))

    def range_text(self) -> str:
        """Return the 80 % range of the input."""
        return f"{self.text(0.1)} to {self.text(0.9)}"


def scales_of(design: Design) -> dict[str, InputScale]:
    """Return the scale of each input of a design, by name."""
    orders = design.unit.argsort(axis=0)
    labels = _labels(design.names)
    return {
        name: InputScale(
            labels[name],
            quantity(name.partition(" of ")[0]).shown_unit,
            design.unit[orders[:, place], place],
            design.values[orders[:, place], place],
        )
        for place, name in enumerate(design.names)
    }


def _labels(names: Sequence[str]) -> dict[str, str]:
    """Return the label of each input; an input that each scheme has names its scheme.

    Inputs of two tables that share a label name the table: launch_s of recovery and protection.
    """
    labels = {}
    for name in names:
        dotted, of, scheme = name.partition(" of ")
        labels[name] = f"{quantity(dotted).label}{' of ' + scheme if of else ''}"
    shared = Counter(labels.values())
    return {
        name: f"{name.partition('.')[0]} {label}" if shared[label] > 1 else label
        for name, label in labels.items()
    }
