"""Results of the functions of ``import faultline``: texts and figures, in notebooks too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faultline.experiments.analysis.printing import summary_rows, summary_title

if TYPE_CHECKING:
    import pandas as pd
    from faultline.experiments.analysis.comparison import ComparisonReport
    from faultline.experiments.planner.answer import Answer
    from faultline.simulator.accounting.timeline import Event
    from matplotlib.figure import Figure
    from rich.table import Table


class Record(dict[str, Any]):
    """The record of one run: the columns of ``faultline run --json`` by name.

    Times are in seconds; the reference of the columns is `faultline.experiments.runs.record`.
    """

    def __repr__(self) -> str:
        shown = (f"{name} {value}".rstrip() for name, value in summary_rows(self))
        return "\n".join((summary_title(self), *shown))


@dataclass(frozen=True)
class Comparison:
    """Paired differences between the values of one axis of a sweep.

    Attributes
    ----------
    report : ComparisonReport
        The report that ``faultline compare`` prints: its sections are data frames.
    """

    report: ComparisonReport

    @property
    def table(self) -> pd.DataFrame:
        """The first section: ``at_best`` if there are knobs to choose."""
        return next(iter(self.report.sections.values()))

    def __repr__(self) -> str:
        from faultline.experiments.report.paired_tables import headline_of, section_table
        from faultline.experiments.report.tables import on_screen

        tables = [
            on_screen(section_table(self.report, name, brief=True)) for name in self.report.sections
        ]
        return "\n".join((headline_of(self.report), _text(tables), *self.report.notes))


@dataclass(frozen=True)
class Plan:
    """A recommended scheme with its redundancy and interval, and how sure that is.

    Attributes
    ----------
    answer : faultline.experiments.planner.answer.Answer
        All schemes with their times in each world.
    price_per_gpu_hour : float or None
        Price in any currency.
    """

    answer: Answer
    price_per_gpu_hour: float | None = None

    @property
    def sentence(self) -> str:
        """The advice in words, or the reason why there is none."""
        from faultline.experiments.planner.sentences import answer_sentences

        return answer_sentences(self.answer)[0]

    @property
    def scheme(self) -> str | None:
        """The recommended scheme; None if there is none."""
        return self.answer.rows[0].choice.scheme if self.answer.finishes else None

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row per scheme: protection, redundancy, intervals, days, probabilities, GPU-hours."""
        import pandas as pd
        from faultline.experiments.planner.answer_data import answer_data

        return pd.json_normalize(answer_data(self.answer)["schemes"])

    def __repr__(self) -> str:
        from faultline.experiments.planner.printing import print_answer
        from faultline.experiments.planner.sentences import find_swings
        from rich.console import Console

        console = Console(file=StringIO(), width=200)
        with console.capture() as printed:
            print_answer(console, self.answer, find_swings(self.answer), self.price_per_gpu_hour)
        return printed.get().rstrip()


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

    def figure(self) -> Figure:
        """Draw the timeline."""
        from faultline.experiments.figures.timeline import draw_timeline

        return draw_timeline(self.events, summary_title(self.record))

    def save(self, path: str | Path) -> Path:
        """Write the timeline: a trace for Perfetto (.json), or a table (.csv, .parquet)."""
        from faultline.experiments.analysis.course import write_timeline

        write_timeline(self.events, Path(path), self.record)
        return Path(path)

    def _repr_png_(self) -> bytes:
        return png_of(self.figure())


def png_of(figure: Figure) -> bytes:
    """Return a figure as PNG, which notebooks show and keep small, and close it."""
    from faultline.experiments.figures.style import figure_style
    from matplotlib import pyplot as plt

    drawn = BytesIO()
    with figure_style():
        figure.savefig(drawn, format="png", dpi=90)
    plt.close(figure)
    return drawn.getvalue()


def _text(tables: Iterable[Table]) -> str:
    from rich.console import Console

    console = Console(file=StringIO(), width=200)
    with console.capture() as printed:
        for table in tables:
            console.print(table)
    return printed.get().rstrip()
