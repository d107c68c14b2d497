"""The page of a sweep: text, tables and figures in one HTML file that needs no network."""

from __future__ import annotations

import shlex
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import pandas as pd
from faultline.experiments.analysis.quantities import is_missing, quantity
from faultline.experiments.analysis.selection import varied_axes
from faultline.experiments.figures.badput import draw_badput
from faultline.experiments.figures.sweep_pictures import usual_figures
from faultline.experiments.report.question import (
    grid_text,
    installed_versions,
    meaning_of,
    notices,
    provenance_table,
    scenario_sections,
    seeds_text,
    value_text,
)
from faultline.experiments.report.result_tables import (
    MOST_POINTS,
    badput_table,
    comparison_table,
    failed_table,
    points,
    points_table,
)
from faultline.experiments.report.standings import Answer, Standings, answer, standings
from faultline.experiments.report.tables import Table, table_of, text
from faultline.experiments.runs.table import Sweep
from faultline.strategies import plugged
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

# Matplotlib draws the identifiers in an SVG at random unless it is given a salt.
_HASH_SALT = "faultline"
_LARGEST_SVG_BYTES = 1_500_000


class Picture(NamedTuple):
    """A figure in the page."""

    name: str  # Short name, for links.
    title: str  # Also the text for screen readers.
    uri: str  # The image itself.
    # Whether it changes with the page where that is dark; others keep a light card.
    knows_dark: bool = False


def embed(name: str, title: str, figure: Figure) -> Picture:
    """Turn a figure into a picture, and close it.

    A figure with tens of thousands of marks becomes a PNG: as an SVG it would weigh more than all
    the rest of the page.
    """
    content, kind = _save(figure, "svg"), "image/svg+xml"
    knows_dark = not any(axes.collections and _is_map(axes) for axes in figure.axes)
    if len(content) > _LARGEST_SVG_BYTES:
        content, kind, knows_dark = _save(figure, "png"), "image/png", False
    elif knows_dark:
        style = f"<style>{_package_file('figure_dark.css')}</style>"
        content = content.replace(b"</defs>", style.encode() + b"</defs>", 1)
    plt.close(figure)
    uri = f"data:{kind};base64,{b64encode(content).decode('ascii')}"
    return Picture(name, title, uri, knows_dark)


def _is_map(axes: Axes) -> bool:
    """Whether colours are values: numbers on them would not be read on others."""
    return any(isinstance(each, QuadMesh) for each in axes.collections) or bool(axes.images)


def _save(figure: Figure, file_format: str) -> bytes:
    stream = BytesIO()
    metadata = {"Date": None} if file_format == "svg" else None
    with mpl.rc_context({"svg.hashsalt": _HASH_SALT}):
        figure.savefig(
            stream, format=file_format, metadata=metadata, bbox_inches="tight", facecolor="white"
        )
    return stream.getvalue()


_BADPUT = "badput"
"""The figure's name, here and among the usual figures of a sweep."""

_MOST_BARS = 24


def report_page(
    sweep: Sweep, price_per_gpu_hour: float | None = None, by: str | None = None
) -> str:
    """Return the page of a sweep with at least one finished run, as HTML; a price adds the cost.

    `by` is an axis whose values are compared besides schemes and their settings.

    Everything from the sweep is escaped. A content security policy lets only the page's own script
    and style run, by their digests, and forbids all loading.
    """
    environment = Environment(
        loader=FunctionLoader(_package_file),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = _package_file("style.css"), _package_file("script.js")
    return environment.get_template("template.html").render(
        page=_content(sweep, price_per_gpu_hour, by),
        style=Markup(style),
        style_digest=_digest(style),
        script=Markup(script),
        script_digest=_digest(script),
    )


def _content(sweep: Sweep, price_per_gpu_hour: float | None, by: str | None) -> dict[str, Any]:
    """Return the values of the template; None or empty if the sweep lacks them."""
    frame, manifest = sweep.frame, sweep.manifest
    runs = frame[frame["status"] == "ok"]
    failed = frame[frame["status"] != "ok"]
    axes = varied_axes(frame)
    order = standings(runs, by) if len(runs) else None
    table = points(frame, axes) if len(runs) else None
    fixed = manifest["fixed"]
    content = {
        "title": str(manifest["grid"].get("name") or fixed["name"]),
        "description": f"Scenario {fixed['name']}. {fixed.get('description') or ''}".strip(),
        "answer": answer(order) if order else Answer(f"No answer: all {len(frame):,} runs failed."),
        "facts": _facts(sweep, len(runs)),
        "notices": notices(sweep),
        "axes": _axes_table(sweep),
        "seeds": _seeds_sentence(manifest["seeds"]),
        "sections": scenario_sections(fixed, sweep.axes, frame),
        "comparison": comparison_table(order, price_per_gpu_hour)
        if order and len(order.choices) > 1
        else None,
        "badput": _badput_section(order) if order else None,
        "pictures": _pictures(sweep) if len(runs) else [],
        "points": points_table(table, axes) if table is not None else None,
        "points_note": _points_note(table) if table is not None else "",
        "filter_example": _filter_example(sweep),
        "failed": failed_table(failed, axes) if len(failed) else None,
        "command": _command(),
        "grid_text": grid_text(manifest["grid"]),
        "provenance": provenance_table(frame, manifest),
        "versions": installed_versions(),
    }
    sections = {
        "question": ("Question", True),
        "comparison": ("Comparison", content["comparison"]),
        "time": ("Where the time went", content["badput"]),
        "figures": ("Figures", content["pictures"]),
        "points": ("All points", content["points"]),
        "failed": ("Failed runs", content["failed"]),
        "made": ("Reproduce it", True),
    }
    links = [(target, name) for target, (name, there) in sections.items() if there]
    return {**content, "links": links}


def _command() -> str:
    """Return the program's name with the files of schemes that it was started with."""
    files = (Path(path).name for path in plugged.named())
    return shlex.join(["faultline", *(f"--scheme-file={name}" for name in files)])


def _pictures(sweep: Sweep) -> list[Picture]:
    """Draw the usual figures, but where the time went: that has a section of its own."""
    embedded = [embed(*picture) for picture in usual_figures(sweep)]
    return [picture for picture in embedded if picture.name != _BADPUT]


def _facts(sweep: Sweep, good: int) -> list[tuple[str, str]]:
    """Return the numbers of the header, each with what it counts."""
    seeds, failed = len(sweep.manifest["seeds"]), len(sweep.frame) - good
    return [
        (f"{len(sweep.manifest['points']):,}", "settings"),
        (f"{seeds:,}", "seed each" if seeds == 1 else "seeds each"),
        (f"{good:,}", "run" if good == 1 else "runs"),
        (f"{failed:,}", "failed"),
    ]


def _axes_table(sweep: Sweep) -> Table:
    rows = [
        {
            "key": key,
            "values": ", ".join(value_text(key, value) for value in values),
            "meaning": meaning_of(key),
        }
        for key, values in sweep.axes.items()
    ]
    columns = (
        text("varied", "key"),
        text("values", "values", "prose"),
        text("meaning", "meaning", "prose"),
    )
    return table_of("axes-table", "What the sweep varies", columns, rows)


def _badput_section(order: Standings) -> dict[str, Any]:
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
    picture = embed(_BADPUT, title, draw_badput(runs, by))
    return {"note": note, "picture": picture, "table": badput_table(order)}


def _seeds_sentence(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return f"Every setting was played once, with seed {seeds[0]}."
    return (
        f"Every setting was played with {len(seeds):,} seeds ({seeds_text(seeds)}). Runs of one "
        "seed live through the same failures, so that differences between them are paired."
    )


def _points_note(table: pd.DataFrame) -> str:
    note = (
        "Goodput is the share of the time that trained for good: what the same steps take without "
        "failures, redundancy and checkpoints, over the simulated time. The time-to-train ratio is "
        "its inverse, run by run; its spread is the standard deviation over seeds. Both are "
        "relative to the machine, and may look better on a slower one: compare times."
    )
    if len(table) > MOST_POINTS:
        note += (
            f" Shown are the first {MOST_POINTS:,} of {len(table):,} points; table.csv beside the "
            "sweep has every run."
        )
    return note


def _filter_example(sweep: Sweep) -> str:
    """Return what could be typed into the filter of this very table: ``spare redundancy=9``."""
    words = []
    for axis, values in sweep.axes.items():
        value = next(value for value in reversed(values) if not is_missing(value))
        name = quantity(axis).with_unit.split()[0].lower()
        shown = str(value) if isinstance(value, (bool, str)) else f"{value:g}"
        words.append(shown if axis == "strategy.name" else f"{name}={shown}")
    return " ".join([word for word in words if " " not in word][:2])


def _package_file(name: str) -> str:
    return files("faultline.experiments.report").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii")
