"""Jobs whose groups share weights: which schemes they accept, and both engines in agreement."""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import scenario_from
from faultline.experiments.config.toml_text import parse_toml
from faultline.experiments.job.job_shape import job_shape
from faultline.experiments.job.resolving import resolve
from faultline.experiments.planner.candidates import find_candidates
from faultline.experiments.planner.situation import read_situation
from faultline.experiments.runs.single_run import run
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_writer import write_xml
from faultline.strategies.interface.errors import StrategyError
from faultline.strategies.interface.job_shape import loses_a_share
from faultline.strategies.plugins.registry import all_strategies

JOB = """
[job]
groups = 16
steps = 12
[model]
name = "llama3-8b"
tensor = 1
micro_batches = 2
kernels = "h100"
compute_efficiency = 0.7
gradient_overlap = 0.8
sharding = "full"
[strategy]
name = "replica-drop"
[failures]
distribution = "exponential"
mtbf_s = 12.0
[checkpoint]
interval_steps = 4
[times]
checkpoint_write_s = 2.0
restart_s = 5.0
"""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("two") / "servers.xml"
    write_xml(load_preset("hgx-h100", domains=2), path)
    return path


def scenario_on(path: Path, **keys: object) -> Scenario:
    tables, _ = parse_toml(JOB)
    scenario = scenario_from({**tables, "platform": {"file": str(path)}}, "a test")
    return scenario.change(keys)


def reason(scenario: Scenario) -> str | None:
    try:
        resolve(scenario)
    except StrategyError as error:
        return str(error)
    return None


def test_schemes_that_divide_groups_are_refused_with_a_remedy(servers: Path) -> None:
    """Because a node has only shards of what it would take over; all others are accepted."""
    for name, scheme in all_strategies().items():
        changes = {"strategy.name": name, "recovery.standbys": 1}
        for sharding in ("full", "hybrid"):
            found = reason(scenario_on(servers, **changes, **{"model.sharding": sharding}))
            if scheme.keeps_groups_whole:
                assert found is None, name
            else:
                assert found is not None
                assert found.startswith(f'model.sharding = "{sharding}": this scheme ')
                assert 'set "optimizer" or "none"' in found
        assert reason(scenario_on(servers, **changes, **{"model.sharding": "optimizer"})) is None


def test_without_copies_only_restarts_are_left(servers: Path) -> None:
    """Under hybrid sharding the other domain has copies."""
    bare = {"model.optimizer_backup": "none"}
    found = reason(scenario_on(servers, **bare))
    assert found is not None
    assert 'set model.optimizer_backup = "neighbour"' in found
    assert reason(scenario_on(servers, **bare, **{"strategy.name": "checkpoint"})) is None
    assert reason(scenario_on(servers, **bare, **{"model.sharding": "hybrid"})) is None


def test_a_plan_leaves_out_what_a_run_refuses(servers: Path, tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text(f"{JOB}[platform]\nfile = '{servers}'\n")
    keys = ["failures.mtbf_s=1e5", "job.steps=2000", "~strategy.name"]
    situation = read_situation(str(path), keys)
    found = find_candidates(situation, None, ["storage"])
    for one in found.left_out:
        if one.scheme != "warm-standby":
            assert one.protection is None
            assert one.reason == reason(scenario_on(servers, **{"strategy.name": one.scheme}))
    whole = {name for name, scheme in all_strategies().items() if scheme.keeps_groups_whole}
    assert {one.choices[0].scheme for one in found.found} == whole - {"warm-standby"}
    alone = find_candidates(situation, ["mecefo"], ["storage"])
    assert alone.found == ()
    assert "take over lost parts" in alone.left_out[0].reason


def test_hybrid_loses_a_share_once_every_domain_lacks_a_group(servers: Path) -> None:
    shape = job_shape(scenario_on(servers, **{"model.sharding": "hybrid"}))
    assert (shape.domain_groups, shape.least_groups) == (8, 8)
    losses = [0, 1], [0, 8], [9]
    lost = [loses_a_share(range(16), missing, "neighbour", 8) for missing in losses]
    assert lost == [False, True, False]


def test_a_job_that_does_not_fit_is_told_what_it_may_shard(servers: Path) -> None:
    with pytest.raises(UserError, match=r'model\.sharding = "optimizer" or "full"'):
        scenario_on(servers, **{"model.sharding": "none"})
    fits = job_shape(scenario_on(servers, **{"model.sharding": "full"}))
    assert fits.least_groups < 16


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"model.sharding": "hybrid", "model.optimizer_backup": "none"},
        {"model.sharding": "hybrid", "job.groups": 4, "model.tensor": 4},
        {"strategy.name": "spare", "strategy.redundancy": 3},
        {"strategy.name": "checkpoint", "model.reshard_after_forward": False},
    ],
    ids=str,
)
def test_engines_agree(servers: Path, changes: dict[str, object]) -> None:
    """On the time of a run with failures; replay times the members that stand for those left."""
    scenario = scenario_on(servers, **changes)
    replayed, simulated = (run(scenario, 0, engine) for engine in ("replay", "simgrid"))
    assert replayed["events"] == simulated["events"] > 0
    assert replayed["step_gather_s"] > 0.0
    assert simulated["time_s"] == pytest.approx(replayed["time_s"], rel=2e-4)
