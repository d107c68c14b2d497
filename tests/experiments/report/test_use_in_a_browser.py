"""The page in use: sorting, filtering and enlarging, by mouse and by keyboard."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.experiments.report.browsing import Open


def test_all_is_there_to_be_read(open_page: Open, page_file: Path) -> None:
    page = open_page(page_file).page
    assert "looks soonest" in page.locator(".sentence").inner_text()
    for heading in ("What was asked", "How the schemes compare", "Where did the time go?"):
        assert page.get_by_role("heading", name=heading).is_visible()
    for link in page.locator("nav a").all():
        assert page.locator(link.get_attribute("href")).count() == 1
    broken = page.evaluate(
        "[...document.querySelectorAll('main img')].filter((image) => !image.naturalWidth).length"
    )
    assert page.locator("main img").count() > 1
    assert broken == 0


def test_the_page_can_be_read_without_its_script(open_page: Open, page_file: Path) -> None:
    page = open_page(page_file, java_script_enabled=False).page
    assert page.locator("#points-table tbody tr").first.is_visible()
    assert not page.locator("#points-filter").is_visible()


def numbers(texts: list[str]) -> list[float]:
    return [float(text.replace(",", "")) for text in texts if text != "–"]


def test_a_click_on_a_heading_sorts_by_number_both_ways(open_page: Open, page_file: Path) -> None:
    """As text, 1,200 comes before 300; a point without a number stays last."""
    opened = open_page(page_file)
    for name in ("MTBF", "Time-to-train ratio", "Redundancy r"):
        heading = opened.heading(name)
        before = opened.cells(name)
        heading.get_by_role("button").click()
        upwards = opened.cells(name)
        assert heading.get_attribute("aria-sort") == "ascending"
        assert numbers(upwards) == sorted(numbers(before))
        heading.get_by_role("button").click()
        downwards = opened.cells(name)
        assert heading.get_attribute("aria-sort") == "descending"
        assert numbers(downwards) == sorted(numbers(before), reverse=True)
        assert sorted(upwards) == sorted(downwards) == sorted(before)
    assert opened.cells("Redundancy r")[-2:] == ["–", "–"]
    assert opened.page.locator("#points-table [aria-sort='none']").count() == (
        opened.page.locator("#points-table th").count() - 1
    )


def test_the_keyboard_sorts_by_text(open_page: Open, page_file: Path) -> None:
    opened = open_page(page_file)
    opened.heading("Scheme").get_by_role("button").focus()
    opened.page.keyboard.press("Enter")
    names = opened.cells("Scheme")
    assert names == sorted(names, key=str.lower)
    opened.page.keyboard.press("Space")
    assert opened.cells("Scheme") == names[::-1]


@pytest.mark.parametrize(
    ("typed", "count"),
    [
        ("spare", 6),
        ("SPARE 1,200", 3),
        ("redundancy=3", 4),
        ("redundancy=3 mtbf=1200", 2),
        ("mtbf=300 checkpoint only", 1),
        ("nobody", 0),
        ("", 14),
        # Nothing but text: no pattern, no markup.
        (".*", 0),
        ("<b>", 0),
    ],
)
def test_the_filter_leaves_what_fits(
    typed: str, count: int, open_page: Open, page_file: Path
) -> None:
    opened = open_page(page_file)
    opened.page.get_by_label("Filter").fill(typed or "x")
    opened.page.get_by_label("Filter").fill(typed)
    assert len(opened.cells("Scheme")) == count
    assert opened.page.locator("#points-shown").inner_text() == f"{count} of 14 shown"


def test_a_sorted_table_stays_filtered(open_page: Open, page_file: Path) -> None:
    opened = open_page(page_file)
    opened.page.get_by_label("Filter").fill("redundancy=4")
    opened.heading("MTBF").get_by_role("button").click()
    assert opened.cells("MTBF") == ["300", "300", "1,200", "1,200"]


def test_a_figure_becomes_larger_and_escape_closes_it(open_page: Open, page_file: Path) -> None:
    page = open_page(page_file).page
    small = page.locator(".figures button.enlarge").first
    width = small.locator("img").bounding_box()["width"]
    small.click()
    dialog = page.locator("dialog")
    assert dialog.is_visible()
    assert dialog.locator("img").bounding_box()["width"] > 1.5 * width
    assert dialog.locator("h2").inner_text() == small.get_attribute("data-title")
    page.keyboard.press("Escape")
    assert not dialog.is_visible()


def test_the_keyboard_opens_and_closes_figures(open_page: Open, page_file: Path) -> None:
    page = open_page(page_file).page
    buttons = page.locator("button.enlarge")
    buttons.nth(1).focus()
    page.keyboard.press("Enter")
    dialog = page.locator("dialog")
    assert dialog.locator("h2").inner_text() == buttons.nth(1).get_attribute("data-title")
    page.keyboard.press("Tab")
    assert dialog.evaluate(
        """(dialog) => document.activeElement === document.body
            || dialog.contains(document.activeElement)"""
    )
    dialog.get_by_role("button", name="Close").focus()
    page.keyboard.press("Enter")
    assert not dialog.is_visible()
    # Whoever closes a figure is back where they were.
    assert buttons.nth(1).evaluate("(button) => button === document.activeElement")


FOCUSABLE = """() => [...document.querySelectorAll(
    "a[href], button, input, summary, [tabindex]")].filter((each) => !each.closest("dialog"))"""


def test_everything_can_be_reached_by_the_tab_key(open_page: Open, page_file: Path) -> None:
    page = open_page(page_file).page
    for summary in page.locator("summary").all():
        summary.click()
    page.evaluate("document.activeElement.blur()")
    wanted = page.evaluate(f"({FOCUSABLE})().length")
    reached = set()
    for _ in range(wanted + 2):
        page.keyboard.press("Tab")
        reached.add(page.evaluate(f"({FOCUSABLE})().indexOf(document.activeElement)"))
    assert reached - {-1} == set(range(wanted))
