"""A small sweep that is really simulated, the page that is made from it, and a browser for it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faultline.experiments.cli import main
from faultline.experiments.runs.provenance import code_digest
from faultline.experiments.runs.store import StoredRun, open_store

from tests.experiments.report.browsing import DESKTOP, Open, Opened, chromium

GRID = """
name = "small"
scenario = "{scenario}"
seeds = 3

[set]
"job.groups" = 24
"job.steps" = 40
"job.time_limit_s" = 200_000.0
"times.restart_s" = 600.0

[grid]
"failures.mtbf_s" = [300.0, 1200.0]

[[cases]]
"strategy.name" = ["replication", "spare"]
"strategy.redundancy" = [2, 3, 4]

[[cases]]
"strategy.name" = ["checkpoint"]
"""


def simulate(grid: str, directory: Path) -> Path:
    """Run a grid, and return where its results are."""
    file, results = directory / "grid.toml", directory / "sweep.sqlite"
    file.write_text(grid, encoding="utf-8")
    assert main(["sweep", str(file), "-o", str(results), "--workers", "1"]) == 0
    return results


def copy_with_errors(swept: Path, directory: Path, errors: dict[int, str]) -> Path:
    """Copy a sweep, and let some of its runs (by place in the plan) have failed."""
    copy = shutil.copy(swept, directory / "sweep.sqlite")
    with open_store(copy) as store:
        plan = store.plan()
        assert plan is not None
        runs = list(plan.runs())
        for place, error in errors.items():
            store.save_run(StoredRun(*runs[place], code_digest(), error, 1.0, {}))
    return copy


def report(file: Path, page: Path) -> Path:
    """Write the page of a sweep."""
    assert main(["report", str(file), "-o", str(page)]) == 0
    return page


@pytest.fixture(scope="session")
def swept(tmp_path_factory: pytest.TempPathFactory, private_cache: Path) -> Path:
    """42 runs: three schemes, two rates of failure, three seeds."""
    return simulate(GRID.format(scenario="spare-study"), tmp_path_factory.mktemp("swept"))


@pytest.fixture(scope="session")
def page_file(swept: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a sweep of which two runs failed."""
    directory = tmp_path_factory.mktemp("page")
    errors = {0: "took longer than 60 s", 4: "took more than 4 GB"}
    return report(copy_with_errors(swept, directory, errors), directory / "report.html")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start Chromium: for one module at a time, as no other event loop may run meanwhile."""
    with chromium() as started:
        yield started


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """Open pages; at the end none may have made an error, or requested more than its own file."""
    opened: list[Opened] = []

    def open_(
        file: Path, size: dict[str, int] = DESKTOP, colours: str = "light", **more: Any
    ) -> Opened:
        context = browser.new_context(viewport=size, color_scheme=colours, **more)
        one = Opened(context.new_page())
        context.route("**/*", lambda route: _only(route, file.as_uri()))
        one.page.on("console", lambda message: one.mistakes.append(message.text))
        one.page.on("pageerror", lambda error: one.mistakes.append(str(error)))
        one.page.on("request", one.note)
        one.page.goto(file.as_uri())
        opened.append(one)
        return one

    yield open_
    for one in opened:
        requested, mistakes = one.requested_pages(), list(one.mistakes)
        one.page.context.close()
        assert mistakes == []
        assert len(requested) == 1, requested


def _only(route: Any, allowed: str) -> None:
    if route.request.url.partition("#")[0] == allowed:
        route.continue_()
    else:
        route.abort()
