"""A checkpoint that does not reach the storage is not saved, whoever is still up."""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.platforms import load_preset, read_platform, write_xml
from faultline.simulator.phases import Save
from faultline.simulator.simgrid_engine.process import in_own_process
from faultline.simulator.simgrid_engine.traffic import Traffic

from tests.simulator.helpers import SOUND, STUDY, Scripted, small_job


def save_while_a_host_fails(path: Path, rule: str, fails: bool) -> tuple[tuple[int, ...], float]:
    """Let group 0 write from two hosts, of which the one without its rank goes down meanwhile."""
    import simgrid
    from faultline.platforms.xml_names import CONTROLLER_HOST
    from faultline.simulator.simgrid_engine.controller import SimgridEngine
    from faultline.simulator.simgrid_engine.loading import actor_on, load_engine, run_to_the_end

    engine = load_engine(path)
    platform = read_platform(path)
    names = platform.gpu_names
    traffic = Traffic(
        [names[:2], names[2:]],
        platform.storage or "",
        1e11,
        all_reduce=False,
        save=True,
        load=False,
    )
    job = small_job(Scripted({}), STUDY if rule == "skips" else SOUND, groups=2)
    assert job.rules.failed_writer == rule
    player = SimgridEngine(job, traffic, path)
    player.failure_injector.power_on()
    outcomes: list[tuple[tuple[int, ...], float]] = []

    def control() -> None:
        outcome = player.execute(Save((0, 1), 0, True))
        outcomes.append((outcome.missing, outcome.now_s))

    def strike() -> None:
        simgrid.this_actor.sleep_until(0.5)
        if fails:
            simgrid.Host.by_name(names[1]).turn_off()

    actor_on(CONTROLLER_HOST, "failure", strike)
    actor_on(CONTROLLER_HOST, "controller", control)
    run_to_the_end(engine)
    return outcomes[0]


@pytest.mark.parametrize("rule", ["skips", "replaced"])
def test_a_transfer_that_breaks_off_has_not_saved(rule: str, tmp_path: Path) -> None:
    path = tmp_path / "plane.xml"
    write_xml(load_preset("spare-600k", groups=4), path)
    missing, saved_s = in_own_process(save_while_a_host_fails, path, rule, False)
    assert missing == ()
    assert saved_s > 1.0
    missing, _ = in_own_process(save_while_a_host_fails, path, rule, True)
    assert missing == (0,)
