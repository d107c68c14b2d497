"""What the study varies, and its runs.

Everything is on top of ``spare-sound``, with the times of all-reduce, checkpoint and load stated
instead of measured: the questions are about when to save and who comes back, not about the fabric.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.runs.player import play
from faultline.experiments.runs.point import Point

SCHEMES = ("spare", "replication")
REDUNDANCIES = {"spare": range(2, 13), "replication": range(2, 7)}
BASELINE = "plain"
_STATED = ("all_reduce.time=stated", "checkpoint.write=stated", "restart.load=included")
_DYNAMIC = ("checkpoint.policy=dynamic",)


def _repair(hours: int) -> tuple[str, ...]:
    return ("rejoin.when=at-checkpoint", f"rejoin.repair_s={hours * 3600}")


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to run a scheme.

    Attributes
    ----------
    name : str
        What it is called in tables and legends.
    settings : tuple of str
        What sets it apart from the plain scheme, as ``key=value``.
    spare_share : float
        Spare groups, as a fraction of the job's groups; they are hardware on top of the job's.
    """

    name: str
    settings: tuple[str, ...] = ()
    spare_share: float = 0.0

    def spare_groups(self, groups: int) -> int:
        """Return the number of spare groups for a job of `groups` groups."""
        return round(self.spare_share * groups)


VARIANTS = (
    Variant(BASELINE),
    Variant("dynamic", _DYNAMIC),
    Variant("rejoin 1 h", _repair(1)),
    Variant("rejoin 3 h", _repair(3)),
    Variant("rejoin 24 h", _repair(24)),
    Variant("rejoin 3 h + 5 % spares", _repair(3), 0.05),
    Variant("rejoin 3 h + 10 % spares", _repair(3), 0.10),
    Variant("rejoin 3 h + 20 % spares", _repair(3), 0.20),
    Variant("dynamic + rejoin 3 h", (*_DYNAMIC, *_repair(3))),
    Variant("dynamic + rejoin 3 h + 20 % spares", (*_DYNAMIC, *_repair(3)), 0.20),
)


def number_of_runs(groups: Sequence[int], seeds: int) -> int:
    """Return the number of runs that `run_variants` makes."""
    redundancies = sum(len(REDUNDANCIES[scheme]) for scheme in SCHEMES)
    return len(VARIANTS) * redundancies * len(groups) * seeds


def run_variants(
    groups: Sequence[int],
    steps: int,
    seeds: int,
    workers: int | None,
    on_done: Callable[[], None] | None = None,
) -> pd.DataFrame:
    """Run every variant at every redundancy.

    Parameters
    ----------
    groups : sequence of int
        Numbers of groups N.
    steps : int
        Steps of the job.
    seeds : int
        Seeds a cell; one seed, one sequence of failures for all variants.
    workers : int or None
        Worker processes.
    on_done : callable, optional
        Called after each run.

    Returns
    -------
    DataFrame
        A row a run: the record, ``variant``, ``spare_groups``, and ``gpu_hours_ratio``, the
        time-to-train ratio times 1 + spares / N: what is paid for while the job runs.
    """
    runs = pd.DataFrame(play(list(_tasks(groups, steps, seeds)), workers=workers, on_done=on_done))
    variants = {variant.name: variant for variant in VARIANTS}
    spares = [
        variants[name].spare_groups(n) for name, n in zip(runs.variant, runs.groups, strict=True)
    ]
    # As in a sweep, whose analysis and charts read this table.
    runs["status"] = "ok"
    runs["spare_groups"] = spares
    runs["gpu_hours_ratio"] = runs.time_to_train_ratio * (1 + runs.spare_groups / runs.groups)
    return runs


def _tasks(groups: Sequence[int], steps: int, seeds: int) -> Iterator[Point]:
    for n in groups:
        for scheme in SCHEMES:
            for redundancy in REDUNDANCIES[scheme]:
                for variant in VARIANTS:
                    question = resolve(
                        load_scenario(
                            "spare-sound", settings_of(variant, scheme, n, redundancy, steps)
                        )
                    )
                    for seed in range(seeds):
                        yield Point.of(question, seed, (("variant", variant.name),))


def settings_of(
    variant: Variant, scheme: str, groups: int, redundancy: int, steps: int
) -> list[str]:
    """Return what sets a cell of the study apart from ``spare-sound``, as ``key=value``."""
    settings = [
        *_STATED,
        f"job.groups={groups}",
        f"job.steps={steps}",
        f"strategy.name={scheme}",
        f"strategy.redundancy={redundancy}",
        *variant.settings,
    ]
    spares = variant.spare_groups(groups)
    if spares:
        settings.append(f"rejoin.spare_groups={spares}")
    return settings
