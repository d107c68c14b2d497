"""From a scenario's ``[failures]`` to a model that generates failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from math import inf
from pathlib import Path

import numpy as np
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.tables.failures import FailuresTable
from faultline.experiments.job.platform_files import (
    cables_with_detours,
    cut_off_with_a_switch,
    is_plane,
    once_per_file,
    platform_file,
    spec_of,
    switches_are_unknown,
    switches_with_detours,
)
from faultline.simulator.failures.dependence import Dependence
from faultline.simulator.failures.distributions import NEVER_S, Exponential, Weibull
from faultline.simulator.failures.failure import (
    KINDS,
    LEVELS,
    STOPPING,
    Failure,
    JobLayout,
    kind_error,
)
from faultline.simulator.failures.mix import Cause, CauseMix
from faultline.simulator.failures.models import FailureModel, IndependentGroups
from faultline.simulator.failures.reactions import Reactions
from faultline.simulator.failures.recorded import RecordedFailures
from faultline.simulator.failures.trace import Trace
from faultline.simulator.failures.victims import ComponentChoice
from faultline.simulator.job.conditions import drawn_outages, routable_causes

GPU_SECONDS_PER_FAILURE = 16_384 * 54 * 86_400 / 419
"""Llama 3 (Grattafiori et al. 2024): 419 unexpected interruptions in 54 days on 16,384 H100."""

GPUS_PER_HOST = 8
GPUS_PER_DOMAIN = 8
GPUS_PER_SWITCH = 16

# Below it, the mean time between the failures of a trace can be 0 as a number.
_SHORTEST_TRACE_S = 1e-6

_KEYS_OF_MODEL = {"mix": ("mix",), "trace": ("trace", "trace_start", "trace_span_s")}


def failure_model(scenario: Scenario) -> FailureModel:
    """Return the model that generates the failures of a scenario.

    A UserError refuses keys that contradict each other, and an invalid mix or trace.
    """
    table = scenario.failures
    _refuse_keys_of_other_models(table)
    if table.model == "independent":
        return _independent_groups(scenario)
    if table.clock != "renewal":
        raise UserError(
            f'failures.clock = "{table.clock}": the failures of a {table.model} are independent of '
            'the time at which the last one was detected; set failures.clock = "renewal"'
        )
    layout = job_layout(scenario)
    model = _mix(scenario, layout) if table.model == "mix" else _trace(scenario, layout)
    named = {*model.causes, *model.disturbance_causes}
    clash = named & set(FailuresTable.model_fields)
    if clash:
        raise UserError(
            f"cause {min(clash)!r} of the {table.model} has the name of a key of [failures], so "
            "their columns would clash; rename it"
        )
    return model


def stated_mtbf_s(scenario: Scenario) -> float:
    """Return ``failures.mtbf_s``; if it is open, that of the job's GPUs at Llama 3's rate."""
    stated = scenario.failures.mtbf_s
    return GPU_SECONDS_PER_FAILURE / scenario.job.all_gpus if stated is None else stated


def corruptions_per_s(scenario: Scenario, model: FailureModel) -> float:
    """Return how often silent corruption begins in the whole job, in 1/s."""
    if isinstance(model, CauseMix):
        corrupting = (one.rate_per_gpu_s for one in model.mixed if one.kind == "corrupt")
        return sum(corrupting) * job_layout(scenario).gpus
    if isinstance(model, Trace):
        return sum(one.kind == "corrupt" for one in model.disturbing) / model.span_s
    return 0.0


def failure_files(scenario: Scenario) -> list[Path]:
    """Return the files that the failures of a scenario depend on, without shipped ones."""
    table = scenario.failures
    if table.model == "mix" and table.mix is not None:
        from faultline.experiments.config.mix_file import plugged_mixes, shipped_mixes

        if table.mix not in shipped_mixes():
            return [plugged_mixes().get(table.mix, Path(table.mix))]
    if table.model == "trace" and table.trace is not None:
        return [Path(table.trace)]
    return []


def job_layout(scenario: Scenario) -> JobLayout:
    """Return the GPUs of a job per group, host, scale-up domain and switch.

    Numbers that the scenario leaves open come from the spec of its platform. Without a spec, or on
    a rail plane without hosts, they are those of the HGX servers that trained Llama 3, in racks of
    two. The cables of a platform XML determine the GPUs that a leaf switch cuts off.
    """
    table, job = scenario.failures, scenario.job
    host, domain, switch = GPUS_PER_HOST, GPUS_PER_DOMAIN, GPUS_PER_SWITCH
    spec = spec_of(scenario)
    if spec is not None and not is_plane(spec):
        host, domain = spec.gpus_per_host, spec.scale_up.gpus_per_domain
        switch = spec.scale_out.domains_per_leaf * domain
    if table.gpus_per_switch is not None:
        switch = table.gpus_per_switch
    elif not is_plane(spec) and table.model in ("mix", "trace"):
        by_cables = cut_off_with_a_switch(scenario)
        switch = switch if by_cables is None else by_cables
    host, domain = table.gpus_per_host or host, table.gpus_per_domain or domain
    return JobLayout(job.groups, job.gpus_of_group, host, domain, switch)


def network_outages(
    scenario: Scenario, model: FailureModel, seed: int
) -> Callable[[], Iterator[Failure]] | None:
    """Return the outages of switches that have a detour; None if there are none.

    Such switches fail if a cause of the mix strikes switches.
    """
    if not isinstance(model, CauseMix) or scenario.failures.gpus_per_switch is not None:
        return None
    around, fatal = switches_with_detours(platform_file(scenario))
    causes = (*model.mixed, *model.harmless)
    striking = [one for one in causes if one.level == "switch" and one.kind in STOPPING]
    if not (around and striking):
        return None
    layout, repair_s = model.layout, scenario.rejoin.repair_s
    shared = routable_causes(striking, fatal, len(around))
    return partial(drawn_outages, shared, layout.gpus, layout.groups, len(around), repair_s, seed)


def _refuse_keys_of_other_models(table: FailuresTable) -> None:
    for model, keys in _KEYS_OF_MODEL.items():
        stated = [key for key in keys if getattr(table, key) is not None]
        if stated and model != table.model:
            raise UserError(
                f"failures.{stated[0]} is set, but failures.model is {table.model!r}; set "
                f'failures.model = "{model}", or leave the key out'
            )


def _independent_groups(scenario: Scenario) -> IndependentGroups:
    table, layout = scenario.failures, job_layout(scenario)
    mean_s = stated_mtbf_s(scenario) * layout.groups
    components = ComponentChoice(layout, table.component, table.hardware_share)
    lifetimes = (
        Exponential(mean_s)
        if table.distribution == "exponential"
        else Weibull.from_mean(table.shape, mean_s)
    )
    return IndependentGroups(lifetimes, layout.groups, components)


def _mix(scenario: Scenario, layout: JobLayout) -> CauseMix:
    """Return the causes of a mix; with ``rate = "mtbf"``, scaled to the stated mean time."""
    from faultline.experiments.config.mix_file import load_mix

    table, kinds = scenario.failures, scenario.failures.kinds
    striking, harmless = list[Cause](), list[Cause]()
    for cause in load_mix(table.mix or "llama3").causes():
        strikes = cause.kind not in STOPPING or layout.gpus_per_component(cause.level) > 0
        (striking if strikes else harmless).append(cause)
    if not striking:
        raise UserError(
            f"failures.mix = {table.mix!r}: all its failures are of switches, and every GPU of the "
            "platform has a way around each switch; set failures.gpus_per_switch to stop GPUs"
        )
    dependence = Dependence(
        kinds.correlated_excess, kinds.excess_within_s, kinds.lemon_shape, kinds.recurrence
    )
    reactions = reactions_of(scenario)
    mix = CauseMix(tuple(striking), layout, reactions, dependence, tuple(harmless))
    if table.rate == "mtbf" and mix.mtbf_s >= NEVER_S:
        raise UserError(
            f"failures.mix = {table.mix!r}: none of its causes stops a GPU, and failures.rate = "
            '"mtbf" scales only such causes; set failures.rate = "model"'
        )
    if any(cause.level == "switch" for cause in (*striking, *harmless)):
        _check_switches(scenario, f'failures.mix = "{table.mix or "llama3"}"')
    if table.rate == "mtbf":
        return mix.at_mtbf(stated_mtbf_s(scenario))
    if not 1e-3 <= mix.mtbf_s <= 1e15:
        raise UserError(
            f"failures.mix = {table.mix!r}: a failure every {mix.mtbf_s:.1g} s on {layout.gpus:,} "
            'GPUs; check its rates, or set failures.rate = "mtbf" and failures.mtbf_s'
        )
    return mix


def _check_switches(scenario: Scenario, place: str) -> None:
    """Refuse failures of switches if neither the platform nor the scenario has their GPUs."""
    if scenario.failures.gpus_per_switch is None and switches_are_unknown(scenario):
        raise UserError(
            f"{place}: has failures of switches, and the switches of {scenario.platform.file} are "
            "unknown; set failures.gpus_per_switch to the GPUs that a leaf switch cuts off (0: "
            "none), or describe the cluster in a spec for faultline platform generate"
        )


def reactions_of(scenario: Scenario) -> Reactions:
    """Return the reactions to failures that stop nothing."""
    kinds, layout = scenario.failures.kinds, job_layout(scenario)
    return Reactions(
        kinds.slow_found_s if kinds.slow == "evict" else inf,
        kinds.retry_s,
        kinds.hang,
        kinds.hang_timeout_s,
        kinds.planned,
        migrate_s=kinds.migrate_s,
        spared=frozenset(level for level in LEVELS if not layout.gpus_per_component(level)),
        validation_share=kinds.validation_share,
    )


def _trace(scenario: Scenario, layout: JobLayout) -> Trace:
    from faultline.experiments.config.trace_file import parse_timestamp

    table = scenario.failures
    if table.trace is None:
        raise UserError('failures.model = "trace": needs failures.trace, the path of a CSV file')
    if table.gpus_per_switch == 0:
        raise UserError(
            "failures.gpus_per_switch = 0: leave the key out, so that the cables of the platform "
            "XML determine detours, or state the GPUs that a switch stopped"
        )
    path = Path(table.trace)
    try:
        start = None if table.trace_start is None else parse_timestamp(table.trace_start)
    except ValueError as error:
        raise UserError(f"failures.trace_start: {error}") from error
    recorded = _recorded(path, layout, start)
    last_s = float((recorded.time_s + recorded.lasts_s).max())
    span_s = table.trace_span_s or last_s
    if span_s < max(_SHORTEST_TRACE_S, last_s):
        raise UserError(
            f"failures.trace_span_s: the last failure of {path} is at {last_s:g} s; set a longer "
            "span"
        )
    if (recorded.level == LEVELS.index("switch")).any():
        _check_switches(scenario, f"{path}")
    if not layout.gpus_per_switch:
        recorded = _with_detours(path, recorded, scenario)
    _check_parts(path, recorded)
    if (recorded.level == LEVELS.index("cable")).any():
        _check_cables(path, recorded, platform_file(scenario))
    if not (recorded.kind >= len(STOPPING)).any():
        return Trace(recorded, layout.groups, span_s, table.after_end)
    reactions = reactions_of(scenario)
    stops = RecordedFailures.of(one for each in recorded if (one := reactions.stop(each)))
    others = tuple(one for each in recorded if (one := reactions.condition(each)))
    return Trace(stops.in_order_of_time(), layout.groups, span_s, table.after_end, others)


def _with_detours(path: Path, recorded: RecordedFailures, scenario: Scenario) -> RecordedFailures:
    """Turn stops of switches into partial failures: each switch has a detour until its repair."""
    switches = recorded.level == LEVELS.index("switch")
    if not switches.any():
        return recorded
    around, _ = switches_with_detours(platform_file(scenario))
    highest = int(recorded.number[switches].max())
    if highest >= len(around):
        raise UserError(
            f"{path}: component switch-{highest}: {scenario.platform.file} has switch-0 to "
            f"switch-{len(around) - 1}, each with a detour"
        )
    stopped = switches & (recorded.kind < len(STOPPING))
    repair_s = np.where(np.isnan(recorded.repair_s), scenario.rejoin.repair_s, recorded.repair_s)
    return replace(
        recorded,
        kind=np.where(stopped, KINDS.index("partial"), recorded.kind).astype(recorded.kind.dtype),
        lasts_s=np.where(stopped, repair_s, recorded.lasts_s),
        repair_s=np.where(stopped, np.nan, recorded.repair_s),
    )


def _check_parts(path: Path, recorded: RecordedFailures) -> None:
    """Refuse kinds of failure that a component cannot have."""
    kinds = recorded.level.astype(np.int16) * len(KINDS) + recorded.kind
    for code in np.unique(kinds * 2 + (recorded.factor > 1.0)).tolist():
        (level, kind), has_factor = divmod(code // 2, len(KINDS)), code % 2 == 1
        wrong = kind_error(LEVELS[level], KINDS[kind], has_factor)
        if wrong is not None:
            raise UserError(f"{path}: {LEVELS[level]}: {wrong}")


def _check_cables(path: Path, recorded: RecordedFailures, platform: Path) -> None:
    """Refuse cables that a platform lacks, or that are down and the only route of some GPUs."""
    cables = tuple(cables_with_detours(platform).items())
    for failure in (one for one in recorded if one.level == "cable"):
        where = f"{path}: {failure.component}"
        if failure.number >= len(cables):
            there_are = f"cable-0 to cable-{len(cables) - 1}" if cables else "none"
            raise UserError(f"{where}: {platform} has {there_are} of cables between switches")
        name, has_way = cables[failure.number]
        if failure.kind == "partial" and failure.factor == 1.0 and not has_way:
            raise UserError(
                f"{where} ({name}) is the only route of some GPUs: write a row of a stopping kind "
                "for each switch, host or adapter that is cut off, or state a factor"
            )


@partial(once_per_file, kept=2)
def _recorded(path: Path, layout: JobLayout, start: datetime | None) -> RecordedFailures:
    from faultline.experiments.config.trace_file import read_trace

    return read_trace(path, layout, start)
