"""The cells of the head-to-head: valid scenarios, their machines, failures and prices."""

from __future__ import annotations

from typing import get_args

import pytest
from faultline.experiments.config.mix_file import load_mix
from faultline.experiments.config.model_numbers import memory_of, parallel_job
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.durations import recovery_prices
from faultline.experiments.job.failure_model import GPU_SECONDS_PER_FAILURE
from faultline.experiments.job.job_shape import job_shape
from faultline.experiments.job.platform_files import gpu_of
from faultline.experiments.studies.head_to_head.grids import (
    JOBS,
    LISTS,
    MAPS_OF,
    RATES_S,
    Cell,
    every_other,
    listed_cells,
    map_cells,
    replacements,
)
from faultline.strategies.interface.recovery import Move, Recovery, RecoveryKind
from scipy.stats import poisson

MAP_CELLS = [
    cell for job, names in MAPS_OF.items() for name in names for cell in map_cells(job, name)
]


@pytest.mark.parametrize("cells", [*map(listed_cells, LISTS), MAP_CELLS], ids=[*LISTS, "maps"])
def test_each_cell_is_a_valid_scenario(cells: list[Cell]) -> None:
    assert len({(cell.grid, cell.job, cell.x, cell.y) for cell in cells}) == len(cells)
    for cell in cells:
        scenario = load_scenario(cell.job, cell.settings)
        if cell.gpus is not None:
            assert cell.gpus % scenario.job.gpus_of_group == 0


@pytest.mark.parametrize("job", JOBS)
def test_each_job_fits_its_gpus(job: str) -> None:
    (cell, *_) = map_cells(job, "restart")
    scenario = load_scenario(job, cell.settings)
    gpu = gpu_of(scenario)
    assert gpu is not None
    used = memory_of(parallel_job(scenario.model, scenario.job.groups)).total
    assert 0.0 < used < gpu.memory_bytes


def test_a_gpu_of_the_first_job_holds_one_stage() -> None:
    shape = job_shape(
        load_scenario("head-to-head", map_cells("head-to-head", "restart")[0].settings)
    )
    assert (shape.stages, shape.tensor, shape.sequences, shape.stages_that_fit) == (16, 32, 64, 1)


def test_standbys_suffice_19_times_in_20() -> None:
    """A failure each hour, 78 % of them of hardware, which is repaired in four days."""
    mean = 0.78 * 4 * 24
    standbys = replacements("standbys", 3600.0)["recovery.standbys"]
    assert poisson.cdf(standbys, mean) == pytest.approx(0.95, abs=0.02)
    of_domains = replacements("standbys", 3600.0, domain_share=1.0)["recovery.standbys"]
    assert poisson.cdf(of_domains, 4 * 4 * 24) == pytest.approx(0.95, abs=0.02)
    assert "recovery.standbys" not in replacements("queue", 3600.0)


def test_failures_by_size_come_at_the_rate_of_llama_3() -> None:
    for cell in map_cells("head-to-head", "queue"):
        causes = load_mix(str(cell.settings["failures.mix"])).causes()
        rate = sum(cause.rate_per_gpu_s for cause in causes)
        assert rate == pytest.approx(1.0 / GPU_SECONDS_PER_FAILURE)
        of_domains = sum(cause.rate_per_gpu_s for cause in causes if cause.level == "domain")
        assert of_domains / rate == pytest.approx(cell.y)


def test_all_recoveries_have_one_price_if_it_is_stated() -> None:
    (cell, *_) = [one for one in listed_cells("stalls") if one.x == 180]
    prices = recovery_prices(load_scenario("head-to-head", cell.settings))
    # A migration is part of a restart.
    for kind in get_args(RecoveryKind):
        found = prices.duration_s(Recovery(kind, moves=(Move(0, 0, 0, 1),)))
        assert found == (0.0 if kind == "migrate" else 180.0)


def test_lists_change_the_layers_the_pipeline_or_the_platform() -> None:
    layers = [load_scenario("head-to-head", cell.settings) for cell in listed_cells("layers")]
    assert [scenario.model.layers for scenario in layers] == [120, 128, 130, 136]
    interleaved = load_scenario("head-to-head", listed_cells("interleaved")[0].settings)
    assert interleaved.model.virtual_stages == 4
    files = {cell.name: cell.settings.get("platform.file") for cell in listed_cells("links")}
    assert len(set(files.values())) == 6
    assert files["as it is"] is None


def test_every_other_value_of_both_axes_is_simulated_quickly() -> None:
    cells = map_cells("head-to-head", "restart")
    few = every_other(cells)
    assert {cell.x for cell in few} == {300.0, 2700.0, 21_600.0}
    assert len(few) == 9
    settings = every_other(listed_cells("settings"))
    assert [cell.name for cell in settings] == ["calm", "storm"]
    assert [cell.settings["failures.mtbf_s"] for cell in settings] == [
        RATES_S["calm"], RATES_S["storm"],
    ]  # fmt: skip
