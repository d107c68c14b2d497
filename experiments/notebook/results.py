"""Results of the functions of ``import faultline``, with their display in notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faultline.experiments.analysis.printing import summary_rows, summary_title

if TYPE_CHECKING:
    import pandas as pd
    from faultline.experiments.analysis.comparison import Report
    from faultline.experiments.planner.advice import Advice
    from faultline.experiments.planner.plan import Plan as Planned
    from faultline.simulator.timeline import Event
    from matplotlib.figure import Figure
    from rich.table import Table


class Record(dict[str, Any]):
    """The record of one run: the columns of ``faultline run --json`` by name.

    Times are in seconds; the reference of the columns is `faultline.experiments.runs.record`.
    """

    @property
    def goodput(self) -> float:
        """Share of the time that went into kept steps (ETTR), from 0 to 1."""
        return float(self["goodput"])

    @property
    def mfu(self) -> float | None:
        """Model FLOP utilization of an undisturbed step; None without a model."""
        mfu = self["mfu"]
        return None if mfu is None else float(mfu)

    @property
    def time_s(self) -> float:
        """Simulated time of the whole job, in seconds."""
        return float(self["time_s"])

    @property
    def gpu_hours(self) -> float:
        """GPU-hours of the whole job."""
        return float(self["gpu_hours"])

    @property
    def time_to_train_ratio(self) -> float:
        """Time over that of undisturbed steps, without redundancy, failures and checkpoints."""
        return float(self["time_to_train_ratio"])

    def __repr__(self) -> str:
        shown = (f"{name} {value}".rstrip() for name, value in summary_rows(self))
        return "\n".join((summary_title(self), *shown))

    def _repr_html_(self) -> str:
        return titled(summary_title(self), rows_html(summary_rows(self)))


@dataclass(frozen=True)
class Comparison:
    """Paired differences between the values of one axis of a sweep.

    Attributes
    ----------
    report : Report
        The report that ``faultline compare`` prints.
    """

    report: Report = field(repr=False)

    @property
    def sections(self) -> dict[str, pd.DataFrame]:
        """``at_best``, ``overall`` and ``settings``, without empty ones."""
        return self.report.sections

    @property
    def table(self) -> pd.DataFrame:
        """The first section: ``at_best`` if there are knobs to choose."""
        return next(iter(self.sections.values()))

    @property
    def notes(self) -> list[str]:
        """Notes on runs that failed, gave up or have no partner."""
        return self.report.notes

    def __repr__(self) -> str:
        return "\n".join((self.report.headline, _text(self._tables()), *self.notes))

    def _repr_html_(self) -> str:
        tables = "".join(map(_table_html, self._tables()))
        return titled(self.report.headline, tables, self.notes)

    def _tables(self) -> list[Table]:
        from faultline.experiments.report.paired_tables import section_table
        from faultline.experiments.report.tables import on_screen

        return [on_screen(section_table(self.report, name)) for name in self.sections]


@dataclass(frozen=True)
class Plan:
    """A recommended scheme with its redundancy and interval, and the confidence in it.

    Attributes
    ----------
    planned : faultline.experiments.planner.plan.Plan
        All choices with their results.
    advice : Advice
        The recommendation.
    price_per_gpu_hour : float or None
        Price in any currency.
    """

    planned: Planned = field(repr=False)
    advice: Advice = field(repr=False)
    price_per_gpu_hour: float | None = None

    @property
    def sentence(self) -> str:
        """The advice in words, or the reason why there is none."""
        return self.advice.sentence

    @property
    def scheme(self) -> str | None:
        """The recommended scheme; None if there is none."""
        return None if self.advice.taken is None else self.advice.taken.choice.scheme

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row per choice: scheme, protection, redundancy, intervals, days, GPU-hours, goodput."""
        import pandas as pd
        from faultline.experiments.planner.advice import plan_data

        frame = pd.json_normalize(plan_data(self.planned, self.advice)["choices"])
        return frame.rename(columns=lambda name: name.removeprefix("simulated."))

    def __repr__(self) -> str:
        return "\n".join((*self._job(), _text([self._choices()]), self.sentence))

    def _repr_html_(self) -> str:
        title, *job = self._job()
        sentence = f"<p><strong>{escape(self.sentence)}</strong></p>"
        return titled(title, sentence + _table_html(self._choices()), job)

    def _job(self) -> list[str]:
        from faultline.experiments.planner.printing import job_texts

        return job_texts(self.planned)

    def _choices(self) -> Table:
        from faultline.experiments.planner.printing import choices_table

        return choices_table(self.planned, self.price_per_gpu_hour)


@dataclass(frozen=True)
class Timeline:
    """The timeline of one run.

    Attributes
    ----------
    record : Record
        Record of the run.
    events : tuple of Event
        Log of the run.
    """

    record: Record = field(repr=False)
    events: Sequence[Event] = field(repr=False)

    @cached_property
    def activities(self) -> pd.DataFrame:
        """A row per activity: ``start_s``, ``end_s``, ``activity``, completed ``steps``."""
        from faultline.experiments.analysis.course import activities_of

        return activities_of(self.events)

    def figure(self, window_s: tuple[float, float] | None = None) -> Figure:
        """Draw the timeline; `window_s` is the enlarged part, in simulated seconds."""
        from faultline.experiments.figures.timeline import draw_timeline

        return draw_timeline(self.events, summary_title(self.record), window_s)

    def save(self, path: str | Path) -> Path:
        """Write the timeline: a trace for Perfetto (.json), or a table (.csv, .parquet)."""
        from faultline.experiments.analysis.course import write_timeline

        write_timeline(self.events, Path(path), self.record)
        return Path(path)

    def _repr_html_(self) -> str:
        return figure_html(self.figure())


def figure_html(figure: Figure) -> str:
    """Return a figure as an SVG element for an HTML page."""
    from faultline.experiments.figures.style import figure_style
    from matplotlib import pyplot as plt

    text = StringIO()
    with figure_style():
        figure.savefig(text, format="svg")
    plt.close(figure)
    return text.getvalue().partition("<svg")[1] + text.getvalue().partition("<svg")[2]


def _text(tables: Iterable[Table]) -> str:
    from rich.console import Console

    console = Console(file=StringIO(), width=200)
    for table in tables:
        console.print(table)
    printed = console.file
    assert isinstance(printed, StringIO)
    return printed.getvalue().rstrip()


def titled(title: str, content: str, notes: Iterable[str] = ()) -> str:
    """Return HTML with a title, its content, and notes below."""
    below = "".join(f"<p><small>{escape(note)}</small></p>" for note in notes)
    return f"<div><p><strong>{escape(title)}</strong></p>{content}{below}</div>"


def rows_html(rows: Iterable[tuple[str, str]]) -> str:
    """Return names and values as an HTML table."""
    body = "".join(
        f'<tr><th scope="row" style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:right">{escape(value)}</td></tr>'
        for name, value in rows
    )
    return f"<table>{body}</table>"


def _table_html(table: Table) -> str:
    looks = [f'style="text-align:{column.justify}"' for column in table.columns]
    head = "".join(
        f'<th scope="col" {look}>{escape(str(column.header))}</th>'
        for look, column in zip(looks, table.columns, strict=True)
    )
    cells = zip(*(column.cells for column in table.columns), strict=True)
    body = "".join(
        "<tr>"
        + "".join(
            f"<td {look}>{escape(str(cell))}</td>" for look, cell in zip(looks, row, strict=True)
        )
        + "</tr>"
        for row in cells
    )
    title = f"<caption>{escape(str(table.title))}</caption>" if table.title else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
