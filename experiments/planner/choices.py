"""The choices of a plan: a scheme over a protection, with each redundancy and its intervals."""

from __future__ import annotations

from faultline.experiments.job.choices import Choice
from faultline.experiments.job.resolved_job import settings_of
from faultline.experiments.planner.situation import Situation


def choices_of(situation: Situation, scheme: str, protection: str) -> list[Choice]:
    """Return a choice for each redundancy of a scheme over a protection, the best first.

    Where the scenario states the redundancy or an interval, that one is taken.

    Raises
    ------
    UserError, StrategyError, PlatformError
        If the scheme cannot be built for this job, or the state cannot be kept like that.
    """
    choices = settings_of(situation.scenario_of(scheme, protection), situation.durations)
    choices[0].question.strategy()
    return choices
