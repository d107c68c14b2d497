"""Disturbances: a scenario's failures that stop nothing, and their effects on its steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from heapq import merge
from operator import attrgetter
from pathlib import Path

from faultline.experiments.config.cluster import platform_at
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.job.failure_model import job_layout, network_outages, reactions_of
from faultline.experiments.job.job_shape import job_shape
from faultline.experiments.job.platform_files import (
    cables_with_detours,
    platform_file,
    reduces_on_network,
    switches_with_detours,
)
from faultline.simulator.failures.failure import TO_THE_NETWORK, Failure
from faultline.simulator.failures.models import FailureModel, FailureSequence
from faultline.simulator.failures.reactions import SlowResponse
from faultline.simulator.job.conditions import Disturbances
from faultline.simulator.job.durations import Durations, StepTimes
from faultline.simulator.job.effects import Effects, is_down
from faultline.strategies.plugins.registry import strategy_class
from faultline.strategies.theory.stragglers import Remedy, RemedyName, StragglerPolicy

_REDEAL_S = 0.1
"""Stall of all groups while micro-batches are redistributed. The solver of Greyhound (ATC 2025)
takes 0.01 s for 64 replicas, 0.1 s for 128, 6.8 s for 256."""
_SWAP_S = 60.0
"""Stall of all groups while nodes are swapped: less than 60 s. It depends on the memory of a GPU,
not on the number of nodes (Greyhound)."""
_REMEDIES: Mapping[str, tuple[RemedyName, ...]] = {
    "redeal": ("redeal",),
    "swap": ("redeal", "swap"),
    "restart": ("restart",),
    "ski-rental": ("redeal", "swap", "restart"),
}
"""The mitigation of a straggler, by `failures.kinds.slow`."""


def disturbances(
    scenario: Scenario,
    failures: FailureModel,
    durations: Durations,
    times: StepTimes | None,
    seed: int,
) -> Disturbances:
    """Return the failures of a job that stop nothing, and what it does about them.

    `times` are those of steps whose messages are simulated.
    """
    on_network = reduces_on_network(scenario)
    simulates_steps = times is not None and times.step is not None
    sources: list[Callable[[], Iterator[Failure]]] = []
    causes: tuple[str, ...] = ()
    if isinstance(failures, FailureSequence) and failures.disturbance_causes:
        causes = failures.disturbance_causes
        sources.append(partial(failures.disturbances, seed))
        if not (simulates_steps or on_network):
            sources[0] = partial(_carried_by_others, sources[0], job_layout(scenario).gpus_per_host)
    outages = network_outages(scenario, failures, seed) if on_network else None
    if outages is not None:
        sources.append(outages)
    reactions = reactions_of(scenario)
    response = _slow_response(scenario, durations, simulates_steps=simulates_steps)
    if not sources:
        return Disturbances(reactions=reactions, slow_response=response)
    effects = Effects(
        durations.all_reduce_s,
        job_layout(scenario),
        scenario.model.pipeline,
        times if simulates_steps or on_network else None,
        partial(_parts_of, platform_file(scenario)),
    )
    begin = partial(_in_order, tuple(sources))
    return Disturbances(begin, effects, causes, reactions, response)


def _slow_response(
    scenario: Scenario, durations: Durations, *, simulates_steps: bool
) -> SlowResponse | None:
    """Return the mitigation of stragglers; None if they are ignored or evicted.

    A restart costs the time of saving, restarting and loading. Only a simulated step has extra time
    for filling its pipelines.
    """
    kinds, table = scenario.failures.kinds, scenario.model
    if kinds.slow not in _REMEDIES:
        return None
    restart = strategy_class(scenario.strategy.name).restart_recovery()
    restart_s = durations.save_s + durations.restart_s(restart) + durations.load_s
    costs_s = {"redeal": _REDEAL_S, "swap": _SWAP_S, "restart": restart_s}
    remedies = tuple(Remedy(name, costs_s[name]) for name in _REMEDIES[kinds.slow])
    policy = StragglerPolicy(remedies, kinds.slow_found_s, kinds.slow == "ski-rental")
    fill = job_shape(scenario).idle_slots if simulates_steps else 0.0
    all_reduce_s = durations.all_reduce_s(scenario.job.groups)
    return SlowResponse(policy, table.micro_batches, fill, all_reduce_s)


def _carried_by_others(
    begin: Callable[[], Iterator[Failure]], gpus_per_host: int
) -> Iterator[Failure]:
    """Yield failures; a server's other adapters take over the traffic of a failed one.

    This is for stated times only: SimGrid reroutes simulated messages itself.
    """
    for failure in begin():
        lost = is_down(failure) and failure.level in TO_THE_NETWORK and gpus_per_host > 1
        left = gpus_per_host / (gpus_per_host - 1) if lost else failure.factor
        yield failure._replace(factor=left)


def _in_order(sources: tuple[Callable[[], Iterator[Failure]], ...]) -> Iterator[Failure]:
    return merge(*(begin() for begin in sources), key=attrgetter("time_s"))


def _parts_of(platform: Path, failure: Failure) -> tuple[str, ...]:
    """Return the links of a network component, or the parts that are lost with it."""
    from faultline.platforms.outages import links_of_component

    if failure.level in TO_THE_NETWORK or not is_down(failure):
        return links_of_component(platform_at(platform), failure.level, failure.number)
    if failure.level == "switch":
        switches = switches_with_detours(platform)[0]
        return (switches[failure.number % len(switches)],) if switches else ()
    cables = tuple(cables_with_detours(platform).items())
    cable, has_way = cables[failure.number % len(cables)] if cables else ("", False)
    return (cable,) if has_way else ()
