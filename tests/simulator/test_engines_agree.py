"""SimGrid and replay have the same course: the same events in the same order at the same times.

Checkpoint-only makes no progress at these failure rates (a failure every 300 s, a restart of an
hour), so it runs against a time limit; what it does until then must agree all the same.
"""

from __future__ import annotations

from math import sqrt
from statistics import mean, variance
from typing import Any

import pytest
from faultline.experiments.config.grid import EngineName
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.runs.single_run import run
from faultline.simulator.accounting.timeline import EventKind

from tests.simulator.helpers import agreed

SCHEMES = ["checkpoint", "replication", "spare"]
# Each scenario and each scheme twice over is what `make test-full` is for.
PAIRS = [
    ("spare-study", "replication"),
    ("spare-sound", "spare"),
    pytest.param("spare-study", "spare", marks=pytest.mark.slow),
    pytest.param("spare-sound", "replication", marks=pytest.mark.slow),
]


def settings_of(scheme: str, groups: int, redundancy: int, steps: int, *more: str) -> list[str]:
    settings = [
        f"job.groups={groups}",
        f"job.steps={steps}",
        "job.compute_jitter=0",
        f"strategy.name={scheme}",
    ]
    if scheme == "checkpoint":
        settings.append("job.time_limit_s=40000")
    else:
        settings.append(f"strategy.redundancy={redundancy}")
    return [*settings, *more]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("groups", "redundancy"), [(24, 3), pytest.param(60, 4, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("scenario", ["spare-study", "spare-sound"])
def test_a_few_dozen_steps(scenario: str, groups: int, redundancy: int, scheme: str) -> None:
    record, events = agreed(scenario, settings_of(scheme, groups, redundancy, 40), seed=1)
    kinds = {event.kind for event in events}
    assert EventKind.MISSING in kinds
    if scheme == "checkpoint":
        assert record["completed_steps"] < 40
        assert record["restarts"] > 1
    else:
        assert record["completed_steps"] == 40


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("groups", "redundancy"), [(24, 3), (60, 4)])
@pytest.mark.parametrize("scenario", ["spare-study", "spare-sound"])
def test_three_hundred_steps(
    scenario: str, groups: int, redundancy: int, scheme: str, seed: int
) -> None:
    record, _ = agreed(scenario, settings_of(scheme, groups, redundancy, 300), seed)
    assert record["restarts"] > 1
    assert scheme == "checkpoint" or record["completed_steps"] == 300


# Each option by itself, turned to its other side: on top of the study, or of the sound scenario.
STUDY_BUT = {
    "watchdog": ["detection.mode=watchdog", "detection.watchdog_s=300"],
    "a failure in the all-reduce fails it": ["detection.failure_in_all_reduce=fails-it"],
    "and it is long": ["detection.failure_in_all_reduce=fails-it", "times.all_reduce_s=60"],
    "a fixed step retries": ["all_reduce.fixed_step=retries"],
    "a failed all-reduce costs all": ["all_reduce.failed_fraction=1"],
    "a failed writer is replaced": ["checkpoint.failed_writer=replaced"],
    "writing takes long": ["times.checkpoint_write_s=400", "checkpoint.interval_steps=2"],
    "a restart absorbs failures": ["restart.failure_during=absorbed"],
    "waiting absorbs failures": ["restart.failure_while_waiting=absorbed"],
    "resumes after the checkpoint": ["restart.resume=after"],
    "renewal": ["failures.clock=renewal"],
    "exponential": ["failures.distribution=exponential"],
    "measured all-reduce": ["~times.all_reduce_per_group_s"],
    "measured write": ["~times.checkpoint_write_s"],
    "measured load": ["restart.readers=one-group"],
}
SOUND_BUT = {
    "watchdog": ["detection.mode=watchdog", "detection.watchdog_s=300"],
    "next step": ["detection.failure_in_all_reduce=next-step"],
    "a failed all-reduce is free": ["all_reduce.failed_fraction=0"],
    "a restart begins anew": ["restart.failure_during=begins-anew"],
    "waiting surfaces": [
        "restart.failure_during=begins-anew",
        "restart.failure_while_waiting=surfaces",
    ],
    "from detection": ["failures.clock=from-detection"],
    "a restart that grows with the job": [
        *("~times.restart_s", "recovery.requeue_s=120", "recovery.shortage=requeue"),
    ],
    "all load at once": ["restart.readers=every-group", "job.groups=8"],
}


@pytest.mark.parametrize(
    ("scenario", "steps", "option"),
    [
        *(("spare-study", 25, option) for option in STUDY_BUT.values()),
        *(("spare-sound", 40, option) for option in SOUND_BUT.values()),
    ],
    ids=[*STUDY_BUT, *SOUND_BUT],
)
def test_one_option_changed(scenario: str, steps: int, option: list[str]) -> None:
    agreed(scenario, settings_of("spare", 24, 3, steps, *option), seed=2)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "option",
    [
        ["strategy.replication.checkpoint_waits=true"],
        ["strategy.replication.controller_sees=all"],
        ["times.checkpoint_write_s=400"],
        ["checkpoint.failed_writer=replaced"],
    ],
    ids=str,
)
def test_replication_with_one_option_changed(option: list[str], seed: int) -> None:
    agreed("spare-study", settings_of("replication", 24, 3, 40, *option), seed)


# When a checkpoint is due, and which groups return at one; failures often enough to make it matter.
ADAPTIVE = {
    "dynamic checkpoints": ["checkpoint.policy=dynamic"],
    "rejoin after a short repair": ["rejoin.when=at-checkpoint", "rejoin.repair_s=600"],
    "rejoin at once": ["rejoin.when=at-checkpoint", "rejoin.repair_s=0", "times.rejoin_s=0"],
    "spares only": ["rejoin.when=at-checkpoint", "rejoin.repair_s=1e9", "rejoin.spare_groups=3"],
    "spares, short repair, dynamic checkpoints": [
        "rejoin.when=at-checkpoint",
        "rejoin.repair_s=600",
        "rejoin.spare_groups=2",
        "checkpoint.policy=dynamic",
    ],
}
REJOIN = ["rejoin.when=at-checkpoint", "rejoin.repair_s=600", "rejoin.spare_groups=1"]


@pytest.mark.parametrize(("scenario", "scheme"), PAIRS)
@pytest.mark.parametrize("option", ADAPTIVE)
def test_checkpoints_and_returns_that_adapt(option: str, scenario: str, scheme: str) -> None:
    settings = settings_of(scheme, 24, 3, 60, *ADAPTIVE[option])
    record, events = agreed(scenario, settings, seed=4)
    assert record["completed_steps"] == 60
    back = [event for event in events if event.kind == EventKind.REJOINED]
    assert bool(back) == ("rejoin.when=at-checkpoint" in settings)


@pytest.mark.parametrize(("scenario", "scheme"), PAIRS)
def test_groups_rejoin_the_messages_of_the_all_reduce(scenario: str, scheme: str) -> None:
    settings = settings_of(scheme, 12, 3, 40, "~times.all_reduce_per_group_s", *REJOIN)
    _, events = agreed(scenario, settings, seed=5)
    assert EventKind.REJOINED in {event.kind for event in events}


@pytest.mark.parametrize("patch", ["one-stack", "as-needed"])
def test_patch_compute_of_either_kind(patch: str) -> None:
    settings = settings_of("spare", 24, 4, 60, f"strategy.spare.patch_compute={patch}")
    record, _ = agreed("spare-sound", settings, seed=3)
    assert record["moved_types"] > 0


def test_replication_is_held_up_by_a_writer_that_fails_at_its_own_pace() -> None:
    """Seeds 0 and 1 of this job have writers that fail while the others are through already."""
    for seed in (0, 1):
        agreed("spare-study", settings_of("replication", 24, 3, 80), seed)


def means_agree(scenario: str, settings: list[str], seeds: int, keys: list[str]) -> None:
    """Means over independent seeds differ by less than 4 standard errors of their difference.

    Seeds are shared, but the paces are drawn in another order by each engine; shared failures only
    make the difference smaller.
    """
    loaded = load_scenario(scenario, settings)
    replayed: list[dict[str, Any]] = [run(loaded, seed) for seed in range(seeds)]
    simulated: list[dict[str, Any]] = [run(loaded, seed, "simgrid") for seed in range(seeds)]
    assert all(record["events"] > 0 for record in replayed + simulated)
    for key in keys:
        ours, theirs = ([record[key] for record in records] for records in (replayed, simulated))
        error = sqrt((variance(ours) + variance(theirs)) / seeds)
        assert abs(mean(ours) - mean(theirs)) <= 4 * error + 1e-9, key


JITTER = ["job.compute_jitter=0.05"]
MEANS = ["time_to_train_ratio", "availability", "mean_stacks", "compute_s", "events"]


@pytest.mark.parametrize("scheme", ["replication", "spare"])
def test_with_jitter_means_agree(scheme: str) -> None:
    settings = settings_of(scheme, 24, 4, 30, *JITTER, "failures.mtbf_s=1000")
    means_agree("spare-sound", settings, 5, MEANS)


def test_without_failures_jitter_alone_slows_both_engines_alike() -> None:
    """A step lasts as long as the slowest of 24: 64 s * (1 + 0.05 * 1.948), E[max] of 24 normals.

    The largest of 24 has a standard deviation of about 0.5: over 100 steps the mean of a step's
    time is within 4 * 64 * 0.05 * 0.5 / 10 = 0.64 s of that.
    """
    settings = settings_of("spare", 24, 3, 100, *JITTER, "failures.mtbf_s=1e9")
    scenario = load_scenario("spare-study", settings)
    for engine in ("replay", "simgrid"):
        record = run(scenario, 0, engine)
        assert record["events"] == 0
        step_s = (record["compute_s"] + record["waiting_s"]) / 100
        assert step_s == pytest.approx(64 * (1 + 0.05 * 1.948), abs=0.64), engine


@pytest.mark.parametrize("engine", ["replay", "simgrid"])
@pytest.mark.parametrize("more", [(), ("job.compute_jitter=0.3",)])
def test_a_job_without_failures_and_saves_has_a_ratio_of_one(
    engine: EngineName, more: tuple[str, ...]
) -> None:
    """Jitter is in both; a largest of 24 varies by less than a variate does: over 225 steps 4 / 15.

    Of SPARe's published definition of the ratio, without jitter, 1.95 standard deviations are left.
    """
    jitter = 0.3 if more else 0.05
    settings = [
        *settings_of("checkpoint", 24, 1, 225, *JITTER, "failures.mtbf_s=1e12"),
        *("checkpoint.interval_steps=1000", "times.checkpoint_write_s=1e-6"),
        *("~job.time_limit_s", "job.undisturbed_step=with-jitter", *more),
    ]
    scenario = load_scenario("spare-study", settings)
    record = run(scenario, 0, engine)
    assert record["events"] == 0
    assert record["time_to_train_ratio"] == pytest.approx(1.0, abs=jitter * 4 / 15)
    assert record["goodput"] == pytest.approx(1.0 / record["time_to_train_ratio"])
    nominal = run(scenario.change({"job.undisturbed_step": "nominal"}), 0, engine)
    assert nominal["time_to_train_ratio"] > 1.0 + 1.5 * jitter * 0.9
