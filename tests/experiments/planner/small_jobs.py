"""A small job of 30 groups whose times are stated."""

from __future__ import annotations

from faultline.experiments.planner.situation import Situation, read_situation

from tests.stated_times import NOTHING_MEASURED

STATED = NOTHING_MEASURED
STORAGE = ("storage",)
SMALL = (*STATED, "job.groups=30", "job.steps=600", "failures.mtbf_s=1200")


def small(*settings: str, **sizes: int) -> Situation:
    return read_situation("spare-sound", (*SMALL, *settings), **sizes)
