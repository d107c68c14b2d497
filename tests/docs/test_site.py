"""The site of all pages: each link leads somewhere, the network is not used, all can read it."""

from __future__ import annotations

import re
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.docs.pages import PAGES, ROOT
from tests.experiments.report.browsing import chromium, violations

sys.path.insert(0, str(ROOT / ".ci"))
import reproductions

from tests.child_processes import output_of_python

pytestmark = pytest.mark.system


def test_what_is_reproduced_has_targets() -> None:
    """The page itself is compared by `test_page_numbers`."""
    rows = list(reproductions.rows())
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {row.target for row in rows} <= targets
    assert {"SPARe", "NTP", "REFT", "GEMINI", "MeCeFO"} <= {row.paper for row in rows}


def test_every_page_is_on_one_of_the_shelves() -> None:
    shelves = (ROOT / ".ci" / "mkdocs.yml").read_text(encoding="utf-8")
    named = set(re.findall(r": (\S+\.md)$", shelves, re.MULTILINE))
    assert named == {path.name for path in PAGES if path.name != "README.md"} | {
        "index.md",
        "api.md",
    }


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs")
    place = tmp_path_factory.mktemp("site")
    configuration = ROOT / ".ci" / "mkdocs.yml"
    output_of_python("-m", "mkdocs", "build", "--strict", "-q", "-f", configuration, "-d", place)
    return place


@pytest.mark.slow
def test_the_site_is_whole(site: Path) -> None:
    for path in PAGES:
        name = "index" if path.name == "README.md" else path.stem
        assert (site / f"{name}.html").is_file(), name
    text = (site / "api.html").read_text(encoding="utf-8")
    assert "price_per_gpu_hour" in text
    assert "check_scheme" in text
    assert (site / "search" / "search_index.json").stat().st_size > 100_000


@pytest.mark.slow
def test_what_is_looked_for_is_found(site: Path) -> None:
    """By a server of any kind, as browsers start no worker from a file."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, chromium() as browser:
        Thread(target=server.serve_forever, daemon=True).start()
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
        # What is typed before the index is there is not looked for.
        page.locator("input.md-search__input").click()
        page.locator(".md-search-result__meta", has_text="Type to start").wait_for(timeout=60_000)
        page.locator("input.md-search__input").press_sequentially("wipe-out")
        page.locator("a.md-search-result__link").first.wait_for(timeout=60_000)
        found = page.locator("a.md-search-result__link").all_inner_texts()
        server.shutdown()
    assert any("Glossary" in text for text in found), found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["index", "scenario-reference", "api", "results"])
def test_pages_request_nothing_from_the_network_and_pass_axe(site: Path, name: str) -> None:
    page_file = site / f"{name}.html"
    with chromium() as browser:
        page = browser.new_page()
        requested: list[str] = []
        page.on("request", lambda request: requested.append(request.url))
        page.goto(page_file.as_uri())
        assert all(url.startswith(("file:", "data:", "blob:")) for url in requested), requested
        assert violations(page) == []
