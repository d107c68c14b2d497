"""The results that marked tests reproduce, as a table that `.ci/page_numbers.py` fills in."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Row(NamedTuple):
    """A test that reproduces a published result."""

    paper: str
    what: str
    target: str
    test: str


def rows() -> Iterator[Row]:
    """Yield each marked test, in the order of the tree."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                marks = {_name(decorator): decorator for decorator in node.decorator_list}
                mark = marks.get("pytest.mark.paper")
                if isinstance(mark, ast.Call):
                    stated = [ast.literal_eval(argument) for argument in mark.args]
                    place = f"{path.relative_to(ROOT)}::{node.name}"
                    yield Row(*stated, place)


def _name(decorator: ast.expr) -> str:
    return ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)


def table() -> str:
    """Return what marked tests reproduce: a row per paper and target."""
    lines = ["| paper | results | make | tests |", "| --- | --- | --- | --- |"]
    of_target: dict[tuple[str, str], list[Row]] = {}
    for row in rows():
        of_target.setdefault((row.paper, row.target), []).append(row)
    for (paper, target), mine in of_target.items():
        # A file's name, as its folder is that of the study.
        files = dict.fromkeys(f"`{Path(row.test.partition('::')[0]).name}`" for row in mine)
        results = "; ".join(row.what for row in mine)
        lines.append(f"| {paper} | {results} | `make {target}` | {', '.join(files)} |")
    return "\n".join(lines)
