"""The example of the page on adding a scheme is real: it runs on the replay engine."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.plugins.skeleton import write_scheme_package
from faultline.simulator.replay import ReplayEngine
from faultline.simulator.run import play
from faultline.simulator.training import Training
from faultline.strategies.base import Continue, StrategyOptions, WipeOut
from faultline.testing import check_scheme

from tests.stated_times import NOTHING_MEASURED

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-scheme.md"


def example_scheme() -> Any:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    # Under a name by which a process finds it again.
    module = sys.modules.setdefault("buddies_of_the_page", ModuleType("buddies_of_the_page"))
    exec(blocks[0], vars(module))
    return module.Buddies


def test_the_example_decides_as_its_docstring_says() -> None:
    buddies = example_scheme()(6, 2, StrategyOptions())
    assert buddies.on_failures((2,)) == Continue((2,), patch={3: 1})
    assert buddies.plan().members == (0, 1, 3, 4, 5)
    assert buddies.on_failures((3,)) == WipeOut((3,))


def test_the_example_keeps_what_schemes_promise() -> None:
    check_scheme(example_scheme())


def test_a_new_package_begins_with_the_example(tmp_path: Path) -> None:
    write_scheme_package("buddies", tmp_path)
    written = (tmp_path / "faultline_buddies" / "__init__.py").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks[0] == f"# strategies/buddies.py\n{written}"


def test_the_example_trains_through_failures() -> None:
    settings = ["job.groups=24", "job.steps=200", *NOTHING_MEASURED]
    question = resolve(load_scenario("spare-sound", settings))
    job = question.job(seed=0)
    training = Training(job.work, job.rules, example_scheme()(24, 2, StrategyOptions()))
    play(training, ReplayEngine(job))
    assert training.progress.completed_steps == 200
    assert training.progress.restarts > 0
    assert training.progress.reorderings > 0
