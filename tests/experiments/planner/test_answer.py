"""The answer of a plan: worlds, what is dropped, runs without an end, and controls."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from io import StringIO
from typing import Any

import numpy as np
import pytest
from faultline.experiments.analysis.decision import value_of_information
from faultline.experiments.analysis.design import Design
from faultline.experiments.config.uncertain import Prior
from faultline.experiments.job.choices import Choice
from faultline.experiments.planner import race
from faultline.experiments.planner.answer import CAP, DECIDING_WORLDS, Answer
from faultline.experiments.planner.page import keys_table
from faultline.experiments.planner.planning import Effort, answer_plan, answers
from faultline.experiments.planner.printing import answer_table, print_answer
from faultline.experiments.planner.race import FIRST_WORLDS
from faultline.experiments.planner.sentences import (
    answer_sentences,
    find_swings,
    first_text,
    remarks,
)
from faultline.experiments.planner.simulation import LIVES, Lives
from faultline.experiments.planner.situation import Situation, read_situation
from faultline.experiments.report.tables import on_screen
from rich.cells import cell_len
from rich.console import Console

from tests.experiments.planner.small_jobs import STORAGE, small

SETTINGS = ("job.steps=300", "job.groups=20", "failures.mtbf_s=1500", "rejoin.when=at-restart")
SCHEMES = ["spare", "replication", "checkpoint"]


def situation_with(prior: tuple[str, Prior] | None = None, *settings: str) -> Situation:
    """Return a small job with one stated prior; its shipped priors stay."""
    situation = read_situation("spare-sound", [*SETTINGS, *settings])
    uncertain = {} if prior is None else dict([prior])
    scenario = situation.scenario.model_copy(update={"uncertain": uncertain})
    return replace(situation, scenario=scenario)


def printed(answer: Answer, width: int, **options: Any) -> list[str]:
    screen = StringIO()
    print_answer(Console(file=screen, width=width), answer, find_swings(answer), **options)
    return screen.getvalue().splitlines()


def table_lines(answer: Answer, width: int) -> list[str]:
    screen = StringIO()
    table = replace(answer_table(answer, 2.0), caption="")
    Console(file=screen, width=width).print(on_screen(table, 7))
    return screen.getvalue().splitlines()


Times = Callable[[str, int, int], float]


def stand_in(
    monkeypatch: pytest.MonkeyPatch,
    time_of: Times,
    refused: Callable[[str, int], float] = lambda *_: 0.0,
) -> list[tuple[str, int]]:
    """Let schemes take `time_of(scheme, world, life)` times as long as undisturbed steps.

    Of 10 recoveries in a life `refused(scheme, world)` do not fit. Returns a list that gets a
    scheme and a world for each simulation.
    """
    simulated: list[tuple[str, int]] = []

    def lives(
        choices: Sequence[Choice],
        _designs: Sequence[Design],
        worlds: Sequence[int],
        _steps: int,
        limit_s: float,
        *_: object,
    ) -> list[Lives]:
        found = []
        for choice in choices:
            whole_s = choice.resolved.scenario.job.steps * choice.resolved.ideal_step_s
            ratios = [
                [time_of(choice.scheme, world, life) for life in range(LIVES)] for world in worlds
            ]
            time_s = whole_s * np.array(ratios)
            is_late = time_s > limit_s
            time_s[is_late] = np.inf
            simulated.extend((choice.scheme, world) for world in worlds)
            of_world = np.array([refused(choice.scheme, world) for world in worlds])
            found.append(
                Lives(
                    time_s,
                    np.repeat(of_world[:, None], LIVES, axis=1),
                    np.full(time_s.shape, 10.0),
                    1.0 / np.array(ratios),
                    np.where(is_late.any(axis=1), "no replica is left", ""),
                )
            )
        return found

    monkeypatch.setattr(race, "simulate_worlds", lives)
    return simulated


def luck(world: int, life: int, size: float = 0.01) -> float:
    return size * float(np.random.default_rng([world, life]).standard_normal())


@pytest.mark.parametrize("at_values", [True, False])
def test_the_answer_has_a_table_and_sentences_that_fit(at_values: bool) -> None:
    situation = situation_with()
    answer = answer_plan(situation, SCHEMES, STORAGE, Effort(16), at_values=at_values)
    assert answer.worlds == 16
    assert (answer.keys == ()) == at_values
    assert {row.choice.scheme for row in answer.rows} <= {*SCHEMES}
    for width in (80, 100):
        lines = table_lines(answer, width)
        assert max(map(cell_len, lines)) <= width
        assert not any("no room for" in line or "…" in line for line in lines)
    assert answer_sentences(answer)[0].startswith(("Take ", "A tie: take "))
    assert all(row.judgement.bands.low > 0.0 for row in answer.rows)


def test_the_same_seed_gives_the_same_answer_and_stages_use_the_same_worlds() -> None:
    situation = situation_with()
    first, *found = answers(situation, SCHEMES, STORAGE, Effort(16))
    assert [one.worlds for one in (first, *found)] == [0, 4, 8, 16]
    assert [one.is_last for one in found] == [False, False, True]
    last = found[-1]
    again = answer_plan(situation, SCHEMES, STORAGE, Effort(16))
    assert last.costs is not None
    assert again.costs is not None
    assert (again.costs.costs == last.costs.costs).all()
    few = answer_plan(situation, SCHEMES, STORAGE, Effort(8))
    assert few.costs is not None
    for name, row in zip(last.costs.candidates, last.costs.costs, strict=True):
        if name in few.costs.candidates:
            assert (few.costs.costs[few.costs.candidates.index(name)] == row[:8]).all()


def test_a_restart_that_takes_longer_costs_time_and_is_what_to_measure() -> None:
    prior = Prior(kind="uniform", low=100.0, high=3000.0, source="a test")
    situation = situation_with(("times.restart_s", prior), "failures.mtbf_s=2000")
    answer = answer_plan(situation, ["spare", "checkpoint"], STORAGE, Effort(32))
    assert answer.costs is not None
    place = answer.costs.design.names.index("times.restart_s")
    restart_s = answer.costs.design.values[:, place]
    for row in answer.costs.costs.mean(axis=2):
        assert np.corrcoef(restart_s, row)[0, 1] > 0.5
    swings = find_swings(answer)
    assert swings[0].name == "times.restart_s"
    schemes = {choice.scheme for choice in answer.choices}
    own = {one.name.partition(" of ")[2] for one in swings if " of " in one.name}
    assert own <= schemes
    sentences = answer_sentences(answer, swings)
    (text,) = (text for text in sentences if text.startswith("Measure first: "))
    assert "restart duration (" in text
    assert text.endswith(" checkpoint only, above SPARe + checkpoint.")


@pytest.mark.parametrize("lucky_world", [None, 5])
def test_no_input_is_worth_measuring_if_none_changes_the_advice(
    monkeypatch: pytest.MonkeyPatch, lucky_world: int | None
) -> None:
    """The rival is far behind, by much luck, in each world or in all but one."""

    def time_of(name: str, world: int, life: int) -> float:
        if name == "spare":
            return 3.0
        return 2.8 if world == lucky_world else 3.4 + abs(luck(world, life, 0.5))

    stand_in(monkeypatch, time_of)
    answer = answer_plan(situation_with(), ["spare", "checkpoint"], STORAGE, Effort(16))
    found = find_swings(answer)
    assert found
    text = " ".join(answer_sentences(answer, found))
    assert "Nothing is worth measuring first: no single input changes the advice" in text


def test_at_the_values_inputs_do_not_differ() -> None:
    prior = Prior(kind="uniform", low=100.0, high=4000.0, source="a test")
    situation = situation_with(("times.restart_s", prior))
    answer = answer_plan(situation, SCHEMES, STORAGE, Effort(8), at_values=True)
    assert answer.costs is not None
    assert answer.costs.design.names == ()
    assert value_of_information(answer.costs) == []
    assert all(row.judgement.bands.input_share == 0.0 for row in answer.rows)
    assert any("what is unknown of them is left out" in text for text in answer_sentences(answer))


def test_one_scheme_under_two_names_is_a_tie(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, lambda _, world, life: 3.5 + luck(world, life))
    answer = answer_plan(small(), ["spare", "replication"], STORAGE, at_values=True)
    assert answer.is_decided
    (tie,) = answer.ties
    assert answer.rows[0].judgement.best.mean == tie.judgement.best.mean == 0.5
    first = answer_sentences(answer)[0]
    assert first.startswith("A tie: take ")
    assert "differ by less than 1 %" in first


def test_a_leader_is_decided_with_few_worlds_and_no_world_is_wasted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ratios = {"spare": 3.2, "replication": 3.4, "checkpoint": 4.6}
    simulated = stand_in(monkeypatch, lambda name, world, life: ratios[name] + luck(world, life))
    answer = answer_plan(small("rejoin.when=at-restart"), SCHEMES, STORAGE, at_values=True)
    assert (answer.advised, answer.worlds) == ("SPARe + checkpoint", DECIDING_WORLDS)
    assert [row.choice.scheme for row in answer.rows] == ["spare", "replication", "checkpoint"]
    # The third is behind after the first worlds, and gets no more.
    assert [world for name, world in simulated if name == "checkpoint"] == [0, 1, 2, 3]
    assert [world for name, world in simulated if name == "replication"] == [*range(16)]
    assert answer.rows[0].judgement.bands.mean == pytest.approx(
        3.2 * small("rejoin.when=at-restart").ideal_s, rel=0.01
    )


def test_equals_of_the_leader_are_not_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five schemes: one more than the places after eight worlds."""
    stand_in(monkeypatch, lambda *_: 4.0)
    situation = small("rejoin.when=at-restart", "recovery.hardware=standby", "recovery.standbys=2")
    answer = answer_plan(situation, None, STORAGE, Effort(16), at_values=True)
    assert [row.worlds for row in answer.rows] == [DECIDING_WORLDS] * 5
    assert len(answer.ties) == 4


def test_a_close_race_goes_on_and_says_what_more_would_bring(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ratios = {"spare": 3.2, "replication": 3.21}
    stand_in(
        monkeypatch,
        lambda name, world, life: (
            ratios[name] + luck(world + 100 * len(name), life, 0.3 if name == "spare" else 0.001)
        ),
    )
    answer = answer_plan(small(), list(ratios), STORAGE, Effort(16), at_values=True)
    assert answer.ties
    assert not answer.is_decided
    assert "Not decided after 16 worlds; a tied scheme may be up to" in answer_sentences(answer)[-1]


def test_worlds_without_an_end_count_as_the_cap_and_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def time_of(name: str, world: int, life: int) -> float:
        own = {"spare": 3.3, "replication": 3.15}[name]
        endless = name == "replication" and world % 4 == 3
        return 1e9 if endless else own + luck(world, life, 0.001)

    stand_in(monkeypatch, time_of)
    situation = small("rejoin.when=at-restart")
    answer = answer_plan(situation, ["spare", "replication"], STORAGE, Effort(16), at_values=True)
    assert answer.costs is not None
    assert answer.costs.cap_s == pytest.approx(CAP * 3.3 * situation.ideal_s, rel=0.01)
    assert np.isfinite(answer.costs.costs).all()
    first, second = answer.rows
    assert first.choice.scheme == "spare"
    assert second.judgement.capped == 0.25
    assert second.endings == {"no replica is left": 4}
    # It is the likelier one, and loses more where it is wrong.
    sentences = " ".join(answer_sentences(answer))
    assert "Likelier: replication + checkpoint, 75 ±" in sentences
    assert "Conditional on the cap" in sentences
    assert "infinite" not in "\n".join(printed(answer, 100))


def test_no_advice_if_nothing_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, lambda *_: 1e9)
    answer = answer_plan(small(), ["spare", "replication"], STORAGE, Effort(8), at_values=True)
    assert not answer.finishes
    assert answer_sentences(answer)[0].startswith("No advice: no scheme ends within")


def test_only_a_scheme_that_is_slower_without_any_failure_is_not_simulated() -> None:
    """SPARe's steps take twice as long when few groups are left, which never happens here."""
    rare = ("failures.mtbf_s=300000", "rejoin.when=at-checkpoint", "rejoin.repair_s=600")
    answer = answer_plan(situation_with(None, *rare), SCHEMES, STORAGE, Effort(2), at_values=True)
    assert answer.rows[0].choice.scheme == "spare"
    (left_out,) = answer.left_out
    assert left_out.scheme == "replication"
    assert "without failures 81 % slower than checkpoint only is with them" in left_out.reason


def test_a_scheme_whose_recoveries_are_refused_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half of them is the limit: what wins then is something else under its name."""
    refused = {"spare": 5.0, "checkpoint": 0.0, "replication": 6.0}
    stand_in(monkeypatch, lambda *_: 3.5, lambda name, _: refused[name])
    answer = answer_plan(small(), [*refused], STORAGE, Effort(4), at_values=True)
    assert {row.choice.scheme for row in answer.rows} == {"spare", "checkpoint"}
    left_out = next(each for each in answer.left_out if each.scheme == "replication")
    assert "do not fit into GPU memory: 48 were refused in 80 failures" in left_out.reason


def test_recoveries_that_are_refused_in_later_worlds_count(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(
        monkeypatch,
        lambda _, world, life: 3.5 + luck(world, life),
        lambda name, world: 9.0 if name == "spare" and world >= FIRST_WORLDS else 0.0,
    )
    answer = answer_plan(small(), ["spare", "checkpoint"], STORAGE, Effort(16), at_values=True)
    assert [row.choice.scheme for row in answer.rows] == ["checkpoint"]
    left_out = next(each for each in answer.left_out if each.scheme == "spare")
    assert "do not fit into GPU memory" in left_out.reason


def test_a_goodput_above_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ratios = {"spare": 0.93, "checkpoint": 3.5, "replication": 3.0}
    stand_in(monkeypatch, lambda name, *_: ratios[name])
    answer = answer_plan(small(), [*ratios], STORAGE, Effort(4), at_values=True)
    assert {row.choice.scheme for row in answer.rows} == {"checkpoint", "replication"}
    left_out = next(each for each in answer.left_out if each.scheme == "spare")
    assert "goodput of 107.5%" in left_out.reason


def test_a_job_with_few_failures_or_shorter_than_repairs_says_what_that_means() -> None:
    usual = small("failures.mtbf_s=1200", "rejoin.repair_s=600")
    answer = answer_plan(usual, ["spare"], STORAGE, Effort(4), at_values=True)
    assert remarks(answer) == []
    rare = replace(answer, situation=small("failures.mtbf_s=20000", "rejoin.repair_s=30000"))
    few, short = remarks(rare)
    assert few.startswith("Only 1.9 failures are expected")
    assert f"up to {100 * 30_000 / rare.situation.ideal_s:.0f} % of" in short


def test_dropped_groups_return_at_the_better_moment() -> None:
    """Repairs of 10 min and restarts of an hour: groups that come back save restarts."""
    open_ = small("rejoin.repair_s=600", "job.steps=1500")
    answer = answer_plan(open_, ["spare"], STORAGE, Effort(8), at_values=True)
    (row,) = answer.rows
    assert row.choice.rejoin_when == "at-checkpoint"
    stated = small("rejoin.when=at-restart", "rejoin.repair_s=600", "job.steps=1500")
    (late,) = answer_plan(stated, ["spare"], STORAGE, Effort(8), at_values=True).rows
    assert row.judgement.bands.mean < 0.9 * late.judgement.bands.mean


def test_an_answer_comes_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The third scheme gets no run, and the fifth world would take minutes."""
    ratios = {"spare": 3.2, "replication": 3.21, "checkpoint": 3.22}

    def time_of(name: str, world: int, life: int) -> float:
        if world == FIRST_WORLDS:
            time.sleep(60.0)
        return ratios[name] + luck(world, life, 0.5)

    stand_in(monkeypatch, time_of)
    in_time = race.simulate_worlds

    def without_the_third(choices: Sequence[Choice], *rest: Any) -> list[Lives]:
        found = in_time(choices, *rest)
        return [
            lives.first(0) if choice.scheme == "checkpoint" else lives
            for choice, lives in zip(choices, found, strict=True)
        ]

    monkeypatch.setattr(race, "simulate_worlds", without_the_third)
    began_s = time.monotonic()
    effort = Effort(64, within_s=8.0)
    answer = answer_plan(small(), ["spare", "replication", "checkpoint"], STORAGE, effort)
    assert time.monotonic() - began_s < 30.0
    assert (answer.worlds, answer.is_last) == (FIRST_WORLDS, True)
    assert "checkpoint" in {one.scheme for one in answer.left_out}
    assert {one.reason for one in answer.left_out} == {race.NO_TIME}
    assert "a longer --within" in answer_sentences(answer)[-1]


def test_without_time_for_any_run_closed_forms_are_the_answer() -> None:
    answer = answer_plan(small(), SCHEMES, STORAGE, Effort(64, within_s=0.0), at_values=True)
    assert not answer.rows
    assert "The time (--within) was over" in answer_sentences(answer)[0]


def test_closed_forms_answer_before_anything_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = stand_in(monkeypatch, lambda *_: 3.5)
    situation = small("rejoin.when=at-restart")
    first = next(answers(situation, SCHEMES, None, Effort(4), at_values=True))
    assert simulated == []
    text = first_text(first)
    assert text.startswith("First answer, by closed forms at the stated values, in hours: ")
    assert all(name in text for name in ("SPARe + checkpoint ", "checkpoint only "))


def test_the_keys_that_decide_are_listed_with_the_values_of_the_worlds() -> None:
    situation = situation_with(None, "recovery.detect_s=12")
    answer = answer_plan(situation, ["spare"], STORAGE, Effort(1))
    values = {row.cells[1]: row.cells[2] for row in keys_table(answer).rows}
    assert values["failures.component"] == '"host"'
    assert values["protection.name"] == "each candidate has its own"
    assert " to " in values["recovery.requeue_s"]
    assert "failures.mix" not in values  # The job's failures are no mix.
