"""Numbers of pages that come from published tables: `.ci/page_numbers.py` writes them."""

from __future__ import annotations

import json
import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from faultline.experiments.config.scenario_file import load_scenario

from tests.docs.pages import PAGES, ROOT, blocks

sys.path.insert(0, str(ROOT / ".ci"))
import page_numbers


def test_the_file_has_the_numbers_of_the_published_tables() -> None:
    written = json.loads(page_numbers.FILE.read_text(encoding="utf-8"))
    assert written == page_numbers.numbers(), ".ci/page_numbers.py writes it anew"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_the_numbers_of_the_file(page: Path) -> None:
    texts = json.loads(page_numbers.FILE.read_text(encoding="utf-8"))
    text = page.read_text(encoding="utf-8")
    assert page_numbers.filled(text, texts) == text, ".ci/page_numbers.py fills it anew"


def test_a_stale_number_is_filled_and_an_unknown_one_named() -> None:
    texts = {"a.rows": "7", "a.table": "| x |\n| --- |"}
    page = "Of <!--=a.rows-->6<!--/--> rows:\n\n<!--=a.table--><!--/-->\n"
    assert page_numbers.filled(page, texts) == (
        "Of <!--=a.rows-->7<!--/--> rows:\n\n<!--=a.table-->\n\n| x |\n| --- |\n\n<!--/-->\n"
    )
    with pytest.raises(KeyError, match=r"a\.rows"):
        page_numbers.filled(page, {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_number_of_the_file_is_typed_by_hand(page: Path) -> None:
    """Those that could hardly be another's: with several digits, or two numbers."""
    texts = json.loads(page_numbers.FILE.read_text(encoding="utf-8"))
    telling = {text for text in texts.values() if len(re.findall(r"\d", text)) >= 4}
    telling = {text for text in telling if "\n" not in text}
    spans = page_numbers.SPAN.sub("", page.read_text(encoding="utf-8"))
    typed = " ".join(re.sub(r"```.*?```", "", spans, flags=re.DOTALL).split())
    assert [text for text in telling if re.search(rf"(?<![\d.]){re.escape(text)}", typed)] == []


def test_every_number_of_the_file_is_on_a_page() -> None:
    shown = {name for page in PAGES for name, _ in page_numbers.SPAN.findall(page.read_text())}
    assert set(json.loads(page_numbers.FILE.read_text(encoding="utf-8"))) == shown


RESULTS = (
    "README", "failure-models", "head-to-head", "parallel-jobs", "planning", "protection",
    "recovery", "results", "schemes", "validation",
)  # fmt: skip
"""Pages with results; numbers of the others are facts of commands and of their examples."""
INPUTS = (
    "experiments/studies/*/data/*.csv", "experiments/config/*/*.toml", "platforms/presets/*.toml",
    "experiments/config/tables/*.*", "simulator/workload/kernels.py",
)  # fmt: skip
_NUMBER = re.compile(r"(?<![\w.^/-])\d[\d,]*(?:\.\d+)?(?![\w^]|\.\d)")


@pytest.fixture(scope="module")
def inputs() -> set[float]:
    """Published values and inputs of the simulations, also in percent, minutes and Tera."""
    files = (file for pattern in INPUTS for file in ROOT.glob(pattern))
    texts = [file.read_text(encoding="utf-8").replace("_", "") for file in files]
    found = re.findall(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?", "\n".join(texts))
    values = {float(number.replace(",", "")) for number in found if not number.endswith(",")}
    units = (1.0, 100.0, 1 / 60, 1e-12, 1e6)
    return {float(f"{value * unit:.6g}") for value in values for unit in units}


def typed_results(text: str, inputs: set[float]) -> set[str]:
    """Return numbers of three digits, fractions and percentages that are not inputs."""
    text = page_numbers.SPAN.sub("", text)
    # The maps of the head-to-head are read off their figures.
    text = re.sub(r"^## Maps$.*?^## ", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)|arXiv\s[\d.]+", "", text, flags=re.DOTALL)
    typed = {
        one[0].rstrip(",")
        for one in _NUMBER.finditer(text)
        if "." in one[0]
        or len(re.sub(r"\D", "", one[0])) >= 3
        or re.match(r"\s%", text[one.end() :])
    }
    return {number for number in typed if float(number.replace(",", "")) not in inputs}


@pytest.mark.parametrize(
    "page", [one for one in PAGES if one.stem in RESULTS], ids=lambda page: page.name
)
def test_a_number_that_is_typed_by_hand_is_no_result(page: Path, inputs: set[float]) -> None:
    assert typed_results(page.read_text(encoding="utf-8"), inputs) == set()


def test_a_typed_result_is_named(inputs: set[float]) -> None:
    page = "54 days of Llama 3 (arXiv 2407.21783) at `1.2345`: 2.7183 times as long, [so](9.99)."
    assert typed_results(page, inputs) == {"2.7183"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_comment_cuts_a_paragraph(page: Path) -> None:
    """Markdown ends a paragraph at a line that begins with a comment."""
    lines = ["", *page.read_text(encoding="utf-8").splitlines()]
    pairs = pairwise(lines)
    assert [line for before, line in pairs if before and line.lstrip().startswith("<!--")] == []


def test_the_job_to_copy_has_the_efficiency_of_the_shipped_one() -> None:
    (job,) = blocks("planning.md", "toml")[:1]
    shipped = load_scenario("llama3-70b-hgx").model.compute_efficiency
    assert f"compute_efficiency = {shipped:g} " in job
