"""The plan on one sheet: it prints on a single page of A4, and everybody can read it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from faultline.experiments.cli import main

from tests.experiments.report.browsing import DESKTOP, PHONE, Open, violations

PLAN = [
    *("plan", "spare-study", "--set", "job.groups=24", "--seeds", "2", "--steps", "60"),
    *("--schemes", "checkpoint,replication,spare", "--price", "2.5"),
]


@pytest.fixture(scope="module")
def sheet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("decision") / "decision.html"
    assert main([*PLAN, "--page", str(path)]) == 0
    return path


def test_it_says_what_to_take_and_what_it_costs(sheet: Path) -> None:
    text = sheet.read_text(encoding="utf-8")
    assert re.search(r'class="answer">(Take|No advice)', text)
    places = [
        text.index(f">{name}<") for name in ("goodput", "every", "M GPU-h", "M cost", "ratio")
    ]
    assert places == sorted(places)
    assert "plan again with twice and half of each" in text
    assert text.count("<tr") <= 11


@pytest.mark.parametrize(
    ("size", "colours"), [(DESKTOP, "light"), pytest.param(PHONE, "dark", marks=pytest.mark.slow)]
)
def test_axe_finds_nothing(
    open_page: Open, sheet: Path, size: dict[str, int], colours: str
) -> None:
    assert violations(open_page(sheet, size, colours, bypass_csp=True).page) == []


def test_it_is_one_page_of_a4(open_page: Open, sheet: Path) -> None:
    printed = open_page(sheet).page.pdf(prefer_css_page_size=True, print_background=True)
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 1
    (box,) = set(re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", printed))
    assert [round(float(side) / 72 * 25.4) for side in box] == [210, 297]
