"""Schemes are found by name. A file that cannot be used takes none down with it, and is named."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import faultline.strategies.schemes
import pytest
from faultline.experiments.cli import main
from faultline.strategies.interface.errors import StrategyError
from faultline.strategies.interface.scheme import StepPlan, WipeOut
from faultline.strategies.plugins import registry
from faultline.strategies.plugins.registry import (
    all_strategies,
    broken_plugins,
    build_strategy,
    strategy_class,
)


def test_every_failure_is_a_wipe_out() -> None:
    scheme = build_strategy("checkpoint", 4, 1)
    assert scheme.plan() == StepPlan((0, 1, 2, 3), 1, 1)
    assert scheme.on_failures([2]) == WipeOut((2,))
    scheme.restart()
    assert scheme.plan() == StepPlan((0, 1, 2, 3), 1, 1)
    assert scheme.checkpoint_waits


WITHOUT_REDUNDANCY = (
    *("checkpoint", "mecefo", "bamboo", "oobleck", "varuna", "recycle"),
    *("dp-drop", "ntp", "ntp-pw", "replica-drop", "warm-standby"),
)


@pytest.mark.parametrize("scheme", WITHOUT_REDUNDANCY)
@pytest.mark.parametrize("given", [0, 2, 9])
def test_most_schemes_have_no_redundancy_to_choose(scheme: str, given: int) -> None:
    message = rf"strategy\.redundancy: {scheme} has no redundancy to choose \(got {given}\)"
    with pytest.raises(StrategyError, match=message):
        build_strategy(scheme, 4, given)


def test_every_scheme_is_found_by_its_name() -> None:
    assert {"checkpoint", "replication", "spare"} <= set(all_strategies())
    for name, scheme in all_strategies().items():
        assert strategy_class(name) is scheme
        assert scheme.name == name
        assert scheme.summary


def test_an_unknown_scheme_is_refused_with_those_there_are() -> None:
    with pytest.raises(StrategyError, match=r"no scheme 'hope'; use one of .*checkpoint, "):
        strategy_class("hope")


_GOOD = """
from faultline.strategies.schemes.checkpoint import Checkpoint


class {name}(Checkpoint):
    name = "{called}"
    summary = "A scheme of a test"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder whose files are schemes, as if they were in `strategies/schemes/`."""
    before = set(sys.modules)
    monkeypatch.setattr(
        faultline.strategies.schemes,
        "__path__",
        [*faultline.strategies.schemes.__path__, str(tmp_path)],
    )
    registry._schemes.cache_clear()
    yield tmp_path
    registry._schemes.cache_clear()
    for module in set(sys.modules) - before:
        if module.startswith("faultline.strategies.schemes."):
            del sys.modules[module]


def test_nothing_shipped_is_broken() -> None:
    assert broken_plugins() == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("class Half(:\n", "line 1: invalid syntax"),
        ("import nowhere_to_be_found\n", "ModuleNotFoundError"),
        (
            "from faultline.strategies.interface.scheme import Strategy\n"
            "class Half(Strategy):\n    name = 'half'\n",
            "Half lacks masked_failures, on_failures, work_per_step",
        ),
    ],
)
def test_a_broken_file_is_named_and_the_others_work(folder: Path, text: str, why: str) -> None:
    (folder / "half.py").write_text(text)
    (folder / "whole.py").write_text(_GOOD.format(name="Whole", called="whole"))
    assert {"spare", "whole"} <= set(all_strategies())
    (reason,) = broken_plugins()
    assert reason.startswith("strategies/schemes/half.py is left out: ")
    assert why in reason
    with pytest.raises(
        StrategyError, match=r"no scheme 'half'; strategies/schemes/half\.py is left out"
    ):
        strategy_class("half")


def test_a_shipped_scheme_keeps_its_name(folder: Path) -> None:
    (folder / "my_spare.py").write_text(_GOOD.format(name="MySpare", called="spare"))
    assert strategy_class("spare").__name__ == "Spare"
    taken = "'spare' is the name of strategies/schemes/spare/spare.py, choose another"
    assert broken_plugins() == (f"strategies/schemes/my_spare.py is left out: {taken}",)


def test_commands_go_on_and_name_the_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "half.py").write_text("class Half(:\n")
    words = ["--set", "strategy.name=checkpoint", "--set", "job.groups=4", "--set", "job.steps=3"]
    assert main(["run", "spare-sound", *words]) == 0
    assert "faultline: strategies/schemes/half.py is left out: line 1" in capsys.readouterr().err
