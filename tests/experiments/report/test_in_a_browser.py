"""The pages in a real browser: in use, on a phone, in the dark; and hostile names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.experiments.report.browsing import DESKTOP, PHONE, Open, violations
from tests.experiments.report.conftest import copy_with_errors, report, simulate

pytestmark = pytest.mark.system


def test_all_is_there_to_be_read(open_page: Open, page_file: Path) -> None:
    page = open_page(page_file).page
    assert "looks soonest" in page.locator(".sentence").inner_text()
    for heading in ("How the schemes compare", "Figures", "The question"):
        assert page.get_by_role("heading", name=heading).is_visible()
    broken = page.evaluate(
        "[...document.querySelectorAll('main img')].filter((image) => !image.naturalWidth).length"
    )
    assert page.locator("main img").count() > 1
    assert broken == 0


@pytest.mark.parametrize(("size", "colours"), [(DESKTOP, "light"), (PHONE, "dark")])
def test_axe_finds_nothing(
    open_page: Open, page_file: Path, size: dict[str, int], colours: str
) -> None:
    page = open_page(page_file, size, colours, bypass_csp=True).page
    for folded in page.locator("details").all():
        folded.evaluate("one => { one.open = true; }")
    assert violations(page) == []


@pytest.mark.parametrize("size", [DESKTOP, pytest.param(PHONE, marks=pytest.mark.slow)])
def test_the_page_never_scrolls_sideways(
    size: dict[str, int], open_page: Open, page_file: Path
) -> None:
    page = open_page(page_file, size).page
    for details in page.locator("summary").all():
        details.click()
    assert page.evaluate("document.scrollingElement.scrollWidth <= window.innerWidth")
    if size is PHONE:
        wide = page.locator(".box").filter(has=page.locator("#comparison-table"))
        assert wide.evaluate("(box) => box.scrollWidth > box.clientWidth")


HOSTILE = (
    """</script><script>window.taken = 1</script><img src=x onerror="window.taken = 2">'"&amp;"""
)
LONG = "x" * 400


def test_hostile_names_stay_text(open_page: Open, tmp_path: Path) -> None:
    quoted = HOSTILE.replace("'", "")
    (tmp_path / "scenario.toml").write_text(
        f"version = 2\nname = '{quoted}'\ndescription = '{LONG}{quoted}'\njob.steps = 20\n",
        encoding="utf-8",
    )
    grid = f"name = '{LONG}{quoted}'\nscenario = 'scenario.toml'\nseeds = 2\n"
    swept = simulate(grid, tmp_path)
    (tmp_path / "copy").mkdir()
    copy = copy_with_errors(swept, tmp_path / "copy", {0: HOSTILE + LONG})
    page = open_page(report(copy, tmp_path / "page.html"), PHONE).page
    for summary in page.locator("summary").all():
        summary.click()
    assert page.evaluate("window.taken") is None
    assert page.locator("script").count() == 1
    assert LONG + quoted == page.locator("h1").inner_text()
    assert quoted in page.locator("header .quiet").first.inner_text()
    assert page.title().startswith(LONG + quoted)
    assert HOSTILE + LONG in page.locator("#failed-table").inner_text()
    assert page.evaluate("document.scrollingElement.scrollWidth <= window.innerWidth")
