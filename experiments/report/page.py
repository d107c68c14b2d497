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

from faultline.experiments.config.distribution import own_version
from faultline.experiments.figures.sweep_pictures import usual_figures
from faultline.experiments.report.question import (
    axes_table,
    grid_text,
    notices,
    provenance_table,
    scenario_table,
)
from faultline.experiments.report.result_tables import comparison_table, failed_table
from faultline.experiments.report.standings import Answer, answer, standings
from faultline.experiments.runs.table import Sweep
from faultline.strategies.plugins import scheme_files
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup
from matplotlib import pyplot as plt
from matplotlib.figure import Figure


class PagePicture(NamedTuple):
    """A figure in the page."""

    title: str  # Text for screen readers, too.
    uri: str  # The image as a data URI.


def embed(title: str, figure: Figure) -> PagePicture:
    """Turn a figure into a picture, and close it."""
    stream = BytesIO()
    figure.savefig(stream, format="png", bbox_inches="tight", facecolor="white")
    plt.close(figure)
    return PagePicture(
        title, f"data:image/png;base64,{b64encode(stream.getvalue()).decode('ascii')}"
    )


def report_page(
    sweep: Sweep, price_per_gpu_hour: float | None = None, by: str | None = None
) -> str:
    """Return the report of a sweep as HTML.

    All content from the sweep is escaped. A content security policy allows only the page's own
    script and style, by their digests, and forbids all loading. The sweep has a finished run. The
    price is in any currency; `by` is an axis that is compared as schemes and their settings are.
    """
    frame, plan = sweep.frame, sweep.plan
    runs, failed = frame[frame["status"] == "ok"], frame[frame["status"] != "ok"]
    order = standings(runs, by) if len(runs) else None
    compared = order is not None and len(order.choices) > 1
    fixed = plan.fixed
    pictures = usual_figures(sweep) if len(runs) else []
    return rendered(
        "template.html",
        ("style.css",),
        ("script.js",),
        title=str(plan.grid.get("name") or fixed["name"]),
        version=own_version(),
        description=f"Scenario {fixed['name']}. {fixed.get('description') or ''}".strip(),
        answer=answer(order) if order else Answer(f"No answer: all {len(frame):,} runs failed."),
        notices=notices(sweep),
        comparison=comparison_table(order, price_per_gpu_hour) if order and compared else None,
        pictures=[embed(picture.title, picture.figure) for picture in pictures],
        axes=axes_table(sweep),
        scenario=scenario_table(sweep),
        failed=failed_table(failed) if len(failed) else None,
        command=_command(),
        options=_options(price_per_gpu_hour, by),
        grid_text=grid_text(plan.grid),
        provenance=provenance_table(frame, plan),
    )


def rendered(template: str, styles: Sequence[str], scripts: Sequence[str], **values: Any) -> str:
    """Return a page from files of this package, with its own style and script only.

    The policy of the template has ``style_digest`` and ``script_digest``; `values`, which it refers
    to, are escaped.
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


def _command() -> str:
    """Return the program's name with its options for files of schemes."""
    files = (Path(path).name for path in scheme_files.paths())
    return shlex.join(["faultline", *(f"--scheme-file={name}" for name in files)])


def _options(price_per_gpu_hour: float | None, by: str | None) -> str:
    """Return the options of the report, each followed by a blank."""
    stated = {"--by": by, "--price": price_per_gpu_hour}
    texts = ([option, str(value)] for option, value in stated.items() if value is not None)
    return "".join(f"{shlex.join(text)} " for text in texts)


def _package_file(name: str) -> str:
    return files("faultline.experiments.report").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii")
