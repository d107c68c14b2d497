"""The figures of the study and of its training loop; they read tables and nothing else."""

from __future__ import annotations

import numpy as np
import pandas as pd
from faultline.experiments.figures.charts import (
    Bars,
    Level,
    Line,
    Mark,
    Panel,
    Scale,
    Stack,
    Text,
    draw_panels,
    line_of,
    lines_by,
)
from faultline.experiments.figures.palette import look_of
from faultline.experiments.figures.style import CAUSE_LOOKS, PUBLISHED
from faultline.experiments.studies.data import published_value
from faultline.experiments.studies.ntp import loop, setting, tables
from faultline.experiments.studies.ntp.failures import THRESHOLD
from faultline.simulator.badput import MEANINGS
from matplotlib.figure import Figure

_LOOKS = {scheme: look_of(scheme) for scheme in setting.SCHEMES}
# Okabe and Ito (2008), a palette for all kinds of colour vision.
_DOMAIN_COLOURS = {8: "#E69F00", 16: "#56B4E9", 32: "#009E73", 64: "#0072B2", 72: "#CC79A7"}
_COURSE_COLOURS = {("5 days", 3): "#D55E00", ("5 days", 1): "#0072B2", ("3 days", 1): "#009E73"}
_GREY = "#555555"
_SHOWN_CAUSES = ("degraded", "repeated", "checkpoint", "restart")
"""Causes that come to more than a hairline; all others are useful, or next to nothing."""


def draw_availability(table: pd.DataFrame) -> Figure:
    """Draw the share of whole domains over the failed fraction: formula as lines, draws as dots."""
    means = table.groupby(["domain_gpus", "failed_fraction"], as_index=False).mean()
    marks: list[Mark] = []
    for size, mine in means.groupby("domain_gpus"):
        colour = _DOMAIN_COLOURS[int(size)]
        marks.append(line_of(mine, "failed_fraction", "formula", {"color": colour}))
        dots = {"color": colour, "marker": "o", "ls": "none", "ms": 4}
        marks.append(line_of(mine.iloc[::2], "failed_fraction", "share", dots))
        # The curves of 64 and 72 end close to each other.
        shift = {64: 0.004, 72: -0.004}.get(int(size), 0.0)
        last = mine.iloc[-1]
        at = last.failed_fraction, last.formula + shift
        marks.append(Text(*at, f"{size} GPUs", {"color": colour}))
    known = published_value("ntp", "available_domains", "", "domains of 64 GPUs, 0.1% failed")
    marks += [
        Line(look={"color": _GREY, "label": "formula"}),
        Line(look={"color": _GREY, "marker": "o", "ls": "none", "ms": 4, "label": "random sets"}),
        Line(0.001, known, {**PUBLISHED, "clip_on": False, "label": "published, 64 GPUs"}),
    ]
    panel = Panel(
        marks,
        Scale("failed GPUs", (0, 0.00455), every=0.001, percent=1),
        Scale("domains without a failed GPU", percent=0),
        "Availability of whole scale-up domains, 32,768 GPUs",
        {"loc": "lower left"},
    )
    return draw_panels([panel], (7.2, 4.2))


def draw_losses(table: pd.DataFrame) -> Figure:
    """Draw the loss over the failed fraction: all on the left, packed from near on the right."""
    means = table.groupby(["scheme", "packed", "failed_fraction"], as_index=False).mean()
    whole: list[Mark] = []
    near: list[Mark] = []
    for scheme, look in _LOOKS.items():
        mine = means[means.scheme == scheme]
        packed, apart = mine[mine.packed], mine[~mine.packed]
        line = {"color": look.colour, "label": f"{look.label}, packed"}
        dashed = {"color": look.colour, "ls": "--", "label": f"{look.label}, not packed"}
        whole.append(line_of(packed, "failed_fraction", "loss", line))
        whole.append(line_of(apart, "failed_fraction", "loss", dashed))
        near.append(line_of(packed, "failed_fraction", "loss", {"color": look.colour}, band=True))
        dotted = {"color": look.colour, "ls": ":"}
        near.append(line_of(packed, "failed_fraction", "resharded", dotted))
        at_most = "0.400% failed, packed, published: at most"
        known = published_value("ntp", "lost_throughput", scheme, at_most)
        edge = {**PUBLISHED, "marker": "v", "markeredgecolor": look.colour}
        near.append(Line(0.004, known, edge))
    near.append(Line(look={"color": _GREY, "ls": ":", "label": "all resharding charged"}))
    near.append(Line(look={**PUBLISHED, "marker": "v", "label": "published: at most"}))
    panels = [
        Panel(
            whole,
            Scale("failed GPUs", (0, 0.004), every=0.001, percent=1),
            Scale("throughput lost", (0, None), percent=0),
            "Hit domains packed into few replicas, or not",
        ),
        Panel(
            near,
            Scale("failed GPUs", (0, 0.0042), every=0.001, percent=1),
            Scale("", (-0.002, 0.14), every=0.02, percent=0),
            "Packed (bands: 5th to 95th percentile)",
        ),
    ]
    return draw_panels(panels, (10.5, 4.2), below=4)


def draw_courses(courses: pd.DataFrame) -> Figure:
    """Draw the failed fraction over 15 days: median, 5th to 95th percentile, and one trace."""
    by_course = courses.groupby(["repair", "rate_factor"])
    marks: list[Mark] = []
    for course, colour in _COURSE_COLOURS.items():
        table, (repair, factor) = by_course.get_group(course), course
        rate = f"{factor} times the rate" if factor > 1 else "Llama 3's rate"
        one = {"color": colour, "linewidth": 0.8, "drawstyle": "steps-post"}
        median = {"color": colour, "label": f"{rate}, repair {repair}"}
        marks.append(line_of(table, "day", "one", one))
        marks.append(line_of(table, "day", "median", median, band=True))
    peak = tables.peak_published()
    for height, label, colour in (
        (THRESHOLD, "0.1%", "black"),
        (peak / setting.GPUS, f"published\npeak: {peak} GPUs", _COURSE_COLOURS["5 days", 1]),
    ):
        marks.append(Level(height, {"color": colour, "linestyle": ":", "linewidth": 1.2}))
        marks.append(Text(15, height, label, {"color": colour, "fontsize": 9}))
    panel = Panel(
        marks,
        Scale("days since all GPUs were healthy", (0, 15), ticks=range(0, 16, 3)),
        Scale("failed GPUs of 32,768", (0, 0.008), percent=1),
        "Failed GPUs over 15 days: median, 90 % of the traces, and one trace",
        {"loc": "upper left"},
    )
    return draw_panels([panel], (8.4, 4.4))


def draw_spares(table: pd.DataFrame) -> Figure:
    """Draw the spare domains that each scheme needs, in whole replicas, over all traces."""
    repairs = ["3 days", "3 or 5 days", "5 days"]
    plain = table[table.rate_factor == 1].groupby("repair")
    marks: list[Mark] = []
    for offset, (scheme, look) in zip((-0.27, 0.0, 0.27), _LOOKS.items(), strict=True):
        values = plain[f"replica_spares_{scheme}"]
        places = np.arange(len(repairs)) + offset
        ends = values.quantile(0.05)[repairs], values.quantile(0.95)[repairs]
        bar = {"color": look.colour, "width": 0.25}
        marks.append(Bars(places, values.mean()[repairs], ends, bar))
        for place, mean in zip(places, values.mean()[repairs], strict=True):
            marks.append(Text(place, mean, f"{mean:.0f}", {"ha": "right"}, (-2, 7)))
        known = tables.spares_published(scheme)
        marks.append(Line(places[-1] + 0.07, known, {**PUBLISHED, "clip_on": False}))
    for look in _LOOKS.values():
        entry = {"color": look.colour, "linewidth": 6, "label": f"{look.label}, mean"}
        marks.append(Line(look=entry))
    marks.append(Line(look={"color": "black", "label": "5th to 95th percentile"}))
    marks.append(Line(look={**PUBLISHED, "label": "published"}))
    panel = Panel(
        marks,
        Scale(ticks=dict(enumerate(f"repair in {repair}" for repair in repairs))),
        Scale("spare domains of 32 GPUs", (0, 100)),
        "Spares that keep the batch through 15 days, in whole replicas",
        {"loc": "upper left"},
    )
    return draw_panels([panel], (7.2, 4.2))


def draw_blasts(table: pd.DataFrame) -> Figure:
    """Draw the loss over the GPUs that a failure takes."""
    keys = ["scheme", "blast_radius"]
    means = table[table.packed].groupby(keys, as_index=False).mean(numeric_only=True)
    looks = {scheme: look.line for scheme, look in _LOOKS.items()}
    panel = Panel(
        list(lines_by(means, "scheme", looks, "blast_radius", "loss", band=True)),
        Scale(
            "GPUs that a failure takes, in one domain",
            log=True,
            ticks=list(means.blast_radius.unique()),
        ),
        Scale("throughput lost, packed", (-0.0005, None), every=0.01, percent=0),
        "Blast radius: 33 failures (bands: 5th to 95th percentile)",
        {"loc": "center left"},
    )
    return draw_panels([panel], (7.2, 4.2))


def draw_loop(table: pd.DataFrame) -> Figure:
    """Draw what 15 days of each variant lose, by cause; the goodput stands behind the bars."""
    shares = {MEANINGS[cause]: table[f"{cause}_s"] / table.time_s for cause in _SHOWN_CAUSES}
    means = pd.DataFrame(shares).groupby(table.variant, sort=False).mean()
    goodput = table.groupby("variant", sort=False).goodput.mean()
    left = means.sum(axis=1)
    marks: list[Mark] = [
        Stack(means, [CAUSE_LOOKS[cause] for cause in _SHOWN_CAUSES]),
        *(
            Text(left[variant] + 0.004, place, f"goodput {share:.1%}", {"fontsize": 9}, (0, 0))
            for place, (variant, share) in enumerate(goodput.items())
        ),
    ]
    panel = Panel(
        marks,
        Scale("share of 15 days lost", (0, float(left.max()) + 0.08), percent=0),
        Scale(ticks=dict(enumerate(loop.variant_name(str(name)) for name in means.index))),
        "32,768 GPUs at Llama 3's failure rate, restarts of ten minutes",
    )
    return draw_panels([panel], (9.0, 4.4), below=4)


def draw_domains(table: pd.DataFrame) -> Figure:
    """Draw what is lost, and what is trained, over the size of domains."""
    means = table.assign(lost=1.0 - table.goodput)
    means = means.groupby(["strategy", "domain_gpus"], as_index=False).mean(numeric_only=True)
    sizes = sorted(table.domain_gpus.unique())
    means["place"] = means.domain_gpus.map(sizes.index)
    looks = {
        scheme: {**look_of(scheme).line, "label": loop.variant_name(scheme)}
        for scheme in loop.DOMAIN_SCHEMES
    }
    x = Scale("GPUs of a scale-up domain", ticks=dict(enumerate(map(str, sizes))))
    panels = [
        Panel(list(lines_by(means, "strategy", looks, "place", column)), x, y, title)
        for column, y, title in (
            (
                "lost",
                Scale("share of 15 days lost", (0, None), percent=0),
                "Each against itself without failures",
            ),
            (
                "batches_per_day",
                Scale("batches of 1,024 sequences a day", (0, None), text="{x:,.0f}"),
                "What 32,768 GPUs train",
            ),
        )
    ]
    title = "Through the same failures, at Llama 3's rate"
    return draw_panels(panels, (9.6, 4.2), below=4, title=title)
