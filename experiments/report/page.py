"""The report of a sweep: text, tables and figures in one HTML file that needs no network."""

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

# Without a salt, Matplotlib uses random identifiers in an SVG.
_HASH_SALT = "faultline"
_LARGEST_SVG_BYTES = 1_500_000


class Picture(NamedTuple):
    """A figure in the page."""

    name: str  # Short name, for links.
    title: str  # Title, and text for screen readers.
    uri: str  # The image as a data URI.
    has_dark_mode: bool = False  # Whether it is dark on a dark page; others keep a light card.


def embed(name: str, title: str, figure: Figure) -> Picture:
    """Turn a figure into a picture, and close it.

    A figure with tens of thousands of marks becomes a PNG, as its SVG would be larger than the rest
    of the page.
    """
    content, kind = _save(figure, "svg"), "image/svg+xml"
    has_dark_mode = not any(axes.collections and _is_map(axes) for axes in figure.axes)
    if len(content) > _LARGEST_SVG_BYTES:
        content, kind, has_dark_mode = _save(figure, "png"), "image/png", False
    elif has_dark_mode:
        style = f"<style>{_package_file('figure_dark.css')}</style>"
        content = content.replace(b"</defs>", style.encode() + b"</defs>", 1)
    plt.close(figure)
    uri = f"data:{kind};base64,{b64encode(content).decode('ascii')}"
    return Picture(name, title, uri, has_dark_mode)


def _is_map(axes: Axes) -> bool:
    """Return whether colours represent values, so that they must not change."""
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
"""Name of the figure, also among the usual figures of a sweep."""

_MOST_BARS = 24


def report_page(
    sweep: Sweep, price_per_gpu_hour: float | None = None, by: str | None = None
) -> str:
    """Return the report of a sweep as HTML.

    All content from the sweep is escaped. A content security policy allows only the page's own
    script and style, by their digests, and forbids all loading.

    Parameters
    ----------
    sweep : Sweep
        A sweep with at least one finished run.
    price_per_gpu_hour : float, optional
        Price in any currency, for a column of costs.
    by : str, optional
        An axis whose values are compared, besides schemes and their settings.
    """
    content = _content(sweep, price_per_gpu_hour, by)
    return rendered("template.html", ("style.css",), ("script.js",), page=content)


def rendered(template: str, styles: Sequence[str], scripts: Sequence[str], **values: Any) -> str:
    """Return a page from files of this package, with its own style and script only.

    Parameters
    ----------
    template : str
        The page; its policy has ``style_digest`` and ``script_digest``.
    styles : sequence of str
        Style sheets, later ones stronger.
    scripts : sequence of str
        Scripts, run in this order.
    values
        All that the template refers to; it is escaped.
    """
    environment = Environment(
        loader=FunctionLoader(_package_file),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, code = ("".join(map(_package_file, names)) for names in (styles, scripts))
    return environment.get_template(template).render(
        style=Markup(style),
        style_digest=_digest(style),
        script=Markup(code),
        script_digest=_digest(code),
        **values,
    )


def _content(sweep: Sweep, price_per_gpu_hour: float | None, by: str | None) -> dict[str, Any]:
    """Return the values of the template; None or empty for missing parts."""
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
    """Return the program's name with its options for files of schemes."""
    files = (Path(path).name for path in plugged.named())
    return shlex.join(["faultline", *(f"--scheme-file={name}" for name in files)])


def _pictures(sweep: Sweep) -> list[Picture]:
    """Draw the usual figures without badput, which has its own section."""
    embedded = [embed(*picture) for picture in usual_figures(sweep)]
    return [picture for picture in embedded if picture.name != _BADPUT]


def _facts(sweep: Sweep, good: int) -> list[tuple[str, str]]:
    """Return the numbers of the header, each with its name."""
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
    """Return the figure and the table of the compared choices' badput."""
    note = (
        "Useful time is the time of a job without failures, copies and checkpoints. All other time "
        "is lost to one of these causes. The shares of a row add up to 100 %."
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
        return f"Each setting was simulated once, with seed {seeds[0]}."
    return (
        f"Each setting was simulated with {len(seeds):,} seeds ({seeds_text(seeds)}). Runs with "
        "the same seed have the same failures, so differences between them are paired."
    )


def _points_note(table: pd.DataFrame) -> str:
    note = (
        "Goodput is the time of the same steps without failures, redundancy and checkpoints, over "
        "the simulated time. The time-to-train ratio is its inverse, run by run. Its spread is the "
        "standard deviation over seeds. Both are relative to the machine, and may be better on a "
        "slower one. To compare machines, use times."
    )
    if len(table) > MOST_POINTS:
        note += (
            f" The table has the first {MOST_POINTS:,} of {len(table):,} points; table.csv in the "
            "sweep's folder has each run."
        )
    return note


def _filter_example(sweep: Sweep) -> str:
    """Return an example for the filter of this sweep's table: ``spare redundancy=9``."""
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
