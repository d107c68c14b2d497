"""How far closed forms are from the best that simulation finds, scheme by scheme."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from faultline.experiments.config.errors import UserError
from faultline.experiments.job.choices import Choice, at_interval
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.planner.choices import choices_of
from faultline.experiments.planner.optimiser import Optimum, optimise
from faultline.experiments.planner.plan import Plan
from faultline.experiments.planner.racing import Objective, Point, RaceRules
from faultline.experiments.planner.simulation import play, shortened, steps_needed
from faultline.experiments.planner.situation import Situation
from faultline.experiments.runs import point as runs


@dataclass(frozen=True, slots=True)
class Optimised:
    """What the search found for one scheme, with the steps of the simulated job."""

    scheme: str
    protection: str
    optimum: Optimum
    steps: int


def check_searchable(situation: Situation) -> None:
    """Refuse a scenario without a fixed checkpoint interval.

    Raises
    ------
    UserError
        Says what to set.
    """
    if situation.scenario.checkpoint.policy != "fixed":
        raise UserError(
            "--optimise: checkpoint.policy = dynamic has no interval to search; "
            "set checkpoint.policy=fixed"
        )


def optimise_schemes(
    plan: Plan,
    steps: int | None = None,
    rules: RaceRules | None = None,
    on_done: Callable[[], None] | None = None,
) -> list[Optimised]:
    """Search each planned scheme's best redundancy and interval by simulation.

    Over the protection that has served it best so far.

    Parameters
    ----------
    plan : Plan
        Searches begin at its choices.
    steps : int, optional
        Steps of the simulated job; by default enough for about 20 restarts at the choice.
    rules : RaceRules, optional
        How long comparisons go on.
    on_done : callable, optional
        Called after each run.
    """
    found = []
    for line in plan.bests_of_schemes():
        choices = choices_of(plan.situation, line.choice.scheme, line.choice.protection)
        taken = steps or steps_needed(choices[:1])
        objective = simulated_objective(line.choice.question, taken, on_done)
        intervals = {choice.redundancy: choice.interval_steps for choice in choices}
        found.append(
            Optimised(
                line.choice.scheme,
                line.choice.protection,
                optimise(objective, point_of(line.choice), intervals, rules),
                taken,
            )
        )
    return found


def point_of(choice: Choice) -> Point:
    """Return the redundancy and interval of a choice."""
    return Point(choice.redundancy, choice.interval_steps)


def simulated_objective(
    question: ResolvedJob, steps: int, on_done: Callable[[], None] | None = None
) -> Objective:
    """Return the time-to-train ratio of simulated jobs as a function of point and seed."""
    short = shortened(question, steps)

    def ratios(pairs: Sequence[tuple[Point, int]]) -> list[float]:
        tasks = [
            runs.Point.of(
                at_interval(replace(short, redundancy=point.redundancy), point.interval_steps),
                seed,
            )
            for point, seed in pairs
        ]
        return [float(record["time_to_train_ratio"]) for record in play(tasks, on_done)]

    return ratios
