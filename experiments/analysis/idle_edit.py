"""Why an edited platform changes no phase of a job."""

from __future__ import annotations

from collections.abc import Iterator

from faultline.experiments.config.scenario import Scenario
from faultline.experiments.job.platform_files import explaining_aborts, platform_file
from faultline.experiments.job.step_times import is_simulated, simulated_traffic
from faultline.platforms.platform_data import Platform
from faultline.platforms.spec_differences import Difference
from faultline.platforms.units import BANDWIDTH, format_quantity

_PHASES = {
    "tensor": "messages of tensor parallelism",
    "context": "messages of context parallelism",
    "forward": "activations between stages",
    "backward": "gradients between stages",
    "gradient": "gradients and weights between groups",
}


def why_idle_edit(
    scenario: Scenario, before: Platform, after: Platform, differences: tuple[Difference, ...]
) -> Iterator[str]:
    """Yield a sentence for each phase of a job, and each kind of edit, on the edited platform.

    `scenario` names the edited platform. A phase is limited by the link that is busy longest; an
    edited link counts once it is busier than that.
    """
    from faultline.simulator.timing.link_use import link_use

    edited = {
        name: link
        for name, link in after.links.items()
        if name in before.links and link != before.links[name]
    }
    if edited:
        path = platform_file(scenario)
        traffic = simulated_traffic(scenario, path)
        with explaining_aborts(path):
            uses = link_use(path, traffic, edited)
        for phase, use in uses.items():
            limits = f"{_PHASES.get(phase, phase)}: {use.limiting} limits it"
            shares = {
                name: share
                for name, share in use.shares.items()
                if edited[name].bandwidth_bytes_per_s != before.links[name].bandwidth_bytes_per_s
            }
            if not use.shares:
                yield f"{limits}. No edited link carries its messages."
            elif not shares:
                yield f"{limits}. The longest route has the same latency as before."
            else:
                busiest = max(shares, key=shares.__getitem__)
                limit = edited[busiest].bandwidth_bytes_per_s * shares[busiest]
                least = format_quantity(float(f"{limit:.4g}"), BANDWIDTH)
                yield (
                    f"{limits}. {busiest} is busy {shares[busiest]:.1%} as long: it would limit "
                    f"the phase below {least}."
                )
        if not uses:
            yield "All times of this job are stated, so that no link has an effect."
    effects = {difference.effect for difference in differences}
    if "compute" in effects:
        if is_simulated(scenario):
            yield "computing: the step waits for its slowest GPU, which is as fast as before."
        else:
            yield "computing: times.compute_s is the same on any GPU; a [model] depends on GPUs."
    if "none" in effects:
        yield "Some edited parts have no effect on any job; faultline platform check names them."
    if "memory" in effects:
        kept = scenario.protection.name
        yield f'host memory: protection.name = "{kept}" sends nothing over these links.'
