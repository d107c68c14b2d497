"""``faultline doctor``: what it reports, and its message if something is missing."""

from __future__ import annotations

import json
import os
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from faultline.experiments import health
from faultline.experiments.config.distribution import DISTRIBUTION
from faultline.experiments.health import MAPS_PER_ACTOR, limit_checks, version_checks

from tests.child_processes import output_of_python
from tests.experiments.command_line import Cli, in_a_process

ROOT = Path(__file__).parents[3]
STATES = {"ok", "warning", "failed"}


def doctor(cli: Cli, status: int = 0) -> dict[str, dict[str, Any]]:
    """Return the checks by what they look at."""
    ended, out, _ = cli.all("doctor", "--json")
    printed = json.loads(out)
    assert (ended, printed["ok"]) == (status, status == 0)
    return {check["what"]: check for check in printed["checks"]}


def test_doctor_finds_a_working_installation_well(cli: Cli) -> None:
    checks = doctor(cli)
    assert {check["state"] for check in checks.values()} <= STATES - {"failed"}
    assert checks["simgrid"]["value"] == "4.1"
    assert checks["cores available"]["number"] == len(os.sched_getaffinity(0))
    flows = {what: check["number"] for what, check in checks.items() if "flow" in what}
    assert flows == {
        "hgx-h100: single NVLink flow": pytest.approx(450e9, rel=1e-6),
        "hgx-h100: single NIC flow": pytest.approx(50e9, rel=1e-6),
        "spare-600k: single NIC flow": pytest.approx(6.25e9, rel=1e-6),
    }


def test_doctor_from_the_shell_where_simgrid_is_missing(tmp_path: Path) -> None:
    missing = "raise ModuleNotFoundError(\"No module named 'simgrid'\")\n"
    (tmp_path / "simgrid.py").write_text(missing, encoding="utf-8")
    odd = {**os.environ, "PYTHONPATH": str(tmp_path), "COLUMNS": "200"}
    child = in_a_process("doctor", env=odd, cwd=ROOT)
    assert child.returncode == 1
    assert "Traceback" not in child.stdout + child.stderr
    assert "No module named 'simgrid'; make setup compiles SimGrid 4.1" in child.stdout
    assert child.stdout.rstrip().endswith("1 check failed.")


class TestVersions:
    def test_every_required_package_is_looked_at(self) -> None:
        checks = {check.what: check for check in version_checks()}
        assert set(checks) >= {DISTRIBUTION, "python", "simgrid", "numpy", "scipy", "pandas"}
        assert all(check.state == "ok" for check in checks.values())

    def test_missing_and_old_packages_fail(self, monkeypatch: pytest.MonkeyPatch) -> None:
        really = metadata.version

        def version(name: str) -> str:
            if name == "pandas":
                raise metadata.PackageNotFoundError(name)
            return {"simgrid": "3.32", "numpy": "1.9.1"}.get(name) or really(name)

        monkeypatch.setattr(metadata, "version", version)
        failed = {check.what: check for check in version_checks() if check.state == "failed"}
        assert set(failed) == {"pandas", "simgrid", "numpy"}
        assert failed["pandas"].value == "missing"
        assert "needs simgrid ==4.1; run: make setup" in failed["simgrid"].meaning
        assert DISTRIBUTION not in failed


class TestLimits:
    def test_each_limit_is_explained(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """16,000 actors run with 65,530 maps, 32,000 do not."""
        numbers = {"max_map_count": 65_530, "threads-max": 4_096, "pid_max": 200_000}
        monkeypatch.setattr(health, "_number_in", lambda path: numbers[path.name])
        checks = {check.what: check for check in limit_checks()}
        assert "about 22,000 rank actors" in checks["vm.max_map_count"].meaning
        assert (checks["threads allowed"].number, checks["threads allowed"].state) == (4096, "ok")
        assert "about 3,600 rank actors" in checks["threads allowed"].meaning
        numbers |= {"max_map_count": 2_000, "pid_max": 600}
        states = {check.what: check.state for check in limit_checks()}
        assert states["vm.max_map_count"] == states["threads allowed"] == "warning"

    def test_a_rank_actor_needs_as_many_memory_maps_as_assumed(self) -> None:
        """Counted between 2,000 and 3,000 actors: the first ones need fewer."""
        script = """
import sys
from simgrid import Engine, Host, this_actor
engine = Engine(["count", "--log=root.thres:error"])
engine.load_platform(sys.argv[1])
counts = []

def count(host=Host.by_name("controller")):
    for actors in (2000, 1000):
        for _ in range(actors):
            host.add_actor("rank", lambda: this_actor.sleep_for(10))
        this_actor.sleep_for(0.001)
        with open("/proc/self/maps") as maps:
            counts.append(sum(1 for _ in maps))

Host.by_name("controller").add_actor("counter", count)
engine.run()
print((counts[1] - counts[0]) / 1000)
"""
        platform = ROOT / "platforms" / "generated" / "spare-600k-24-groups.xml"
        assert float(output_of_python("-c", script, platform)) <= MAPS_PER_ACTOR * 1.01
