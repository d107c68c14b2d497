"""All candidates of one cell, played with the same seeds; hopeless ones are stopped early."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from faultline.experiments.studies.head_to_head.candidates import APPROXIMATE, Candidate
from faultline.experiments.studies.head_to_head.controls import named_for_what_they_are
from faultline.experiments.studies.head_to_head.entering import play_entered
from faultline.experiments.studies.head_to_head.entries import Entry, enter
from faultline.experiments.studies.head_to_head.gpu_memory import fits, held_bytes
from faultline.experiments.studies.head_to_head.setting import GPUS_PER_GROUP, Cell, Ground
from faultline.simulator.failures.failure import Failure
from faultline.simulator.progress import Progress
from faultline.strategies.base import Strategy
from faultline.strategies.registry import strategy_class

HOPELESS = 1.5
"""A run is stopped when time and GPU-hours are so many times those of the best so far."""

CONTESTED = 1.15
"""Candidates within this factor of the best, in time or GPU-hours, are played with all seeds."""

NEVER_RATIO = 40.0
"""A job that takes so many times as long as without failures does not train."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Match:
    """A cell to be played.

    Attributes
    ----------
    cell : Cell
        The circumstances.
    candidates : tuple of Candidate
        Who takes part.
    seeds : tuple of int
        Seeds, the same for all.
    ground : Ground
        What all cells have in common.
    races : bool
        Whether the hopeless are stopped early; otherwise everybody is played with every seed.
    """

    cell: Cell
    candidates: tuple[Candidate, ...]
    seeds: tuple[int, ...]
    ground: Ground
    races: bool = True


@dataclass(slots=True)
class _Standing:
    """The best so far of those that train on exact gradients, with the first seed."""

    ratio: float = NEVER_RATIO
    gpu_ratio: float = NEVER_RATIO

    def limit(self) -> float:
        """Return the ratio beyond which a run can win neither in time nor in GPU-hours.

        The GPUs are at least those of the job, so GPU-hours are at least in proportion to the time.
        """
        return min(NEVER_RATIO, HOPELESS * max(self.ratio, self.gpu_ratio))

    def take(self, row: Row) -> None:
        """Note a run."""
        self.ratio = min(self.ratio, row["ratio"])
        self.gpu_ratio = min(self.gpu_ratio, row["gpu_ratio"])

    def contests(self, row: Row) -> bool:
        """Whether a run is near the best in time or in GPU-hours."""
        in_time = row["ratio"] <= CONTESTED * self.ratio
        return bool(in_time or row["gpu_ratio"] <= CONTESTED * self.gpu_ratio)


def play_match(match: Match) -> list[Row]:
    """Play all candidates of a cell.

    In a race everybody is played with the first seed, those that keep no track of components first
    as they are the fastest to play; then those that were near the best with the other seeds.

    Returns
    -------
    list of dict
        A row a candidate and seed, in the order of the candidates; those that cannot take part
        have one row with the reason under ``absent``.
    """
    cell, ground = match.cell, match.ground
    entries: list[Entry] = []
    rows: dict[str, list[Row]] = {}
    for candidate in match.candidates:
        made = enter(candidate, cell, ground)
        rows[candidate.name] = []
        if isinstance(made, Entry):
            entries.append(made)
        else:
            rows[candidate.name].append(
                {
                    "candidate": candidate.name,
                    "scheme": candidate.scheme,
                    "protection": candidate.protection,
                    "absent": made,
                }
            )
    field = _Field(match)
    standing = _Standing()
    for entry in sorted(entries, key=_slowness):
        limit = standing.limit() if match.races else NEVER_RATIO
        row = field.play(entry, match.seeds[0], limit)
        if entry.candidate.scheme not in APPROXIMATE:
            standing.take(row)
        rows[entry.candidate.name].append(row)
    for entry in entries:
        played = rows[entry.candidate.name]
        if match.races and not standing.contests(played[0]):
            continue
        for seed in match.seeds[1:]:
            limit = HOPELESS * standing.limit() if match.races else NEVER_RATIO
            played.append(field.play(entry, seed, min(limit, NEVER_RATIO)))
    named_for_what_they_are(match.candidates, rows)
    return [
        {**_of_cell(cell, field.steps), **row} for one in match.candidates for row in rows[one.name]
    ]


def _slowness(entry: Entry) -> tuple[bool, float]:
    return strategy_class(entry.candidate.scheme).tracks_components, entry.predicted


class _Field:
    """Where the candidates of a cell are played."""

    def __init__(self, match: Match) -> None:
        cell, ground = match.cell, match.ground
        self.steps = ground.steps_in(cell)
        self._process = ground.process(cell)
        self._groups = cell.groups
        all_reduce_s = ground.durations.all_reduce_s(cell.groups)
        self._ideal_s = self.steps * (ground.scenario.job.compute_s + all_reduce_s)
        self._pasts: dict[int, list[Failure]] = {}

    def play(self, entry: Entry, seed: int, limit: float) -> Row:
        """Play a candidate with a seed, until it is done or past the limit of the ratio."""
        if seed not in self._pasts:
            self._pasts[seed] = self._process.past(seed)
        strategy = entry.strategy()
        # The clock starts with the start-up of what is left.
        limit_s = entry.durations.restart_s + limit * self._ideal_s
        job = entry.job(self.steps, self._process, limit_s, seed)
        progress, begun_s = play_entered(job, strategy, self._pasts[seed])
        return self._row(entry, strategy, seed, progress, begun_s)

    def _row(
        self, entry: Entry, strategy: Strategy, seed: int, progress: Progress, begun_s: float
    ) -> Row:
        time_s = progress.now_s - begun_s
        finished = progress.completed_batches >= self.steps - 1e-9
        ratio = time_s / self._ideal_s if finished else inf
        spares = _spares_of_scheme(entry)
        # What is repaired and handed back in time is never replaced.
        replaced = progress.restarts + progress.rejoined
        if strategy.restart_replaces and (replaced or not strategy.tracks_components):
            spares += self._process.spare_gpus()
        memory_bytes = held_bytes(strategy.stages_held)
        gpus = self._groups * GPUS_PER_GROUP
        return {
            "candidate": entry.candidate.name,
            "scheme": entry.candidate.scheme,
            "protection": entry.candidate.protection,
            "redundancy": entry.redundancy,
            "seed": seed,
            "ratio": ratio,
            "gpu_ratio": ratio * (gpus + spares) / gpus,
            "gpu_hours": (gpus + spares) * time_s / 3600.0 if finished else inf,
            "spare_gpus": spares,
            "availability": 1.0 - progress.downtime_s / time_s if time_s else 1.0,
            "restarts": progress.restarts,
            "rejoined": progress.rejoined,
            "gpu_memory_bytes": memory_bytes,
            "fits_memory": fits(memory_bytes),
            "failures": progress.failures,
            "played_ratio": time_s / self._ideal_s,
            "closed_form_ratio": entry.closed_form,
            "absent": "",
        }


def _spares_of_scheme(entry: Entry) -> int:
    """Return the GPUs of the spare domains that the scheme's own options call for."""
    options = entry.strategy_options()
    return getattr(options, "spare_domains", 0) * getattr(options, "domain_gpus", 0)


def _of_cell(cell: Cell, steps: int) -> Row:
    return {
        "plane": cell.plane,
        "x": cell.x,
        "y": cell.y,
        "mtbf_s": cell.mtbf_s,
        "restart_s": cell.restart_s,
        "gpus": cell.groups * GPUS_PER_GROUP,
        "domain_share": cell.domain_share,
        "steps": steps,
    }
