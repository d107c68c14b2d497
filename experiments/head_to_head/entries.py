"""Contestants prepared for a cell: redundancy, intervals, and the job to be played."""

from __future__ import annotations

from dataclasses import dataclass, replace

from experiments.errors import UserError
from experiments.head_to_head.closed_forms import closed_form_ratio
from experiments.head_to_head.contestants import Contestant, why_absent
from experiments.head_to_head.failures import Process
from experiments.head_to_head.setting import Cell, Ground
from experiments.keeping_state.intervals import with_intervals
from experiments.keeping_state.protect import protect
from experiments.keeping_state.protected import Protected
from experiments.resolve import rules_of
from experiments.scenario import Scenario
from simulator.job import Durations, Job, Work
from strategies.base import Strategy, StrategyOptions
from strategies.checkpoint_period import Costs
from strategies.checkpoint_policies import EverySteps, Never
from strategies.errors import StrategyError
from strategies.registry import strategy_class

_NO_LIMIT_OF_RESTARTS = 10**9


@dataclass(frozen=True, slots=True)
class Entry:
    """A contestant, prepared for a cell.

    Attributes
    ----------
    contestant : Contestant
        Who.
    redundancy, interval_steps : int
        By closed forms; the interval is that of checkpoints on storage.
    protected : Protected
        How the state is kept.
    scenario : Scenario
        The cell's.
    durations : Durations
        Times of the cell's phases, for this contestant.
    predicted : float
        The scheme's plain closed form of the time to train, by which the fastest are tried first.
    closed_form : float
        The full closed form; NaN where there is none, or it does not hold.
    """

    contestant: Contestant
    redundancy: int
    interval_steps: int
    protected: Protected
    scenario: Scenario
    durations: Durations
    predicted: float
    closed_form: float

    def strategy_options(self) -> StrategyOptions:
        """Return the scheme's options."""
        return strategy_class(self.contestant.scheme).Options(**self.contestant.options)

    @property
    def replaces_s(self) -> float | None:
        """Seconds until a spare is in the place of a group that was dropped.

        It is started as in a restart. None for schemes that have no spares, and pay for none.
        """
        scheme = strategy_class(self.contestant.scheme)
        return self.durations.restart_s if scheme.restart_replaces else None

    def strategy(self) -> Strategy:
        """Return the scheme at its start."""
        scheme = strategy_class(self.contestant.scheme)
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
            table.compute_s * (1.0 + self.contestant.price),
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


def enter(contestant: Contestant, cell: Cell, ground: Ground) -> Entry | str:
    """Prepare a contestant for a cell, or say why it cannot take part."""
    if cell.stall_s is not None:
        contestant = contestant.with_stall(cell.stall_s)
    if cell.layers is not None:
        contestant = contestant.with_layers(cell.layers)
    scenario = ground.in_cell(cell, contestant.protection)
    durations = ground.durations_in(cell, contestant.states_stall_of_failures)
    scheme = strategy_class(contestant.scheme)
    options = scheme.Options(**contestant.options)
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
        redundancy = contestant.redundancy or scheme.best_redundancy(cell.groups, options, met)
    except (StrategyError, UserError) as error:
        return str(error)
    reason = why_absent(contestant, cell.groups, redundancy)
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
        contestant, redundancy, interval, protected, scenario, durations, predicted, closed_form
    )
