"""State that members send to each other between steps: by hand, and on both engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.durations import durations_of
from faultline.experiments.job.placement import traffic_of
from faultline.experiments.job.platform_files import platform_file
from faultline.experiments.job.recoveries import ExplainedRecovery, explained_recoveries
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.job.resolving import resolve
from faultline.simulator.accounting.progress import Progress
from faultline.simulator.accounting.timeline import Event, EventKind
from faultline.simulator.processes.process import run_on_simgrid
from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.recovery import Mirror, Move, SentMove
from faultline.strategies.interface.scheme import StrategyOptions
from faultline.strategies.schemes.replica_drop import ReplicaDrop, ReplicaDropOptions
from faultline.testing import check_scheme
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from tests.examples import examples
from tests.simulator.helpers import replayed, same_story, traced
from tests.simulator.job.test_background_writes import BARE, FAILING, beside
from tests.stated_times import NOTHING_MEASURED

WHOLE_S = 4.0
"""200 GB of state over an adapter of 50 GB/s."""


def ring(members: Sequence[int], distance: int = 1, share: float = 1.0) -> tuple[SentMove, ...]:
    """Return the moves in which each member sends its state to another one after it."""
    return tuple(
        SentMove(Move(members[(place + distance) % len(members)], 0, 0, 1, share), sender)
        for place, sender in enumerate(members)
        if len(members) > distance
    )


class MirroredOptions(ReplicaDropOptions):
    """What is sent, and when."""

    every_steps: int = Field(4, description="Steps between two mirrors.")
    distance: int = Field(1, description="Who holds it, counted from the sender.")
    share: float = Field(1.0, description="Part of the state.")


class Mirrored(ReplicaDrop):
    """Replica drop, with a mirror of each replica's state at another one."""

    name = "mirrored"
    summary = "Replica drop with mirrors"
    Options = MirroredOptions
    options: MirroredOptions

    def __init__(
        self, groups: int, redundancy: int, options: StrategyOptions, shape: JobShape
    ) -> None:
        super().__init__(groups, redundancy, options, shape)
        self.restart()

    def restart(self) -> None:
        super().restart()
        self._add_mirrors()

    def _set_members(self, members: tuple[int, ...]) -> None:
        super()._set_members(members)
        self._add_mirrors()

    def _add_mirrors(self) -> None:
        chosen, plan = self.options, self.plan()
        sent = ring(plan.members, chosen.distance, chosen.share)
        mirrors = (Mirror(sent, chosen.every_steps),) * bool(sent)
        self._plan = plan._replace(mirrors=mirrors)


def mirrored(groups: int, **options: Any) -> Mirrored:
    return Mirrored(groups, 1, MirroredOptions(**options), JobShape())


def on_both(
    scenario: Scenario, build: Callable[[], Mirrored], seed: int = 1, *, rel: float = 1e-6
) -> tuple[Progress, Progress, list[Event]]:
    """Run a job with a scheme on replay, then on SimGrid; assert that they tell the same.

    Where writes go on beside, `rel` is how far times may differ.
    """
    job, path = resolve(scenario).job(seed), platform_file(scenario)
    events: list[Event] = []
    ours = replayed(job, build(), events.append)
    simulated = run_on_simgrid(job, build(), path, traffic_of(scenario, path), events=True)
    same_story(events, simulated.events, rel)
    assert ours.seconds == pytest.approx(simulated.progress.seconds, rel=rel, abs=1e-3)
    return ours, simulated.progress, events


@pytest.fixture(scope="module")
def bare(servers_of: Callable[..., Path]) -> Path:
    return servers_of(**BARE)


AT_THE_END = ["checkpoint.interval_steps=100", "protection.name=storage"]


def test_a_mirror_takes_its_bytes_over_the_adapter_and_its_seconds_are_booked(bare: Path) -> None:
    """A quarter of 200 GB a GPU at 50 GB/s, both ways at once: 1 s, after 3 of 14 steps.

    A step takes 3 s, and the checkpoint at the end sends 200 GB a GPU.
    """
    scenario = beside(bare, *AT_THE_END)
    ours, theirs, events = on_both(scenario, lambda: mirrored(2, share=0.25))
    for progress in (ours, theirs):
        assert progress.seconds["checkpoint"] == pytest.approx(3 * 1.0 + WHOLE_S, rel=1e-6)
        assert progress.now_s == pytest.approx(14 * 3.0 + 3 * 1.0 + WHOLE_S, rel=1e-6)
        assert sum(progress.seconds.values()) == pytest.approx(progress.now_s)
    sent = [(event.time_s, event.groups) for event in events if event.kind is EventKind.MIRRORED]
    assert [groups for _, groups in sent] == [(0, 1)] * 3
    assert [time_s for time_s, _ in sent] == pytest.approx([13.0, 26.0, 39.0])


def test_each_flow_is_where_its_group_is_placed(servers_of: Callable[..., Path]) -> None:
    """Four servers below two leaves, whose way up has a quarter: only neighbours are quick."""
    narrow = {"domains": 4, "domains_per_leaf": 2, "scale_out.oversubscription": [4]}
    path = servers_of(**{**BARE, **narrow})
    scenario = beside(path, "job.groups=4", "job.gpus=32", *AT_THE_END)
    moves = durations_of(scenario).moves
    assert moves is not None
    there = [SentMove(Move(group ^ 1, 0, 0, 1), group) for group in range(4)]
    across = [SentMove(Move(group ^ 2, 0, 0, 1), group) for group in range(4)]
    assert moves.duration_s(there) == pytest.approx(WHOLE_S)
    assert moves.duration_s(across) == pytest.approx(4 * WHOLE_S)
    # One group alone has half of its adapter's bandwidth on the way up.
    for receiver, sender, times in ((1, 0, 1), (2, 1, 2), (3, 2, 1), (0, 3, 2)):
        alone = [SentMove(Move(receiver, 0, 0, 1), sender)]
        assert moves.duration_s(alone) == pytest.approx(times * WHOLE_S)
    both = [SentMove(Move(1, 0, 0, 1), 0), SentMove(Move(0, 0, 0, 1), 2)]
    assert moves.busy_s(both) == pytest.approx({0: 2 * WHOLE_S, 1: WHOLE_S, 2: 2 * WHOLE_S})
    for distance in (1, 2):
        on_both(scenario, partial(mirrored, 4, distance=distance))


FOUR = ["job.groups=4", "job.gpus=32", "protection.name=storage"]


def test_who_fails_in_the_middle_of_a_mirror_is_missing_in_the_next_step(
    servers_of: Callable[..., Path], tmp_path: Path
) -> None:
    """The all-reduce of four takes 1.5 s, a step 3.5 s: the first mirror goes from 14 s to 18 s.

    A sender that fails at 16 s holds up nobody; the all-reduce from 20 s to 21.5 s lacks it.
    """
    path, failing = servers_of(**{**BARE, "domains": 4}), traced(tmp_path, "16,gpu-8,hardware")
    scenario = beside(path, *FOUR, *failing, "checkpoint.interval_steps=100")
    _, _, events = on_both(scenario, lambda: mirrored(4))
    times_s = {event.kind: event.time_s for event in reversed(events)}
    assert times_s[EventKind.MIRRORED] == pytest.approx(18.0)
    assert times_s[EventKind.MISSING] == pytest.approx(21.5)


@pytest.mark.parametrize("seed", [1, 2])
def test_engines_agree_while_members_fail(servers_of: Callable[..., Path], seed: int) -> None:
    """Mirrors of 4 s after every other step of 3.5 s: members fail in the middle of some."""
    path = servers_of(**{**BARE, "domains": 4})
    more = [*FOUR, *FAILING, "checkpoint.interval_steps=5", "job.steps=30", "failures.mtbf_s=12"]
    ours, _, events = on_both(beside(path, *more), lambda: mirrored(4, every_steps=2), seed)
    assert ours.events > 3
    assert sum(event.kind is EventKind.MIRRORED for event in events) > 5


def test_it_keeps_what_schemes_promise() -> None:
    check_scheme(Mirrored, groups=12, engines=False)


@cache
def often_failing() -> ResolvedJob:
    settings = ["job.groups=12", "job.steps=60", "failures.mtbf_s=300", "job.time_limit_s=4e4"]
    settings += ["checkpoint.interval_steps=7", "strategy.name=checkpoint", *NOTHING_MEASURED]
    return resolve(load_scenario("spare-sound", settings))


def simulated(scheme: ReplicaDrop, seed: int, *, looked_at: bool = False) -> Progress:
    events: list[Event] = []
    return replayed(often_failing().job(seed), scheme, events.append if looked_at else None)


@examples(0.08)
@given(seed=st.integers(0, 50), every_steps=st.integers(1, 20))
def test_steps_between_mirrors_are_simulated_together_to_the_same_end(
    seed: int, every_steps: int
) -> None:
    schemes = [mirrored(12, every_steps=every_steps, share=1e-3) for _ in range(2)]
    apart, together = (
        simulated(scheme, seed, looked_at=place == 0) for place, scheme in enumerate(schemes)
    )
    assert together.now_s == pytest.approx(apart.now_s, rel=1e-12)
    assert together.seconds == pytest.approx(apart.seconds)


def test_seconds_and_bytes_are_explained(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen GPUs receive 50 GB each."""
    scheme = mirrored(2, share=0.25)
    monkeypatch.setattr(ResolvedJob, "strategy", lambda _: scheme)
    first, *_ = explained_recoveries(beside(bare, *AT_THE_END), ["replica-drop"])
    assert isinstance(first, ExplainedRecovery)
    assert (first.event, first.recovery) == ("every 4 steps", "mirror")
    (phase,) = first.phases
    assert (phase.duration_s, phase.size_bytes) == pytest.approx((1.0, 16 * 50e9))
    assert phase.source.startswith("measured")
