"""Adds to the site of docs/: the README as start page, the Python API, published files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
_PUBLISHED = re.compile(r"\]\((?:\.\./)?results/published/")
# The repository is not part of the site, so a link to a file becomes the file's name.
_ELSEWHERE = re.compile(r"\[([^\]]+)\]\((?:\.\./)([^)#]+)[^)]*\)")

_API = {
    "notebook.functions": "run, sweep, compare, plan, timeline, Job, Platform",
    "notebook.results": "Record, Comparison, Plan, Timeline",
    "plugins.registering": "register",
    "plugins.checking": "check_scheme",
}
"""Modules of `faultline.experiments` and their members that the page of the API has."""


def _api_page() -> str:
    parts = ["# Python\n\nThe functions and classes of `import faultline`; [examples](running.md)."]
    modules = {f"faultline.experiments.{name}": members for name, members in _API.items()}
    modules["faultline.strategies.interface.scheme"] = "Strategy, StepPlan, Continue, WipeOut, Hit"
    parts += [
        f"::: {name}\n    options:\n      members: [{members}]" for name, members in modules.items()
    ]
    return "\n\n".join(parts)


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages, figures and tables."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    start = readme.replace("](docs/", "](")
    files.append(File.generated(config, "index.md", content=start))
    files.append(File.generated(config, "api.md", content=_api_page()))
    for path in sorted((ROOT / "results" / "published").iterdir()):
        if path.suffix in {".png", ".csv"}:
            place = f"published/{path.name}"
            files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Redirect links to figures to those of the site."""
    markdown = markdown.replace("](../README.md", "](index.md")
    return _ELSEWHERE.sub(r"\1 (`\2`)", _PUBLISHED.sub("](published/", markdown))
