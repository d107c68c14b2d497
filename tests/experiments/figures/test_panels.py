"""Panels of charts: what they draw of their marks, their scales and their legends."""

from __future__ import annotations

import pandas as pd
import pytest
from faultline.experiments.figures.charts import (
    Bars,
    Level,
    Line,
    Panel,
    Scale,
    Stack,
    Text,
    draw_panels,
    lines_by,
)
from faultline.experiments.figures.style import BarLook
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex

TABLE = pd.DataFrame(
    {
        "scheme": ["a", "a", "b", "b"],
        "x": [1, 2, 1, 2],
        "mean": [0.1, 0.2, 0.3, 0.4],
        "low": [0.0, 0.1, 0.2, 0.3],
        "high": [0.2, 0.3, 0.4, 0.6],
    }
)
LOOKS = {"b": {"color": "#0000ff", "label": "B"}, "a": {"color": "#ff0000", "label": "A"}}


def test_lines_have_their_values_their_colours_and_their_bands() -> None:
    marks = list(lines_by(TABLE, "scheme", LOOKS, "x", "mean", band=True))
    figure = draw_panels([Panel(marks, Scale("x"), Scale("y"))], (4, 3))
    (axis,) = figure.axes
    first, second = axis.lines
    assert list(first.get_ydata()) == [0.3, 0.4]
    assert to_hex(first.get_color()) == "#0000ff"
    assert list(second.get_ydata()) == [0.1, 0.2]
    heights = [band.get_paths()[0].get_extents().intervaly.tolist() for band in axis.collections]
    assert heights == [[0.2, 0.6], [0.0, 0.3]]
    plt.close(figure)


def test_a_legend_below_names_each_label_once() -> None:
    marks = list(lines_by(TABLE, "scheme", LOOKS, "x", "mean", bars=True))
    extra = Line(look={"color": "black", "label": "published"})
    panels = [Panel(marks, Scale(), Scale()), Panel([*marks, extra], Scale(), Scale())]
    figure = draw_panels(panels, (8, 3), below=3)
    (legend,) = figure.legends
    assert sorted(text.get_text() for text in legend.get_texts()) == ["A", "B", "published"]
    plt.close(figure)


def test_scales_have_limits_ticks_and_forms() -> None:
    x = Scale("place", ticks={0: "left", 1: "right"})
    y = Scale("share", (0, 0.5), every=0.25, percent=0)
    log = Scale("ratio", (1, 20), log=True, ticks=[2, 5, 10])
    marks = [Level(0.1, {"color": "black"}), Text(0, 0.2, "here")]
    figure = draw_panels([Panel(marks, x, y), Panel([], Scale(), log)], (8, 3))
    figure.canvas.draw()
    linear, logarithmic = figure.axes
    assert [text.get_text() for text in linear.get_xticklabels()] == ["left", "right"]
    inside = [text for text in linear.get_yticklabels() if 0 <= text.get_position()[1] <= 0.5]
    assert [text.get_text() for text in inside] == ["0%", "25%", "50%"]
    assert linear.get_ylim() == (0, 0.5)
    assert [text.get_text() for text in linear.texts] == ["here"]
    assert logarithmic.get_yscale() == "log"
    assert [text.get_text() for text in logarithmic.get_yticklabels()] == ["2", "5", "10"]
    plt.close(figure)


def test_bars_are_as_high_and_stacks_as_long_as_their_parts() -> None:
    bars = Bars([0, 1], [2.0, 3.0], ([1.0, 2.0], [3.0, 4.0]), {"color": "#00ff00", "width": 0.5})
    parts = pd.DataFrame({"lost": [0.1, 0.2], "saved": [0.3, 0.1]})
    stack = Stack(parts, [BarLook("#111111"), BarLook("#222222")])
    figure = draw_panels([Panel([mark], Scale(), Scale()) for mark in (bars, stack)], (8, 3))
    upright, horizontal = figure.axes
    assert [patch.get_height() for patch in upright.patches] == [2.0, 3.0]
    assert [patch.get_width() for patch in horizontal.patches] == [0.1, 0.2, 0.3, 0.1]
    begins = [patch.get_x() for patch in horizontal.patches]
    assert begins == pytest.approx([0.0, 0.0, 0.1, 0.2])
    assert horizontal.yaxis_inverted()
    plt.close(figure)
