"""Examples in docstrings of the Python API are accepted."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator

import faultline as fl
import pytest
from faultline.experiments.notebook import functions


def docstrings() -> Iterator[str]:
    yield inspect.getdoc(functions) or ""
    for name in fl.__all__:
        yield inspect.getdoc(getattr(fl, name)) or ""


CHANGES = sorted(
    {change for text in docstrings() for change in re.findall(r"``(\w+__.+?)``", text)}
)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_in_a_docstring_is_one(change: str) -> None:
    call = ast.parse(f"dict({change})", mode="eval").body
    assert isinstance(call, ast.Call)
    assert call.keywords
    changes = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    assert fl.Job("spare-sound", **changes).scenario != fl.Job("spare-sound").scenario


@pytest.mark.slow
def test_the_examples_of_the_package_run() -> None:
    code = (inspect.getdoc(fl) or "").partition("::\n")[2].partition("\n\n``fl.register")[0]
    names: dict[str, object] = {}
    exec(textwrap.dedent(code), names)
    assert len(names["runs"]) == 2 * 3  # type: ignore[arg-type]
