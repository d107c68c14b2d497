"""Standbys of a fleet beside an independent simulation of machines, written from the manual."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from faultline.experiments.analysis.design import design_by_name
from faultline.experiments.job.hardware import standbys_of
from faultline.experiments.planner.candidates import why_unfit
from faultline.experiments.planner.fleet import read_fleet
from faultline.experiments.planner.simulation import simulate_worlds
from faultline.experiments.planner.situation import choices_of

MACHINES, MACHINES_OF_GROUP = 20, 2
STEP_S, SAVE_S, RESTART_S, TAKE_OVER_S = 30.0, 20.0, 150.0, 40.0
MTBF_S, REPAIR_S = 18_000.0, 36_000.0
STEPS, SEEDS = 60_000, 8

FLEET = f"""
version = 2
[platform]
file = "hgx-h100"
[job]
groups = 10
gpus = 160
steps = {STEPS}
[times]
compute_s = {STEP_S - 1.0}
all_reduce_s = 1.0
checkpoint_write_s = {SAVE_S}
restart_s = {RESTART_S}
take_over_s = {TAKE_OVER_S}
[failures]
distribution = "exponential"
hardware_share = 1.0
component = "gpu"
[rejoin]
repair_s = {REPAIR_S}
"""


class Machines:
    """Equal machines: each works for an exponential time, then is under repair.

    A job needs `needed` working machines; the other ones stand by. All working machines fail at
    the same rate, whether they train, wait or stand by.
    """

    def __init__(self, machines: int, needed: int, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.machines, self.needed = machines, needed
        self.every_s = MTBF_S * MACHINES / machines
        self.next_s = self.random.exponential(self.every_s)
        self.repaired_s: list[float] = []

    def working(self, now_s: float) -> int:
        self.repaired_s = [end_s for end_s in self.repaired_s if end_s > now_s]
        return self.machines - len(self.repaired_s)

    def failures_until(self, now_s: float, noticed_s: float | None = None) -> int:
        """Let machines fail; return how many of the job's did, whose repairs begin if noticed."""
        of_job = 0
        while self.next_s <= now_s:
            working, place = self.working(self.next_s), self.random.integers(self.machines)
            if place < working:  # The first ones train or wait, the next ones stand by.
                is_of_job = place < self.needed
                of_job += is_of_job
                begins_s = noticed_s if is_of_job and noticed_s is not None else self.next_s
                self.repaired_s.append(begins_s + REPAIR_S)
            self.next_s += self.random.exponential(self.every_s)
        return of_job

    def wait(self, now_s: float) -> float:
        """Return when enough machines work."""
        while self.working(now_s) < self.needed:
            now_s = min(self.repaired_s)
            self.failures_until(now_s)
        return now_s


def goodput(scheme: str, fleet: Machines, interval_steps: int) -> tuple[float, float]:
    """Return the shares of the time in which a job trains, and in which it waits for machines."""
    now_s, waited_s, done, saved = 0.0, 0.0, 0, 0
    while done < STEPS:
        now_s += STEP_S
        if not fleet.failures_until(now_s, noticed_s=now_s):
            done += 1
            if done % interval_steps == 0 or done == STEPS:
                now_s, saved = now_s + SAVE_S, done
            continue
        while True:
            begins_s = fleet.wait(now_s)
            waited_s += begins_s - now_s
            now_s = begins_s + (RESTART_S if scheme == "checkpoint" else TAKE_OVER_S)
            failed = fleet.failures_until(now_s)
            # A restart starts the machines that are there at its end, too.
            if not failed or (scheme == "checkpoint" and fleet.working(now_s) >= fleet.needed):
                break
        if scheme == "checkpoint":
            done = saved
    return STEPS * STEP_S / now_s, waited_s / now_s


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["checkpoint", "warm-standby"])
def test_goodput_by_standbys_is_that_of_a_simulation_by_hand(tmp_path: Path, scheme: str) -> None:
    """Two machines are under repair on average: few standbys wait often, many hardly ever."""
    path = tmp_path / "fleet.toml"
    path.write_text(FLEET, encoding="utf-8")
    fleet = read_fleet(str(path), [], MACHINES, MTBF_S)
    assert "of which 2.0 are under repair on average" in fleet.splits[0].situation.fleet
    splits = [one for one in fleet.splits if why_unfit(one.situation, scheme) is None]
    assert len(splits) == len(fleet.splits) - (scheme == "warm-standby")
    choices = [choices_of(one.situation, scheme, "storage")[0] for one in splits]
    designs = [design_by_name({}, SEEDS, 0)] * len(choices)
    lives = simulate_worlds(choices, designs, range(SEEDS), STEPS, 1e12)
    waits = []
    for choice, of_choice in zip(choices, lives, strict=True):
        job = choice.resolved.scenario
        used = MACHINES_OF_GROUP * job.job.groups
        runs = [
            goodput(
                scheme,
                Machines(used + standbys_of(job), used, seed),
                choice.interval_steps,
            )
            for seed in range(SEEDS)
        ]
        shares, waited = np.transpose(runs)
        waits.append(waited.mean())
        own_s = of_choice.goodput.mean(axis=1)
        errors = [one.std(ddof=1) / np.sqrt(SEEDS) for one in (shares, own_s)]
        assert own_s.mean() == pytest.approx(shares.mean(), abs=3.0 * np.hypot(*errors))
    assert waits[0] > 0.2
    assert waits[-1] < 0.01
