"""The size of a job and how often it fails, in place of what its scenario states.

``--gpus``, ``--mtbf``, ``--restart`` and ``--steps`` mean the same in every command.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from faultline.experiments.analysis.quantities import time_text
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.grid import Grid
from faultline.experiments.config.keys import set_keys, value_at
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import ScenarioSource, read_source
from faultline.experiments.job.failure_model import failure_model, stated_mtbf_s


@dataclass(frozen=True, slots=True)
class Size:
    """What a command states of a job; None leaves a value as the scenario states it."""

    gpus: int | None = None  # Of the whole job.
    mtbf_s: float | None = None  # Mean time between failures of the whole job, in seconds.
    restart_s: float | None = None
    steps: int | None = None


def resize(source: ScenarioSource, size: Size, varied: Collection[str] = ()) -> list[str]:
    """Change a scenario to a size, and return sentences about what follows from it.

    The mean time between failures, unless stated, scales with 1 / GPUs. A job that trains a named
    model has as many groups as the GPUs make; any other job keeps its groups and its times.
    `varied` are keys whose values are stated later.

    Raises UserError if the scenario is wrong, or if there are fewer GPUs than groups.
    """
    if size.steps is not None:
        source.change({"job.steps": size.steps}, "--steps")
    if size.restart_s is not None:
        source.change({"times.restart_s": size.restart_s}, "--restart")
    sentences = []
    if size.mtbf_s is not None:
        sentences += _state_mtbf(source, size.mtbf_s, source.scenario())
    if size.gpus is None:
        return sentences
    stated = source.scenario()
    gpus = _resize_gpus(source, stated, size.gpus)
    own_gpus = stated.job.gpus
    assert own_gpus is not None, "filled in when a scenario is read"
    is_stated = ("failures", "mtbf_s") in source.options or "failures.mtbf_s" in varied
    if gpus != own_gpus and not is_stated:
        sentences.append(_scale_mtbf(source, stated, own_gpus, gpus))
    return sentences


def resized_grid(grid: Grid, size: Size) -> tuple[Grid, list[str]]:
    """Return a grid whose points have another size, and sentences about what follows from it.

    Raises UserError if the grid varies what `size` states.
    """
    source = read_source(grid.scenario_source())
    set_keys(source.tables, grid.fixed, f"{grid.origin}: [set] ")
    varied = grid.varied_keys()
    sentences = resize(source, size, varied)
    changed = {".".join(path): value_at(source.tables, path) for path in source.settings}
    for path in source.options:
        if (key := ".".join(path)) in varied:
            raise UserError(f"{source.settings[path]}: {grid.origin} varies {key}; leave it out")
    kept = {key: value for key, value in changed.items() if key not in varied}
    return replace(grid, fixed={**grid.fixed, **kept}), sentences


def _resize_gpus(source: ScenarioSource, stated: Scenario, gpus: int) -> int:
    """Change the GPUs of a job that is `stated` now, and return their number in whole groups."""
    group_gpus, groups = stated.job.gpus_of_group, stated.job.groups
    is_stated = stated.model.name == "stated"
    least, what = (groups, f"{groups:,} groups") if is_stated else (group_gpus, "a group")
    if gpus < least:
        remedy = " or set job.groups" if is_stated else " or another [model]"
        raise UserError(f"--gpus {gpus:,}: cannot make {what}; use {least:,} or more,{remedy}")
    source.change({"job.gpus": gpus} if is_stated else {"job.groups": gpus // group_gpus}, "--gpus")
    return gpus if is_stated else gpus // group_gpus * group_gpus


def _state_mtbf(source: ScenarioSource, mtbf_s: float, own: Scenario) -> list[str]:
    """Set the mean time between failures; return a sentence if rates of the job's own mix scale."""
    sentences = []
    if value_at(source.tables, ("failures", "model")) == "mix":
        sentences.append(
            f"A failure every {time_text(mtbf_s)}, as stated: all rates of the "
            f"{own.failures.process} are scaled by one factor, from a failure every "
            f"{time_text(failure_model(own).mtbf_s)}."
        )
        source.change({"failures.rate": "mtbf"})
    source.change({"failures.mtbf_s": mtbf_s}, "--mtbf")
    return sentences


def _scale_mtbf(source: ScenarioSource, base: Scenario, own_gpus: int, gpus: int) -> str:
    """Set the mean time between failures at another number of GPUs; return a sentence about it."""
    failures = base.failures
    if failures.model == "trace":
        return "The failures of the trace do not change with the number of GPUs."
    if failures.model == "mix" and failures.rate == "model":
        return "The rates of the failure mix scale with the GPUs."
    own_s = stated_mtbf_s(base)
    mtbf_s = own_s * own_gpus / gpus
    source.change({"failures.mtbf_s": mtbf_s})
    return (
        f"A failure every {time_text(mtbf_s)}: the scenario's {time_text(own_s)} at "
        f"{own_gpus:,} GPUs, scaled with 1 / GPUs."
    )
