"""The page of a decision in a real browser, made from simulated costs of a synthetic cluster."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from faultline.experiments.analysis.decision import judge
from faultline.experiments.analysis.design import SimulatedCosts
from faultline.experiments.analysis.emulator import Emulator
from faultline.experiments.analysis.sensitivity import Swing, swings
from faultline.experiments.planner.answer import Answer, Row
from faultline.experiments.planner.page import answer_page
from faultline.experiments.planner.sentences import answer_sentences
from faultline.experiments.planner.situation import choices_of
from playwright.sync_api import expect
from scipy.stats import lognorm, uniform

from tests.experiments.analysis.sobol import sobol_design
from tests.experiments.planner.small_jobs import small
from tests.experiments.report.browsing import DESKTOP, PHONE, Open, violations

SCHEMES = {"checkpoint, every 12 min": "checkpoint", "replication": "replication", "SPARe": "spare"}
COMMAND = "faultline plan job.toml -o answer.html"


@pytest.fixture(scope="module")
def costs() -> SimulatedCosts:
    """Three schemes: one pays for restarts, one for shrinking, one always for redundancy."""
    priors = {
        "failures.mtbf_s": lognorm(0.4, scale=20_000.0).ppf,
        "times.restart_s": lognorm(0.6, scale=400.0).ppf,
        "times.shrink_s": uniform(20.0, 700.0).ppf,
        "checkpoint.write_s": uniform(5.0, 55.0).ppf,
        **{f"recovery.other{place}_s": uniform(1.0, 9.0).ppf for place in range(7)},
    }
    design = sobol_design(priors, 128, 1)
    mtbf, restart, shrink, write = design.values[:, :4].T
    interval = np.sqrt(2.0 * write * mtbf)
    times = 50.0 * 86_400.0 * np.array([
        1.0 / (1.0 - (restart + interval / 2) / mtbf - write / interval),
        1.065 / (1.0 - shrink / mtbf - 0.004),
        np.full(128, 1.09) + 100.0 / mtbf,
    ])  # fmt: skip
    luck = 1.0 + 0.003 * np.random.default_rng(2).standard_normal((3, 128, 2))
    return SimulatedCosts(tuple(SCHEMES), design, times[:, :, None] * luck)


@pytest.fixture(scope="module")
def found(costs: SimulatedCosts) -> list[Swing]:
    return swings(Emulator(costs), "replication")


@pytest.fixture(scope="module")
def planned(costs: SimulatedCosts) -> Answer:
    """Return an answer with these costs; names and sentences have characters of HTML."""
    job = small("job.steps=1_000_000")
    named = job.scenario.model_copy(update={"name": "A <cluster> & its job"})
    assumptions = ("A </script> in a sentence ends nothing.",)
    choices = {name: choices_of(job, scheme, "storage")[0] for name, scheme in SCHEMES.items()}
    return Answer(
        replace(job, scenario=named, assumptions=assumptions),
        (),
        128,
        rows=tuple(Row(choices[one.candidate], one, 128, Counter(), 0.0) for one in judge(costs)),
        choices=tuple(choices.values()),
        costs=costs,
        is_last=True,
    )


@pytest.fixture(scope="module")
def answer(planned: Answer, found: list[Swing], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("answer") / "answer.html"
    path.write_text(answer_page(planned, found, COMMAND), encoding="utf-8")
    return path


def test_the_answer_and_the_table_of_the_terminal_come_first(
    open_page: Open, answer: Path, planned: Answer, found: list[Swing]
) -> None:
    page = open_page(answer).page
    assert page.locator(".answer p").all_inner_texts() == answer_sentences(planned, found)
    assert page.locator("table").first.get_attribute("id") == "ranking-table"


def test_inputs_are_listed_with_their_values_in_units_that_people_read(
    open_page: Open, answer: Path, found: list[Swing]
) -> None:
    rows = open_page(answer).page.locator("#inputs-table tbody tr").all_inner_texts()
    assert len(rows) == len(found) == 11
    first = next(row for row in rows if row.startswith("restart duration"))
    assert re.search(r"6\.\d+ min\t3\.\d+ min to 14\.\d min", first)


def test_the_page_is_small_and_reproducible(
    planned: Answer, answer: Path, found: list[Swing]
) -> None:
    assert answer.stat().st_size < 1_000_000
    assert answer_page(planned, found, COMMAND) == answer.read_text(encoding="utf-8")


def test_a_slider_gives_what_the_emulator_gives(
    open_page: Open, answer: Path, costs: SimulatedCosts
) -> None:
    page = open_page(answer).page
    page.wait_for_selector("#live tbody tr")
    data = json.loads(page.locator("#emulator").text_content())
    emulator = Emulator(costs)
    place = costs.design.names.index("times.restart_s")
    number = [one["place"] for one in data["sliders"]].index(place)
    slider = page.locator(f"#input-{number}")
    assert slider.get_attribute("aria-valuetext") == "unknown"
    slider.focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    expect(page.locator("#live-answer")).to_have_text(re.compile("^With t"))
    stop = int(slider.input_value())
    assert stop == 17
    assert slider.get_attribute("aria-valuetext") == data["sliders"][number]["texts"][stop]
    unit = costs.design.unit[:128].copy()
    unit[:, place] = np.linspace(*emulator.range[:, place], 41)[stop]
    days = np.exp(emulator.log_times(unit)) / 86_400.0
    shown = {
        row.locator("td").nth(0).inner_text(): float(row.locator("td").nth(2).inner_text())
        for row in page.locator("#live tbody tr").all()
    }
    assert list(days.mean(axis=1)) == pytest.approx(
        [shown[name] for name in emulator.candidates], abs=0.006
    )
    regret = (days - days.min(axis=0)).mean(axis=1)
    assert next(iter(shown)) == emulator.candidates[int(regret.argmin())]


@pytest.mark.parametrize(("size", "colours"), [(DESKTOP, "light"), (PHONE, "dark")])
def test_axe_finds_nothing_on_the_answer(
    open_page: Open, answer: Path, size: dict[str, int], colours: str
) -> None:
    page = open_page(answer, size, colours, bypass_csp=True).page
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0


def test_a_slider_turns_the_advice_where_the_text_does(
    costs: SimulatedCosts, found: list[Swing]
) -> None:
    """The sentence once came from other fits than the sliders, and contradicted them."""
    restart = next(one for one in found if one.name == "times.restart_s")
    ((turn, below, above),) = restart.turns()
    emulator, place = Emulator(costs), costs.design.names.index("times.restart_s")
    for stop in np.linspace(*emulator.range[:, place], 41):
        points = costs.design.unit.copy()
        points[:, place] = stop
        times = np.exp(emulator.log_times(points)).mean(axis=1)
        assert int(times.argmin()) == (below if stop < turn else above)


def test_without_swings_there_are_neither_sliders_nor_figures(planned: Answer) -> None:
    page = answer_page(planned, [], COMMAND)
    assert 'type="range"' not in page
    assert "data:image/png" not in page
