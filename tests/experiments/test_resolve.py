"""From a scenario to the times of its phases: what is modelled, and what is refused."""

from __future__ import annotations

import pytest

from experiments.errors import UserError
from experiments.resolve import durations_of, resolve, restart_time_s
from experiments.scenario_file import load_scenario


@pytest.mark.parametrize(
    ("gpus", "measured_s"), [(2048, 454), (4096, 545), (8192, 635), (16384, 768)]
)
def test_a_modelled_restart_follows_the_measured_ones(gpus: int, measured_s: float) -> None:
    """ByteRobust (arXiv 2509.16293) measured restarts by requeue; the power law is within 2 %."""
    scenario = load_scenario(
        "spare-sound", ["restart.time=modelled", f"job.gpus={gpus}", "job.groups=16"]
    )
    assert restart_time_s(scenario) == pytest.approx(measured_s, rel=0.02)


def test_shrinking_a_communicator_costs_more_the_larger_it_is() -> None:
    durations = durations_of(load_scenario("spare-study", ["restart.shrink_per_member_s=0.01"]))
    assert durations.reconfigure_s(0) == 0.1
    assert durations.reconfigure_s(150) == pytest.approx(1.6)


def test_loading_at_once_takes_as_many_times_as_long_as_there_are_groups() -> None:
    """The file system is shared by all; a group that passes the checkpoint on reads it once."""
    alone, all_at_once = (
        durations_of(
            load_scenario("spare-sound", ["job.groups=8", f"restart.load_by={who}"])
        ).load_s
        for who in ("one-group", "every-group")
    )
    # 2e13 bytes at 340 GB/s a group; passing it on takes the fabric's half a second on top.
    assert all_at_once == pytest.approx(8 * 58.82, rel=1e-3)
    assert 58.82 < alone < 60


def test_a_restart_that_nobody_survives_is_refused() -> None:
    with pytest.raises(UserError, match="failure_during"):
        resolve(load_scenario("spare-study", ["failures.mtbf_s=0.001"]))


def test_a_watchdog_that_fires_in_a_sound_all_reduce_is_refused() -> None:
    settings = ["detection.mode=watchdog", "detection.watchdog_s=1"]
    with pytest.raises(UserError, match="watchdog_s"):
        resolve(load_scenario("spare-study", settings))
