"""The page of a decision in a real browser, made from simulated costs of a synthetic cluster."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from faultline.experiments.analysis.decision import judge
from faultline.experiments.analysis.design import SimulatedCosts, sobol_design
from faultline.experiments.analysis.emulator import Emulator
from faultline.experiments.report.answer_page import AnswerFacts, answer_page, answer_texts
from playwright.sync_api import expect
from scipy.stats import lognorm, uniform

from tests.experiments.report.browsing import DESKTOP, PHONE, Open, violations

FACTS = AnswerFacts(
    "A <cluster> & its job",
    "Which scheme trains this model soonest?",
    ("4,096 GPUs in 512 groups",),
    ("Standbys are available.", "A </script> in a sentence ends nothing."),
    "faultline plan job.toml --page answer.html",
    "1.0.0",
    schemes={"checkpoint, every 12 min": "checkpoint", "ReCycle": "recycle", "SPARe r=3": "spare"},
    remarks={"SPARe r=3": "fits the memory"},
)


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
    return SimulatedCosts(tuple(FACTS.schemes), design, times[:, :, None] * luck)


@pytest.fixture(scope="module")
def answer(costs: SimulatedCosts, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("answer") / "answer.html"
    path.write_text(answer_page(costs, FACTS), encoding="utf-8")
    return path


def test_the_answer_is_three_sentences_with_the_numbers(
    open_page: Open, answer: Path, costs: SimulatedCosts
) -> None:
    first = judge(costs)[0]
    shown = open_page(answer).page.locator(".answer p").all_inner_texts()
    assert len(shown) == 3
    assert shown[0].startswith(f"Take {first.candidate}: it is {100 * first.best.mean:.0f} ± ")
    assert f"{first.bands.mean / 86_400:.1f} days (80 % band: " in shown[0]
    assert shown[1].startswith("Against the best in hindsight it loses ")
    assert shown[2].startswith("Measure first: restart duration (s)")
    assert re.search(r"\(below [\d,]+ s: checkpoint, every 12 min; above: ReCycle\)", shown[2])


def test_the_page_is_small_and_reproducible(costs: SimulatedCosts, answer: Path) -> None:
    assert answer.stat().st_size < 1_000_000
    assert answer_page(costs, FACTS) == answer.read_text(encoding="utf-8")


def test_a_slider_gives_what_the_emulator_gives(
    open_page: Open, answer: Path, costs: SimulatedCosts
) -> None:
    page = open_page(answer).page
    page.wait_for_selector("#live tbody tr")
    data = json.loads(page.locator("#emulator").text_content())
    emulator = Emulator(costs)
    place = costs.design.names.index("times.restart_s")
    slider = page.locator(f"input[data-place='{place}']")
    assert slider.get_attribute("aria-valuetext") == "unknown"
    slider.focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    expect(page.locator("#live-answer")).to_have_text(re.compile("^With t"))
    stop = int(slider.input_value())
    assert stop == 17
    assert slider.get_attribute("aria-valuetext") == data["texts"][str(place)][stop]
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


def test_stopped_runs_are_lower_bounds_in_words_and_numbers(costs: SimulatedCosts) -> None:
    cap_s = 56.0 * 86_400.0
    stopped = replace(costs, costs=np.minimum(costs.costs, cap_s), cap_s=cap_s)
    assert 0.0 < stopped.stopped.mean() < 0.5
    sentences, table = answer_texts(stopped, {}, {})
    assert any(text.startswith("Stopped at 56.0 days") for text in sentences)
    shares = {one.candidate: one.stopped for one in judge(stopped)}
    days = next(place for place, one in enumerate(table.columns) if one.title == "days")
    for row in table.rows:
        name = row.cells[0].removesuffix(" (tie)")
        assert row.cells[days].startswith("≥ ") == (shares[name] > 0.0)
    text = " ".join([*sentences, *(cell for row in table.rows for cell in row.cells)])
    assert "∞" not in text


def test_the_likeliest_is_named_beside_the_least_regret() -> None:
    """The first never loses much; the second is sooner at three samples of four, by less."""
    design = sobol_design({"times.restart_s": uniform(100.0, 900.0).ppf}, 64, 1)
    late = design.unit[:, 0] > 0.75
    steady = np.full(64, 20.0)
    chancy = np.where(late, 30.0, 19.0)
    costs = np.array([steady, chancy])[:, :, None] * 86_400.0
    costs = costs * (1.0 + 1e-4 * np.random.default_rng(0).standard_normal((1, 64, 2)))
    first, *_ = answer_texts(SimulatedCosts(("steady", "chancy"), design, costs), {}, {})[0]
    assert first.startswith("Take steady for the least expected loss: it is 25 ±")
    assert "chancy is the likeliest, 75 ±" in first
    assert "but loses 2.50 days on average" in first


def test_the_input_to_measure_changes_the_advice_of_its_slider(costs: SimulatedCosts) -> None:
    """The sentence once came from other fits than the sliders, and contradicted them."""
    sentence = answer_texts(costs, {}, {})[0][-1]
    found = re.search(r"\(below ([\d,]+) s: (.*); above: (.*)\)\.$", sentence)
    assert found is not None
    emulator, place = Emulator(costs), costs.design.names.index("times.restart_s")
    order = costs.design.values[:, place].argsort()
    unit, values = costs.design.unit[order, place], costs.design.values[order, place]
    for stop in np.linspace(*emulator.range[:, place], 41):
        points = costs.design.unit.copy()
        points[:, place] = stop
        times = np.exp(emulator.log_times(points)).mean(axis=1)
        is_below = np.interp(stop, unit, values) < float(found[1].replace(",", ""))
        assert emulator.candidates[int(times.argmin())] == found[2 if is_below else 3]


def test_nothing_to_measure_has_its_reason() -> None:
    """No input is uncertain; or the first is the best at each sample."""
    alike = np.full((1, 64, 2), 86_400.0)
    none = sobol_design({}, 64, 0)
    one = sobol_design({"times.restart_s": uniform(100.0, 900.0).ppf}, 64, 0)
    twice = np.concatenate([20.0 * alike, 25.0 * alike])
    names = ("first", "second")
    fixed = answer_texts(SimulatedCosts(names, none, twice), {}, {})[0]
    assert fixed[-1] == "No input is uncertain, so that none is to be measured."
    sure = answer_texts(SimulatedCosts(names, one, twice), {}, {})[0]
    assert sure[-1].endswith("worth measuring: no candidate is sooner than first at any sample.")
