"""Steps that all ranks play one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.platforms import read_platform
from faultline.simulator.pattern.placed_step import PlacedStep
from faultline.simulator.pattern.step_shares import StepShares
from faultline.simulator.simgrid_engine.process import in_own_process
from faultline.simulator.simgrid_engine.step_timing import time_steps
from faultline.simulator.workload.layout import Layout

from tests.simulator.test_step_timing import pattern_of, placed

_STEPS = 40
_PAGE_BYTES = 4096


def _play(path: Path, step: PlacedStep) -> tuple[list[float], float]:
    """Return when each step ends, and the bytes of memory an activity of the later half keeps."""
    import simgrid
    from faultline.platforms.xml_names import CONTROLLER_HOST
    from faultline.simulator.simgrid_engine.loading import actor_on, load_engine
    from faultline.simulator.simgrid_engine.played_steps import PlayedSteps

    engine = load_engine(path)
    played = PlayedSteps(step, path)
    both = StepShares((0, 1))
    ends_s: list[float] = []
    sizes: list[int] = []
    counts: list[int] = []

    def body() -> None:
        for _ in range(_STEPS):
            played.passes(both, {0: 1, 1: 1})
            played.sync(both)
            ends_s.append(simgrid.Engine.clock)
            sizes.append(int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES)
            counts.append(played.activities)

    actor_on(CONTROLLER_HOST, "steps", body)
    engine.run()
    half = _STEPS // 2
    return ends_s, (sizes[-1] - sizes[half]) / (counts[-1] - counts[half])


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_later_steps_take_no_longer_and_no_more_memory(tmp_path: Path) -> None:
    """SimGrid 4.1 as published keeps 900 bytes an activity for ever; .ci/setup mends that."""
    layout = Layout(2, 2, 8)
    path, hosts = placed(tmp_path, layout, domains=4)
    pattern = pattern_of(layout, 16)
    step = PlacedStep.in_order(pattern, read_platform(path).gpu_names)
    ends_s, kept_bytes = in_own_process(_play, path, step)
    (alone,) = time_steps(path, [(hosts, pattern)], folds=False)
    assert ends_s == pytest.approx([alone.step_s * (number + 1) for number in range(_STEPS)])
    assert kept_bytes < 100
