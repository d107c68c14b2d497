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
