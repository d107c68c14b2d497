"""NTP inside SPARe and replication on 600,000 GPUs, each combination beside its control.

The control is the same with r = 1, a job that masks nothing. Where no group ever dies the two are
one run, and the combination is *NTP without a restart*.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.ntp.loop import CAUSE_TIMES
from faultline.experiments.studies.ntp.traces import DAY_S

REPAIR_S = 4 * DAY_S
"""Mean of the 3 to 5 days of a hardware repair; the study repairs whatever breaks in that time."""
_STALLS_S = (10.0, 60.0)
"""What all wait when a group goes down to a lower degree, and as long again when it comes back."""
RARE_CHECKPOINTS = 256
"""Steps between checkpoints of a scheme that hardly ever restarts."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A scheme as it is played."""

    scheme: str  # Its name.
    redundancy: int  # Its redundancy.
    hit_groups: str = "die"  # How the job lives with hit groups; "die" where they do not live on.
    stall_s: float = 0.0  # What all wait for a group that changes its degree, in seconds.

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
            f"times.change_of_degree_s={self.stall_s}",
            f"checkpoint.interval_steps={RARE_CHECKPOINTS}",
        ]


CONTROL_REDUNDANCY = 1
"""Each shard type once: whatever a hit group cannot work on from is a restart."""


def _on_ntp(scheme: str, redundancy: int) -> list[Variant]:
    return [
        Variant(f"{scheme}-ntp", redundancy, hit_groups, stall_s)
        for hit_groups in ("slow", "boosted", "smaller-batch")
        for stall_s in _STALLS_S
    ]


# SPARe's best redundancy at 200 groups is 8, and the least that replication has is 2.
WITHIN_VARIANTS = (
    *_on_ntp("spare", CONTROL_REDUNDANCY),
    Variant("spare", 8),
    *_on_ntp("spare", 8),
    Variant("replication", 2),
    *_on_ntp("replication", 2),
    Variant("spare", 2),
    *(Variant("spare-ntp", 2, "slow", stall_s) for stall_s in _STALLS_S),
)
"""All that is played: the controls first; at last SPARe with as few copies as it has."""


def within_points(seeds: int, steps: int) -> Iterator[Point]:
    """Yield a job on the cluster of SPARe's study, where single GPUs fail, under every variant.

    A failure every 300 s, each of one GPU in a domain of 32; a restart takes an hour and finds new
    hardware for everything. Plain schemes save as often as is best for them.
    """
    for variant in WITHIN_VARIANTS:
        common = [
            "failures.component=gpu",
            "model.tensor=32",
            f"job.steps={steps}",
            f"rejoin.repair_s={REPAIR_S}",
        ]
        scenario = load_scenario("spare-sound", [*common, *variant.settings])
        for seed in range(seeds):
            yield Point(scenario, seed, labels=tuple(asdict(variant).items()))


def within_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Return what runs of `within_points` came to, a row a run.

    Columns: those of `Variant`, `seed`, `time_to_train_ratio`, `restarts`, `failures`,
    `mean_stacks`, `time_s` and the time by cause, and `without_a_restart`: whether the run is that
    of its control, of the same seed, to all digits.
    """
    columns = ["scheme", "redundancy", "hit_groups", "stall_s", "seed", "time_to_train_ratio"]
    table = runs[[*columns, "restarts", "failures", "mean_stacks", "time_s", *CAUSE_TIMES]]
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
