"""The page on nonuniform tensor parallelism is real: its commands work, its keys exist."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from faultline.experiments.cli import main
from faultline.experiments.config.scenario import Scenario
from faultline.strategies.registry import all_strategies

PAGE = Path(__file__).parents[2] / "docs" / "nonuniform.md"
TEXT = PAGE.read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```\n(.*?)```", TEXT, re.DOTALL)
    for line in block.strip().splitlines()
]
SCHEMES = ("dp-drop", "ntp", "ntp-pw", "spare-ntp", "replication-ntp")


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With longer or fewer steps, which take less time to play."""
    program, *arguments = shlex.split(command)
    assert program == "faultline"
    shorter = "times.compute_s=60" if "ntp-32k" in arguments else "job.steps=50"
    assert main([*arguments, "--set", shorter, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["failures"] > 0
    assert record["degraded_s"] > 0


def test_it_names_the_schemes_and_their_keys() -> None:
    known = {key for name in SCHEMES for key in all_strategies()[name].Options.model_fields}
    known |= {*SCHEMES, *Scenario().model.model_dump()}
    named = set(re.findall(r"`([a-z_]+|[a-z]+-[a-z-]+)`", TEXT)) - {"slow", "boosted"}
    assert set(SCHEMES) - {"ntp"} <= named
    unknown = named - known - {"smaller-batch", "spare-sound"}
    assert not unknown
    for name in ("dp-drop", "ntp"):
        assert set(all_strategies()[name].Options.model_fields) <= named | {
            "resharding_slowdown",
        }
