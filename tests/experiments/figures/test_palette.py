"""Each scheme has one look, by itself, that readers with any colour vision recognise."""

from __future__ import annotations

import itertools
import re
from typing import ClassVar

import matplotlib as mpl
import numpy as np
import pytest
from faultline.experiments.figures.failures import KIND_COLOURS
from faultline.experiments.figures.palette import (
    FREE_COLOURS,
    FREE_MARKERS,
    look_of,
    looks_of_schemes,
    title_of,
)
from faultline.simulator.failures.failure import KINDS
from faultline.strategies.plugins.discovery import is_shipped
from faultline.strategies.plugins.registry import all_protections, all_strategies
from faultline.strategies.schemes.mecefo.mecefo import Mecefo

SHIPPED = tuple(name for name, scheme in all_strategies().items() if is_shipped(scheme))

# Machado, Oliveira and Fernandes (2009), table 1, severity 1.0: linear RGB as they are seen.
VISIONS = {
    "trichromat": np.eye(3),
    "deuteranope": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
}
_TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
_WHITE = np.array([0.9505, 1.0, 1.089])


def lab(colour: str, vision: np.ndarray) -> np.ndarray:
    """Return CIELAB coordinates of a colour as a reader sees it."""
    rgb = np.array(mpl.colors.to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = _TO_XYZ @ np.clip(vision @ linear, 0, 1) / _WHITE
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("vision", VISIONS)
def test_every_reader_can_distinguish_any_two_schemes(vision: str) -> None:
    seen = {name: lab(look_of(name).colour, VISIONS[vision]) for name in SHIPPED}
    distances = {
        pair: np.linalg.norm(seen[pair[0]] - seen[pair[1]])
        for pair in itertools.combinations(SHIPPED, 2)
    }
    # A difference of 2.3 is just noticeable (Mahy et al. 1994).
    least = {"trichromat": 40, "deuteranope": 20}[vision]
    assert min(distances.values()) > least, min(distances, key=lambda pair: distances[pair])


def test_no_two_shipped_schemes_look_alike() -> None:
    for scheme in all_strategies().values():
        assert set(scheme.protections) <= set(all_protections()), scheme.name
    looks = looks_of_schemes(SHIPPED)
    for part in ("label", "colour", "marker"):
        assert len({getattr(look, part) for look in looks.values()}) == len(SHIPPED), part
    colours = {look.colour for look in looks.values()}
    assert all(re.fullmatch("#[0-9A-F]{6}", colour) for colour in colours)
    assert colours.isdisjoint(FREE_COLOURS)


def test_a_new_scheme_takes_its_look_from_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Derived(Mecefo):
        name: ClassVar[str] = "alpha"

    schemes = {"alpha": Derived, **all_strategies()}
    monkeypatch.setattr("faultline.experiments.figures.palette.all_strategies", lambda: schemes)
    assert look_of("alpha").label == title_of("alpha") == "alpha"
    # Not by the hash of a process: that changes from one to the next.
    assert (look_of("alpha").colour, look_of("alpha").dashes) == ("#E69F00", "-.")
    assert look_of("alpha").marker in FREE_MARKERS
    # What it is, it inherits.
    assert title_of("alpha", star=True) == "alpha*"


def test_each_kind_of_failure_has_a_colour_of_its_own() -> None:
    assert set(KIND_COLOURS) == set(KINDS)
    assert len(set(KIND_COLOURS.values())) == len(KINDS)
