"""Where did the time go: a stacked bar for each scheme, and its numbers."""

from __future__ import annotations

from dataclasses import dataclass

from faultline.experiments.figures.badput import draw_badput
from faultline.experiments.report.badput_table import badput_table
from faultline.experiments.report.figures import Picture, embed
from faultline.experiments.report.standings import Standings
from faultline.experiments.report.tables import Table

BADPUT = "badput"
"""What the figure is called, here and among the usual figures of a sweep."""

_MOST_BARS = 24


@dataclass(frozen=True, slots=True)
class BadputSection:
    """The section: a sentence, a picture, a table."""

    note: str
    picture: Picture
    table: Table


def badput_section(order: Standings) -> BadputSection:
    """Draw and tabulate where the time of the compared choices went."""
    note = (
        "Useful time is what a job without failures, copies and checkpoints takes. Everything "
        "else is lost to one of these causes; the shares of a row add up to 100 %."
    )
    runs = order.runs_of_best()
    runs = runs.assign(**{"strategy.name": runs["strategy"]})
    choice = ["strategy.name", *order.knobs]
    if len(order.best()) <= _MOST_BARS:
        by = [*order.conditions, *choice]
    else:
        by = ["strategy.name"]
        note += " Bars are means over all rows of the table below."
    title = "Where the time went, as shares of the simulated time"
    picture = embed(BADPUT, title, draw_badput(runs, by))
    return BadputSection(note, picture, badput_table(order))
