"""What is varied: rules, distribution, groups, and the mean time between failures."""

from __future__ import annotations

from dataclasses import dataclass

from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.studies.spare.published import GROUPS

SCHEMES = ("checkpoint", "replication", "spare")
RULES = ("spare-study", "spare-sound")
DISTRIBUTIONS = ("weibull", "exponential")

STEPS = 10_000
"""Steps of the study's job."""
LIMIT_S = 365 * 86_400.0
"""A job that would take longer, in seconds, does not finish: a year."""

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0
RATES_S = (
    _MINUTE, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 30 * _MINUTE, _HOUR, 2 * _HOUR, 3 * _HOUR,
    6 * _HOUR, _DAY,
)  # fmt: skip
"""Mean times between failures of the whole job, in seconds; dense where schemes overtake."""
_BETWEEN_S = (
    1.5 * _MINUTE, 3.5 * _MINUTE, 7 * _MINUTE, 17 * _MINUTE, 45 * _MINUTE, 1.25 * _HOUR,
    1.5 * _HOUR, 1.75 * _HOUR, 2.5 * _HOUR, 4 * _HOUR, 12 * _HOUR,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Setting:
    """A job and its failures; the scheme is open.

    Attributes
    ----------
    rules : str
        Name of the scenario: ``spare-study`` or ``spare-sound``.
    distribution : str
        Of the time between two failures of a group: ``weibull`` (shape 0.78) or ``exponential``.
    groups : int
        Number of groups N.
    mtbf_s : float
        Mean time between failures of the whole job, in seconds.
    """

    rules: str
    distribution: str
    groups: int
    mtbf_s: float

    def scenario(self, scheme: str, *more: str) -> Scenario:
        """Return the scenario of a scheme, with further ``key=value`` settings."""
        return load_scenario(
            self.rules,
            [
                f"strategy.name={scheme}",
                f"job.groups={self.groups}",
                f"job.steps={STEPS}",
                f"failures.distribution={self.distribution}",
                f"failures.mtbf_s={self.mtbf_s!r}",
                *more,
            ],
        )


def settings(full: bool = False) -> list[Setting]:
    """Return all settings; `full` adds rates between the others."""
    rates = sorted((*RATES_S, *_BETWEEN_S)) if full else RATES_S
    return [
        Setting(rules, distribution, groups, mtbf_s)
        for groups in GROUPS
        for rules in RULES
        for distribution in DISTRIBUTIONS
        for mtbf_s in rates
    ]
