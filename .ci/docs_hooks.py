"""Adds the README as start page, and published figures and tables, to the site of docs/."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
_PUBLISHED = re.compile(r"\]\((?:\.\./)?results/published/")
# The repository is not part of the site, so a link to a file becomes the file's name.
_ELSEWHERE = re.compile(r"\[([^\]]+)\]\((?:\.\./)([^)#]+)[^)]*\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the start page, figures and tables."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    start = readme.replace("](docs/", "](")
    files.append(File.generated(config, "index.md", content=start))
    for path in sorted((ROOT / "results" / "published").iterdir()):
        if path.suffix in {".png", ".csv"}:
            place = f"published/{path.name}"
            files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Redirect links to figures to those of the site."""
    return _ELSEWHERE.sub(r"\1 (`\2`)", _PUBLISHED.sub("](published/", markdown))
