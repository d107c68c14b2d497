"""Published throughput: MeCeFO (NeurIPS 2025), thousand tokens a second, with drops in percent."""

from __future__ import annotations

DROPS_PERCENT: dict[tuple[str, str], tuple[float, float, float]] = {
    ("bamboo", "350M"): (2.09, 3.79, 7.04),
    ("oobleck", "350M"): (4.20, 5.80, 10.14),
    ("mecefo", "350M"): (0.15, 0.50, 1.07),
    ("bamboo", "7B"): (7.73, 13.42, 20.84),
    ("oobleck", "7B"): (14.78, 22.87, 28.09),
    ("mecefo", "7B"): (2.67, 3.08, 4.18),
}
"""By system and model: low, mid, high."""

THOUSAND_TOKENS_PER_S: dict[tuple[str, str], tuple[float, float, float]] = {
    ("bamboo", "350M"): (428.90, 421.45, 407.22),
    ("oobleck", "350M"): (674.15, 662.93, 632.40),
    ("mecefo", "350M"): (1197.39, 1193.25, 1186.35),
    ("bamboo", "7B"): (11.45, 10.74, 9.82),
    ("oobleck", "7B"): (57.05, 51.63, 48.14),
    ("mecefo", "7B"): (108.15, 107.70, 106.47),
}

_ORDER = ("low", "mid", "high")


def published_drop(system: str, model: str, scenario: str) -> float | None:
    """Return the published drop in percent; None where it is not known."""
    return _value(DROPS_PERCENT, system, model, scenario)


def published_throughput(system: str, model: str, scenario: str) -> float | None:
    """Return the published throughput in thousand tokens a second; None where not known."""
    return _value(THOUSAND_TOKENS_PER_S, system, model, scenario)


def _value(
    table: dict[tuple[str, str], tuple[float, float, float]],
    system: str,
    model: str,
    scenario: str,
) -> float | None:
    if scenario not in _ORDER or (system, model) not in table:
        return None
    return table[system, model][_ORDER.index(scenario)]
