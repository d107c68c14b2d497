"""The answer of a plan as a value: a row per scheme, and how sure it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from faultline.experiments.analysis.decision import Judgement, is_close
from faultline.experiments.analysis.design import SimulatedCosts
from faultline.experiments.analysis.intervals import Interval, interval_of
from faultline.experiments.config.priors import UncertainKey
from faultline.experiments.job.choices import Choice
from faultline.experiments.planner.candidates import Candidate, LeftOut
from faultline.experiments.planner.situation import Situation

DECIDING_WORLDS = 16
"""Worlds from which on a leader may be decided, and inputs are compared."""

CAP = 3.0
"""A run counts at most this multiple of the expected time of the soonest candidate."""


@dataclass(frozen=True, slots=True)
class Row:
    """A candidate at its best set-up.

    The judgement of a candidate that was dropped is over its own worlds, with times scaled by those
    of the advised candidate in all worlds over those in its own.
    """

    choice: Choice  # The scheme with its protection, redundancy and interval.
    judgement: Judgement
    worlds: int  # In which it was simulated.
    endings: Counter[str]  # Why runs did not end, and in how many of its worlds.
    refused: float  # Share of its recoveries that did not fit into GPU memory.

    @property
    def name(self) -> str:
        """What is chosen: the scheme, or a number of standbys."""
        return self.judgement.candidate


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a plan."""

    situation: Situation  # The job.
    keys: tuple[UncertainKey, ...]  # Inputs that differ between worlds; none at stated values.
    most_worlds: int  # To which the plan may go on.
    first: tuple[Candidate, ...] = ()  # Over one protection, in the order of closed forms.
    # A row per candidate, the advised one first; none before the first world.
    rows: tuple[Row, ...] = ()
    # What was simulated in all worlds, in the order of the candidates of `costs`.
    choices: tuple[Choice, ...] = ()
    costs: SimulatedCosts | None = None  # Times to train, in seconds; None without rows.
    left_out: tuple[LeftOut, ...] = ()  # What is not in `rows`, and why.
    steps: int = 0  # Of a simulated job.
    behind: int = 0  # Other set-ups, which closed forms rank behind those that were simulated.
    is_last: bool = False  # Whether no further worlds are simulated.

    @property
    def worlds(self) -> int:
        """Worlds of the advised scheme."""
        return self.rows[0].worlds if self.rows else 0

    @property
    def ties(self) -> tuple[Row, ...]:
        """The schemes that the worlds do not separate from the advised one."""
        return tuple(row for row in self.rows[1:] if row.judgement.tied)

    @property
    def is_decided(self) -> bool:
        """Whether further worlds would hardly change the advice."""
        return self.worlds >= DECIDING_WORLDS and all(map(self.is_settled, self.ties))

    @property
    def finishes(self) -> bool:
        """Whether the advised scheme ends in some world."""
        return bool(self.rows) and self.rows[0].judgement.capped < 1.0

    def lead_over(self, row: Row) -> Interval:
        """Return by how many seconds a scheme of all worlds is later than the advised one."""
        assert self.costs is not None
        means = self.costs.costs.mean(axis=2)
        places = self.costs.candidates
        later = means[places.index(row.name)] - means[places.index(self.advised)]
        return interval_of(later.tolist())

    def is_settled(self, row: Row) -> bool:
        """Return whether a tie is surely too close to matter."""
        if row.worlds < self.worlds:
            return True
        return is_close(self.lead_over(row), self.rows[0].judgement.bands.mean)

    @property
    def advised(self) -> str:
        """Name of the advised candidate."""
        return self.rows[0].name
