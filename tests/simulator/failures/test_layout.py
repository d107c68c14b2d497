"""Which groups a component takes down: compared with a list of every GPU."""

from __future__ import annotations

import pytest
from faultline.simulator.failures.failure import LEVELS, Failure, JobLayout, Level, component_name
from hypothesis import given
from hypothesis import strategies as st

sizes = st.integers(1, 20)
layouts = st.builds(JobLayout, sizes, sizes, sizes, sizes, sizes)
of_gpus = st.sampled_from([level for level in LEVELS if level != "cable"])


@given(layout=layouts, level=of_gpus)
def test_components_and_groups_are_runs_of_gpus(layout: JobLayout, level: Level) -> None:
    gpus = list(range(layout.groups * layout.gpus_per_group))
    size = layout.gpus_per_component(level)
    runs = [gpus[first : first + size] for first in range(0, len(gpus), size)]
    assert layout.gpus == len(gpus)
    assert layout.components(level) == len(runs)
    for number, run in enumerate(runs):
        assert list(layout.gpus_of(level, number)) == run
        groups = {gpu // layout.gpus_per_group for gpu in run}
        assert set(layout.groups_of(level, number)) == groups


@given(layout=layouts, level=of_gpus, data=st.data())
def test_a_group_feels_all_gpus_of_the_components_it_touches(
    layout: JobLayout, level: Level, data: st.DataObject
) -> None:
    group = data.draw(st.integers(0, layout.groups - 1))
    felt = sum(
        len(layout.gpus_of(level, number))
        for number in range(layout.components(level))
        if group in layout.groups_of(level, number)
    )
    assert layout.share_felt(level, group) == pytest.approx(felt / layout.gpus)


@given(layout=layouts)
def test_a_cable_takes_nobody_down_and_is_everybodys(layout: JobLayout) -> None:
    assert list(layout.gpus_of("cable", 3)) == []
    assert layout.groups_of("cable", 3) == range(layout.groups)
    assert layout.share_felt("cable", 0) == 0.0


def test_components_have_the_names_of_traces() -> None:
    assert component_name("gpu", 97) == "gpu-97"
    assert component_name("job", 0) == "job"
    failure = Failure(1.0, "domain", 2, "power", "hardware", None, range(3))
    assert failure.component == "domain-2"
