"""Files are written by one module, which follows no link and leaves no half of a file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import faultline.experiments
import faultline.platforms
import faultline.simulator
import faultline.strategies
import pytest

PACKAGES = (faultline.experiments, faultline.platforms, faultline.simulator, faultline.strategies)
WRITER = "platforms/files.py"
ALLOWED = {
    # A folder to come back to, a file of the kernel, and removals by name in a folder that is
    # checked to be no link.
    "experiments/figures/__init__.py": {"os.open"},
    "experiments/runs/fork_server.py": {"write_text"},
    "experiments/runs/store.py": {"os.open", "rename", "unlink"},
    "experiments/runs/table.py": {"unlink"},
    "simulator/cache_folder.py": {"unlink"},
}
"""What others do to files by themselves."""
METHODS = {
    *("write_text", "write_bytes", "touch", "unlink", "rmdir", "chmod", "mkfifo"),
    *("symlink_to", "hardlink_to", "extractall"),
}
FUNCTIONS = {
    *("open", "os.open", "os.remove", "os.rename", "os.truncate"),
    *(f"shutil.{name}" for name in ("copy", "copy2", "copyfile", "copytree", "move", "rmtree")),
}
MOVES = {"rename", "replace"}


def writes(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the lines that change files, and the name of what they call."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        words = [ast.unparse(word) for word in node.args]
        if method in METHODS:
            yield node.lineno, method
        elif name in FUNCTIONS or method == "open":
            if "os.devnull" not in words:
                yield node.lineno, name if name in FUNCTIONS else "open"
        elif method in MOVES and not node.keywords and _is_path(node.args):
            yield node.lineno, method


def _is_path(words: list[ast.expr]) -> bool:
    """Frames are renamed by keywords, series by a text, and texts replaced by two."""
    return len(words) == 1 and not isinstance(words[0], ast.Constant)


def modules() -> dict[str, Path]:
    found = {}
    for package in PACKAGES:
        folder = Path(str(package.__file__)).parent
        for path in folder.rglob("*.py"):
            found[path.relative_to(folder.parent).as_posix()] = path
    return found


def test_all_others_write_by_the_writer() -> None:
    found = modules()
    assert len(found) > 300
    del found[WRITER]
    bad = [
        f"{name}:{line}: {call}"
        for name, path in found.items()
        for line, call in writes(ast.parse(path.read_text(encoding="utf-8")))
        if call not in ALLOWED.get(name, ())
    ]
    assert bad == [], "use platforms/files.py"


@pytest.mark.parametrize(
    "code",
    [
        "path.write_text('a')",
        "(folder / name).unlink()",
        "path.open('w')",
        "open(path, 'a')",
        "os.open(path, os.O_RDWR)",
        "draft.replace(path)",
        "draft.rename(path)",
        "shutil.rmtree(folder)",
    ],
)
def test_the_rule_sees_other_writers(code: str) -> None:
    assert len(list(writes(ast.parse(code)))) == 1


@pytest.mark.parametrize("code", ["text.replace('a', 'b')", "frame.rename(columns=names)"])
def test_the_rule_lets_texts_and_tables_be(code: str) -> None:
    assert list(writes(ast.parse(code))) == []
