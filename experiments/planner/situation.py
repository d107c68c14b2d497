"""The job to be planned: a scenario, resized to other numbers of GPUs and groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from faultline.experiments.analysis.quantities import number_text, time_text
from faultline.experiments.config.keys import value_at
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import ScenarioSource, read_source
from faultline.experiments.job.choices import Choice, choices_at
from faultline.experiments.job.durations import durations_of, recovery_prices
from faultline.experiments.job.failure_model import failure_model
from faultline.experiments.job.hardware import (
    breakage_of,
    gpus_per_machine,
    machines_text,
    paid_gpus,
    standbys_of,
)
from faultline.experiments.job.platform_files import gpus_on_platform, platform_size_text
from faultline.experiments.job.protected import Protected
from faultline.experiments.job.resolved_job import restart_with_repairs_s, undisturbed_step_s
from faultline.experiments.job.resolving import open_job
from faultline.experiments.job.step_times import jitter_of_passes
from faultline.experiments.job.workload import Workload, workload_of
from faultline.experiments.planner.resizing import Size, resize
from faultline.simulator.failures.mix import CauseMix
from faultline.simulator.job.durations import Durations
from faultline.simulator.job.job import Rejoin
from faultline.strategies.interface.recovery import SHRINK
from faultline.strategies.plugins.registry import strategy_class

DAY_S = 86_400.0
_FEW_DAYS = 4.0


@dataclass(frozen=True, slots=True)
class Situation:
    """A job whose scheme is still open."""

    scenario: Scenario  # Everything but the scheme.
    durations: Durations  # Times of the job's phases.
    workload: Workload  # The work of a group in an undisturbed step.
    assumptions: tuple[str, ...]  # A sentence each.
    fleet: str = (
        ""  # The machines that are split into groups and standbys, if their number is open.
    )

    @property
    def gpus(self) -> int:
        """GPUs that are paid for, including spare groups and standbys."""
        return paid_gpus(self.scenario)

    @property
    def machines(self) -> str:
        """The source of replacement machines, and how many are under repair on average."""
        return machines_text(self.scenario, failure_model(self.scenario))

    @property
    def mtbf_s(self) -> float:
        """Mean time between failures of the whole job, in seconds."""
        return float(failure_model(self.scenario).mtbf_s)

    @property
    def restart_s(self) -> float:
        """Time of a restart with loading and, if it waits for one, the mean repair, in seconds."""
        durations = self.durations
        failures = failure_model(self.scenario)
        return restart_with_repairs_s(self.scenario, durations, failures) + durations.load_s

    @property
    def repair_s(self) -> float:
        """Mean time to repair a failed machine, in seconds."""
        return breakage_of(self.scenario, failure_model(self.scenario)).mean_repair_s

    @property
    def ideal_step_s(self) -> float:
        """Time of a step without redundancy, failures and checkpoints, in seconds."""
        jitter, compute_s = jitter_of_passes(self.scenario), self.workload.compute_s
        return undisturbed_step_s(self.scenario.job, compute_s, self.durations, jitter)

    @property
    def ideal_s(self) -> float:
        """Time of the whole job at that pace, in seconds."""
        return self.scenario.job.steps * self.ideal_step_s

    @property
    def unit(self) -> str:
        """The unit for times of the whole job: days, or hours for a short job."""
        return "hours" if self.ideal_s < _FEW_DAYS * DAY_S else "days"

    def span(self, seconds: float) -> str:
        """Return a time of the whole job in its unit, without it."""
        return number_text(seconds / (3600.0 if self.unit == "hours" else DAY_S), 3)

    def gpu_hours(self, seconds: float) -> float:
        """Return the GPU-hours of a time, for all GPUs that are paid for."""
        return seconds / 3600.0 * self.gpus

    def scenario_of(
        self, scheme: str, protection: str, rejoin_when: Rejoin | None = None
    ) -> Scenario:
        """Return the scenario of one scheme over one protection.

        A redundancy that the scenario states applies to the scheme that it names. `rejoin_when` is
        the moment at which dropped groups return, if not the scheme's own.
        """
        changes: dict[str, object] = {
            "strategy.name": scheme,
            "strategy.redundancy": self.stated_redundancy(scheme),
            "protection.name": protection,
        }
        if rejoin_when is not None:
            changes["rejoin.when"] = rejoin_when
        return self.scenario.change(changes)

    def moments_of_return(self, scheme: str) -> tuple[Rejoin | None, ...]:
        """Return when a scheme's dropped groups may return: first as in its source (None).

        Only one moment is possible if the scenario states it, or if the scheme drops no groups.
        """
        made = strategy_class(scheme)
        drops = SHRINK.kind in made.recoveries and not made.tracks_components
        if "when" in self.scenario.rejoin.model_fields_set or not drops:
            return (None,)
        return None, "at-restart" if made.readmits else "at-checkpoint"

    def stated_redundancy(self, scheme: str) -> int | None:
        """Return the redundancy that the scenario states for a scheme; None if it is open."""
        table = self.scenario.strategy
        return table.redundancy if table.name == scheme else None


def choices_of(
    situation: Situation,
    scheme: str,
    protection: str,
    rejoin_when: Rejoin | None = None,
    alike: Protected | None = None,
) -> list[Choice]:
    """Return a choice for each redundancy of a scheme over a protection, the best first.

    A redundancy or interval that the scenario states is used. Dropped groups return at
    `rejoin_when`, by default as in the source of the scheme. `alike` is the same protection under
    another scheme. A scheme that cannot be built for this job, or a protection that does not fit
    it, raises an error.
    """
    scenario = situation.scenario_of(scheme, protection, rejoin_when)
    opened = open_job(scenario, situation.durations, workload=situation.workload, alike=alike)
    choices = choices_at(*opened)
    choices[0].resolved.strategy()
    return choices


def choices_like(situation: Situation, like: Choice) -> list[Choice]:
    """Return `choices_of` the scheme, protection and moment of return of another choice."""
    moments = situation.moments_of_return(like.scheme)
    moment = like.rejoin_when if len(moments) > 1 else None
    return choices_of(situation, like.scheme, like.protection, moment)


def read_situation(
    name: str,
    settings: Mapping[str, object] | Sequence[str] = (),
    gpus: int | None = None,
    mtbf_s: float | None = None,
    restart_s: float | None = None,
) -> Situation:
    """Read a scenario and resize it; None leaves a value as the scenario states it.

    The mean time between failures, unless stated, scales with 1 / GPUs. A job that trains a named
    model has as many groups as the GPUs make, and is measured at that size. Any other job keeps
    its groups, and all times per GPU stay: the model and the storage bandwidth are assumed to grow
    with the GPUs.

    Parameters
    ----------
    name, settings
        Name of a shipped scenario, or a TOML file; and ``key=value`` settings, or values by key.
    gpus : int, optional
        Size of the job.
    mtbf_s, restart_s : float, optional
        Mean time between failures of the whole job, and time of a restart, in seconds.

    Raises
    ------
    UserError
        If a value is invalid, or there are fewer GPUs than groups.
    """
    source = read_source(name, settings)
    assumptions = resize(source, Size(mtbf_s=mtbf_s, restart_s=restart_s))
    stated = _scenario(source)
    assumptions += resize(source, Size(gpus=gpus))
    scenario = _scenario(source)
    is_resized = scenario.job.all_gpus != stated.job.all_gpus
    if is_resized:
        assumptions.append(_unchanged_in_words(stated))
    if scenario.model.name == "stated":
        # Stated and measured times hold for the scenario's own GPUs.
        workload = workload_of(stated)
        durations = durations_of(stated, workload)
        if is_resized:
            prices = recovery_prices(scenario, durations.save_s)
            durations = replace(durations, recovery=prices)
    else:
        workload = workload_of(scenario)
        durations = durations_of(scenario, workload)
    left_over = (gpus or scenario.job.gpus or 0) - scenario.job.all_gpus
    if left_over > 0:
        assumptions.append(f"{left_over:,} GPUs are left over: they do not fill a group.")
    assumptions += filter(None, [platform_size_text(scenario)])
    assumptions += _rules_in_words(scenario)
    return Situation(scenario, durations, workload, tuple(assumptions))


def _unchanged_in_words(stated: Scenario) -> str:
    """Return what stays of a job at another number of GPUs."""
    if stated.model.name == "stated":
        return (
            "Compute, all-reduce, checkpoint and load take as long as on the "
            f"{stated.job.all_gpus:,} GPUs of the scenario: model and storage bandwidth are "
            "assumed to scale with the GPUs."
        )
    return (
        "Each group trains the scenario's number of micro-batches per step: the batch grows with "
        f"the groups; the number of {'tokens' if stated.job.tokens else 'steps'} stays."
    )


def _scenario(source: ScenarioSource) -> Scenario:
    """Return a scenario whose scheme and protection are open."""
    redundancy = value_at(source.tables, ("strategy", "redundancy"))
    of_scheme = None if redundancy is not None else "--schemes"
    return source.used_scenario({"strategy.name": of_scheme, "protection.name": "--protections"})


def _rate_in_words(scenario: Scenario) -> dict[str, bool]:
    """Return why the failures are fewer than those of the mix."""
    model = failure_model(scenario)
    if not isinstance(model, CauseMix) or scenario.failures.rate != "model" or not model.harmless:
        return {}
    harmless_per_s = scenario.job.all_gpus * sum(one.rate_per_gpu_s for one in model.harmless)
    mix_s = 1.0 / (1.0 / model.mtbf_s + harmless_per_s)
    names = ", ".join(f"{cause.name} ({cause.level})" for cause in model.harmless)
    return {
        f"A failure every {time_text(model.mtbf_s)}; all causes of the mix together come every "
        f"{time_text(mix_s)}. No component of this platform stops a GPU by: {names}.": True
    }


def _machines_in_words(scenario: Scenario) -> dict[str, bool]:
    """Return how many of the platform's machines the job and its standbys use."""
    job, size, standbys = scenario.job, gpus_per_machine(scenario), standbys_of(scenario)
    gpus = max(gpus_on_platform(scenario), job.all_gpus)
    idle, lacking = gpus - job.all_gpus, job.all_gpus + standbys * size - gpus
    return {
        f"The job uses {job.all_gpus:,} of the platform's {gpus:,} GPUs: "
        f"{idle // job.gpus_of_group:,} more groups would fit.": idle >= job.gpus_of_group,
        f"{standbys:,} standbys are {ceil(lacking / size):,} more than the platform has machines "
        "beside the job's.": standbys > 0 and lacking > 0,
    }


def _rules_in_words(scenario: Scenario) -> list[str]:
    rejoin = scenario.rejoin
    is_stated = "when" in rejoin.model_fields_set
    limits = {
        **_rate_in_words(scenario),
        **_machines_in_words(scenario),
        f"{scenario.job.steps:,} steps are the default: state job.tokens or job.steps for the days "
        "of your training.": not {"steps", "tokens"} & scenario.job.model_fields_set,
        "Dropped groups return at a checkpoint after their repair "
        f"({time_text(rejoin.repair_s)} if the failure states none), or at a restart: whichever "
        "is sooner for a scheme (rejoin.when states one rule for all).": not is_stated,
    }
    return [sentence for sentence, is_true in limits.items() if is_true]
