"""Candidates prepared for a cell: redundancy, intervals, and the job to be played."""

from __future__ import annotations

from dataclasses import dataclass, replace

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.job.choices import with_intervals
from faultline.experiments.job.protected import Protected, protect
from faultline.experiments.job.resolved_job import rules_of
from faultline.experiments.studies.head_to_head.candidates import Candidate, why_absent
from faultline.experiments.studies.head_to_head.closed_forms import closed_form_ratio
from faultline.experiments.studies.head_to_head.failures import Process
from faultline.experiments.studies.head_to_head.setting import Cell, Ground
from faultline.simulator.job import Durations, Job, Work
from faultline.strategies.base import Strategy, StrategyOptions
from faultline.strategies.checkpoint_period import Costs
from faultline.strategies.checkpoint_policies import EverySteps, Never
from faultline.strategies.errors import StrategyError
from faultline.strategies.registry import strategy_class

_NO_LIMIT_OF_RESTARTS = 10**9


@dataclass(frozen=True, slots=True)
class Entry:
    """A candidate, prepared for a cell.

    Attributes
    ----------
    candidate : Candidate
        Who.
    redundancy, interval_steps : int
        By closed forms; the interval is that of checkpoints on storage.
    protected : Protected
        How the state is kept.
    scenario : Scenario
        The cell's.
    durations : Durations
        Times of the cell's phases, for this candidate.
    predicted : float
        The scheme's plain closed form of the time to train, by which the fastest are tried first.
    closed_form : float
        The full closed form; NaN where there is none, or it does not hold.
    """

    candidate: Candidate
    redundancy: int
    interval_steps: int
    protected: Protected
    scenario: Scenario
    durations: Durations
    predicted: float
    closed_form: float

    def strategy_options(self) -> StrategyOptions:
        """Return the scheme's options."""
        return strategy_class(self.candidate.scheme).Options(**self.candidate.options)

    @property
    def replaces_s(self) -> float | None:
        """Seconds until a spare is in the place of a group that was dropped.

        It is started as in a restart. None for schemes that have no spares, and pay for none.
        """
        scheme = strategy_class(self.candidate.scheme)
        return self.durations.restart_s if scheme.restart_replaces else None

    def strategy(self) -> Strategy:
        """Return the scheme at its start."""
        scheme = strategy_class(self.candidate.scheme)
        return scheme(self.scenario.job.groups, self.redundancy, self.strategy_options())

    def job(self, steps: int, process: Process, limit_s: float, seed: int) -> Job:
        """Return the job for one seed."""
        table, due = self.scenario.job, EverySteps(self.interval_steps)
        rules, repair_s = rules_of(self.scenario), self.scenario.rejoin.repair_s
        if self.replaces_s is not None:
            rules, repair_s = replace(rules, rejoin="at-checkpoint"), self.replaces_s
        work = Work(
            table.groups,
            steps,
            table.compute_s * (1.0 + self.candidate.price),
            table.compute_jitter,
            table.minimum_compute_factor,
            Never() if self.protected.in_background else due,
            limit_s,
            _NO_LIMIT_OF_RESTARTS,
            repair_s=repair_s,
            tiers=self.protected.tiers(due),
            layout=process.layout,
        )
        return Job(work, rules, self.durations, process.model, seed)


def enter(candidate: Candidate, cell: Cell, ground: Ground) -> Entry | str:
    """Prepare a candidate for a cell, or say why it cannot take part."""
    if cell.stall_s is not None:
        candidate = candidate.with_stall(cell.stall_s)
    if cell.layers is not None:
        candidate = candidate.with_layers(cell.layers)
    scenario = ground.in_cell(cell, candidate.protection)
    durations = ground.durations_in(cell, candidate.states_stall_of_failures)
    scheme = strategy_class(candidate.scheme)
    options = scheme.Options(**candidate.options)
    costs = Costs(
        mtbf_s=cell.mtbf_s,
        save_s=durations.save_s,
        restart_s=durations.restart_s + durations.load_s,
        compute_s=scenario.job.compute_s,
        all_reduce_s=durations.all_reduce_s(cell.groups),
    )
    try:
        protected = protect(scenario, durations)
        met = protected.costs_of_memory(costs)
        redundancy = candidate.redundancy or scheme.best_redundancy(cell.groups, options, met)
    except (StrategyError, UserError) as error:
        return str(error)
    reason = why_absent(candidate, cell.groups, redundancy)
    if reason is not None:
        return reason
    built = scheme(cell.groups, redundancy, options)
    failures = ground.process(cell).model
    protected, interval = with_intervals(protected, scenario, built, costs, failures)
    predicted = built.normalised_time_to_train(met)
    closed_form = closed_form_ratio(
        built,
        protected,
        interval,
        costs,
        durations,
        scenario.job.compute_jitter,
        ground.steps_in(cell),
    )
    return Entry(
        candidate, redundancy, interval, protected, scenario, durations, predicted, closed_form
    )
