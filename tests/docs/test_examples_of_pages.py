"""The schemes and protections that pages show as examples are real: jobs train with them."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.protected import protected_job
from faultline.experiments.job.resolving import resolve
from faultline.experiments.plugins.scheme_package import write_scheme_package
from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.recovery import Move
from faultline.strategies.interface.scheme import Continue, Hit, StrategyOptions, WipeOut
from faultline.testing import check_scheme

from tests.docs.pages import ROOT, blocks
from tests.simulator.helpers import replayed
from tests.stated_times import NOTHING_MEASURED, SNAPSHOT_SETTINGS

pytestmark = pytest.mark.system


def example(name: str, block: int = 0) -> Any:
    """Return a module that a page shows, under a name by which a process finds it again."""
    called = f"example_{block}_of_{name}"
    module = sys.modules.setdefault(called, ModuleType(called))
    exec(blocks(f"{name}.md", "python")[block], vars(module))
    return module


def script(name: str) -> Any:
    """Return a module of docs/examples, likewise."""
    module = sys.modules.setdefault(f"script_{name}", ModuleType(f"script_{name}"))
    exec((ROOT / "docs" / "examples" / f"{name}.py").read_text(encoding="utf-8"), vars(module))
    return module


def test_a_scheme_decides_as_its_docstring_states() -> None:
    buddies = example("adding-a-scheme").Buddies(6, 2, StrategyOptions(), JobShape())
    assert buddies.on_failures((2,)) == Continue((2,), patch={3: 1})
    assert buddies.plan().members == (0, 1, 3, 4, 5)
    assert buddies.on_failures((3,)) == WipeOut((3,))


def test_a_scheme_keeps_what_schemes_promise() -> None:
    check_scheme(example("adding-a-scheme").Buddies)


def test_a_scheme_with_pipelines_keeps_what_schemes_promise() -> None:
    """Three groups of eight stages; the first loses its second stage, then its last."""
    lean_on = script("lean_on").LeanOn
    check_scheme(lean_on, groups=12, engines=False)
    scheme = lean_on(3, 1, StrategyOptions(), JobShape())
    scheme.on_hit(Hit(0, 1, 1, 8))
    assert scheme.on_failures((0,)).recovery.moves == (Move(0, 0, 1, 8),)
    (leaning,) = scheme.plan().pipelines
    assert [share.node for share in leaning.stages] == [0, 0, *range(2, 8)]
    scheme.on_hit(Hit(0, 7, 7, 8))
    assert scheme.on_failures((0,)) == WipeOut((0,))


@pytest.mark.slow
def test_a_scheme_with_pipelines_does_on_both_engines() -> None:
    check_scheme(script("lean_on").LeanOn)


def test_a_new_package_begins_with_the_example(tmp_path: Path) -> None:
    write_scheme_package("buddies", tmp_path)
    written = (tmp_path / "faultline_buddies" / "__init__.py").read_text(encoding="utf-8")
    shown = blocks("adding-a-scheme.md", "python")[0]
    assert shown == f"# strategies/schemes/buddies.py\n{written}"


def test_a_protection_keeps_the_state_beneath_a_scheme() -> None:
    settings = [
        *("strategy.name=checkpoint", "job.groups=24", "job.gpus=384", "job.steps=60"),
        *NOTHING_MEASURED,
        *("job.parameter_bytes=1e11", "times.restart_s=300"),
        *("protection.name=reft", *SNAPSHOT_SETTINGS, "times.snapshot_copy_s=2"),
    ]
    scenario = load_scenario("spare-sound", settings)
    resolved = resolve(scenario)
    protection = script("whole_copies").WholeCopies(
        protected_job(scenario, compute_s=1.0), StrategyOptions()
    )
    # All nodes at the first position of their replica are lost: no node has that part.
    assert protection.recovery(range(0, 48, 2)) is None
    assert protection.recovery(range(2, 48)) == "peers"

    resolved = replace(resolved, protected=replace(resolved.protected, protection=protection))
    job = resolved.job(seed=0)
    assert job.saving.tiers[0].stall_s == 2.0
    progress = replayed(job, resolved.strategy())
    assert progress.completed_steps == 60
    assert progress.restarts_from_memory > 0
