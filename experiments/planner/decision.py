"""The plan on one sheet of A4: what to take, what it costs, and what that hangs on."""

from __future__ import annotations

from importlib.metadata import version
from importlib.resources import files

from faultline.experiments.config.model_numbers import model_flop_utilisation
from faultline.experiments.planner.advice import Advice
from faultline.experiments.planner.plan import Plan
from faultline.experiments.planner.printing import choices_table, job_texts, left_out_texts
from jinja2 import Environment, StrictUndefined

_NOT_SHOWN = ("predicted", "error")
"""What checks the closed forms, and is no part of the decision."""

_MOST_ROWS = 10
"""More would not leave the sheet room for what they mean."""

_MOST_ASSUMPTIONS = 5
_MOST_LEFT_OUT = 4


def decision_page(
    plan: Plan, advice: Advice, command: str, price_per_gpu_hour: float | None = None
) -> str:
    """Return the sheet as HTML, which asks no network for anything.

    Parameters
    ----------
    plan, advice
        What was planned, and what follows.
    command : str
        The words by which the plan is made again.
    price_per_gpu_hour : float, optional
        In any currency.
    """
    table = choices_table(plan, price_per_gpu_hour)
    columns = [column for column in table.columns if column.header not in _NOT_SHOWN]
    rows = list(zip(*(column.cells for column in columns), strict=True))
    title, job, *assumptions = job_texts(plan)
    situation = plan.situation
    mfu = model_flop_utilisation(situation.scenario, situation.ideal_step_s)
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = files("faultline.experiments.planner").joinpath("decision.html")
    return environment.from_string(template.read_text(encoding="utf-8")).render(
        title=title,
        job=job,
        mfu=None if mfu is None else f"{mfu:.1%}",
        ideal_days=f"{situation.days(1.0):,.1f}",
        sentence=advice.sentence,
        headings=[str(column.header) for column in columns],
        left=[column.justify == "left" for column in columns],
        rows=[tuple(map(str, row)) for row in rows[:_MOST_ROWS]],
        more=max(0, len(rows) - _MOST_ROWS),
        taken=next((place for place, line in enumerate(plan.lines) if line is advice.taken), None),
        assumptions=[text.removeprefix("- ") for text in assumptions[:_MOST_ASSUMPTIONS]],
        left_out=[
            text.removeprefix("left out: ") for text in left_out_texts(plan)[:_MOST_LEFT_OUT]
        ],
        seeds=len(plan.seeds),
        price=price_per_gpu_hour,
        command=command,
        version=version("faultline"),
    )
