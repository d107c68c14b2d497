"""From the content to one HTML file that asks no network for anything."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

from faultline.experiments.report.page import Page
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup


def render(page: Page) -> str:
    """Return the page as HTML.

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
        page=page,
        style=Markup(style),
        style_digest=_digest(style),
        script=Markup(script),
        script_digest=_digest(script),
    )


def _package_file(name: str) -> str:
    return files("faultline.experiments.report").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii")
