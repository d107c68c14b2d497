"""The race, on invented alternatives: which are stopped, which get more seeds, and when it ends."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import pytest
from faultline.experiments.analysis.race import RaceOutcome, RaceRules, changes_from, race

_NOISE = [0.0, 0.03, -0.03, *[0.02, -0.02] * 5]
_RULES = RaceRules(first_seeds=3, most_seeds=12, hopeless=2.0, indifference=0.005)


def _race(
    means: dict[str, float],
    noisy: str = "",
    rules: RaceRules = _RULES,
    incumbent: str | None = None,
) -> RaceOutcome[str, float]:
    """Race alternatives of some means; what a seed does to all drops out but for noisy ones."""

    def simulate(pairs: Sequence[tuple[str, int]], best: float) -> list[float]:
        return [means[one] + 0.1 * seed + _NOISE[seed] * (one in noisy) for one, seed in pairs]

    heats = [list(means)[:1], list(means)[1:]]
    return race(heats, simulate, lambda run: run, range(12), rules, incumbent=incumbent)


def _seeds(outcome: RaceOutcome[str, float]) -> dict[str, int]:
    return {one: len(runs) for one, runs in outcome.runs.items()}


def test_the_hopeless_run_once_and_what_is_clear_gets_no_more_seeds() -> None:
    outcome = _race({"a": 1.0, "b": 1.2, "c": 2.1})
    assert _seeds(outcome) == {"a": 3, "b": 3, "c": 1}
    assert outcome.hopeless == {"c"}


def test_the_undecided_and_the_best_get_twice_as_many_seeds_up_to_the_most() -> None:
    assert _seeds(_race({"a": 1.0, "b": 1.0, "c": 1.2}, noisy="b")) == {"a": 12, "b": 12, "c": 3}
    assert _RULES.looks() == [3, 6, 12]


@pytest.mark.parametrize(("indifference", "seeds"), [(0.0, 6), (0.06, 3)])
def test_what_can_be_better_by_less_than_matters_is_decided(
    indifference: float, seeds: int
) -> None:
    """The other is 0.03 later, give or take 0.075 with three seeds of about 1.1."""
    rules = RaceRules(first_seeds=3, most_seeds=12, hopeless=2.0, indifference=indifference)
    outcome = _race({"a": 1.0, "b": 1.03}, noisy="b", rules=rules)
    change = changes_from("a", {one: runs[:3] for one, runs in outcome.runs.items()})["b"]
    assert -0.06 < change.low < 0.0
    assert change.high > 0.06
    assert _seeds(outcome)["b"] == seeds


def test_none_leaves_without_a_multiple_and_an_infinite_value_gets_no_more_seeds() -> None:
    assert _seeds(_race({"a": 1.0, "b": 9.0, "c": inf}, rules=RaceRules(3, 12))) == dict.fromkeys(
        "abc", 3
    )


def test_a_race_against_an_incumbent_ends_when_one_is_surely_better() -> None:
    """One ties with the incumbent, which no longer matters."""
    means = {"a": 1.0, "b": 0.9, "d": 1.0}
    assert _seeds(_race(means, noisy="d", incumbent="a")) == dict.fromkeys("abd", 3)
    close = _race({"a": 1.0, "c": 1.1, "d": 1.0}, noisy="d", incumbent="a")
    assert _seeds(close) == {"a": 12, "c": 3, "d": 12}
