"""What it brings if hit groups work on inside SPARe and replication: 600,000 GPUs, one job.

Each combination is played beside its control: the same with r = 1, a job that masks nothing. Where
no group ever dies the two are one run, and the combination is *NTP without a restart*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.runs.player import play
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.ntp.traces import DAY_S
from faultline.simulator.badput import CAUSES

SCENARIO = "spare-sound"
REPAIR_S = 4 * DAY_S
"""Mean of the 3 to 5 days of a hardware repair; the study repairs whatever breaks in that time."""
STALLS_S = (10.0, 60.0)
"""What all wait when a group goes down to a lower degree, and as long again when it comes back."""
HIT_GROUPS = ("slow", "boosted", "smaller-batch")
RARE_CHECKPOINTS = 256
"""Steps between checkpoints of a scheme that hardly ever restarts."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A scheme as it is played.

    Attributes
    ----------
    scheme : str
        Its name.
    redundancy : int
        Its redundancy.
    hit_groups : str
        How the job lives with hit groups; "die" where they do not live on.
    stall_s : float
        What all wait for a group that changes its degree, in seconds.
    """

    scheme: str
    redundancy: int
    hit_groups: str = "die"
    stall_s: float = 0.0

    @property
    def settings(self) -> list[str]:
        """What it sets of the scenario."""
        chosen = [f"strategy.name={self.scheme}", f"strategy.redundancy={self.redundancy}"]
        if self.hit_groups == "die":
            return chosen
        table = f"strategy.{self.scheme}"
        return [
            *chosen,
            f"{table}.hit_groups={self.hit_groups}",
            f"{table}.carry_on_s={self.stall_s}",
            f"{table}.repair_stall_s={self.stall_s}",
            f"checkpoint.interval_steps={RARE_CHECKPOINTS}",
        ]


REDUNDANCIES: Mapping[str, int] = {"spare": 8, "replication": 2}
"""SPARe's best at 200 groups, and the least that replication has."""

CONTROL_REDUNDANCY = 1
"""Each shard type once: whatever a hit group cannot work on from is a restart."""

VARIANTS = (
    *(
        Variant("spare-ntp", CONTROL_REDUNDANCY, hit_groups, stall_s)
        for hit_groups in HIT_GROUPS
        for stall_s in STALLS_S
    ),
    *(
        variant
        for scheme, redundancy in REDUNDANCIES.items()
        for variant in (
            Variant(scheme, redundancy),
            *(
                Variant(f"{scheme}-ntp", redundancy, hit_groups, stall_s)
                for hit_groups in HIT_GROUPS
                for stall_s in STALLS_S
            ),
        )
    ),
    Variant("spare", 2),
    *(Variant("spare-ntp", 2, "slow", stall_s) for stall_s in STALLS_S),
)
"""All that is played: the controls first; at last SPARe with as few copies as it has."""


def within_table(
    seeds: Sequence[int],
    steps: int,
    workers: int | None = None,
    on_done: Callable[[], None] | None = None,
) -> pd.DataFrame:
    """Train on the cluster of SPARe's study, where single GPUs fail; return a row a run.

    A failure every 300 s, each of one GPU in a domain of 32; a restart takes an hour and finds new
    hardware for everything. Plain schemes save as often as is best for them.

    Columns: those of `Variant`, `seed`, `time_to_train_ratio`, `restarts`, `failures`,
    `mean_stacks`, `time_s` and the time by cause, and `without_a_restart`: whether the run is that
    of its control, of the same seed, to all digits.
    """
    tasks = []
    for variant in VARIANTS:
        scenario = load_scenario(
            SCENARIO,
            [
                "failures.component=gpu",
                f"job.steps={steps}",
                f"rejoin.repair_s={REPAIR_S}",
                *variant.settings,
            ],
        )
        question = resolve(scenario)
        tasks += [Point.of(question, seed) for seed in seeds]
    records = play(tasks, workers=workers, on_done=on_done)
    keys = ("seed", "time_to_train_ratio", "restarts", "failures", "mean_stacks", "time_s")
    causes = [f"{cause}_s" for cause in CAUSES]
    played = [variant for variant in VARIANTS for _ in seeds]
    table = pd.DataFrame(
        [
            {
                "scheme": variant.scheme,
                "redundancy": variant.redundancy,
                "hit_groups": variant.hit_groups,
                "stall_s": variant.stall_s,
                **{key: record[key] for key in (*keys, *causes)},
            }
            for variant, record in zip(played, records, strict=True)
        ]
    )
    return table.assign(without_a_restart=equals_control(table))


def equals_control(table: pd.DataFrame) -> pd.Series:
    """Return for each run whether it takes as long as its control, to all digits.

    The control of a run is that of redundancy 1 whose hit groups work on alike, with the same
    stalls and seed; runs in which hit groups die have none.
    """
    keys = ["hit_groups", "stall_s", "seed"]
    controls = table[table.redundancy == CONTROL_REDUNDANCY].set_index(keys).time_to_train_ratio
    found = controls.reindex(pd.MultiIndex.from_frame(table[keys])).to_numpy()
    return table.time_to_train_ratio == found
