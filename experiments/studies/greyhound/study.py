"""Greyhound (Wu et al. 2025, USENIX ATC): the slowdown left by stragglers after mitigation.

One replica of several takes 1.7 times as long; a link is slow; 256 H800 get 12 injections. The
speeds without injections, and with injections but no mitigation, are published and are inputs: they
give the mean slowdown. These are unknown and swept: the parallel layout, concurrent injections,
their duration, and the number on links.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import ClassVar

import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.figures.palette import OKABE_ITO
from faultline.experiments.figures.style import write_title
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.base import Results, Study
from faultline.experiments.studies.stage import Stage
from faultline.platforms.files import write_file
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from scipy.optimize import brentq

SLOW, LEFT = 1.7, {2: 1.3, 4: 1.1, 8: 1.2}
"""The slow replica's factor; the published factor after mitigation, by number of replicas."""

MICRO_BATCHES = (16, 32, 64, 128)
"""Micro-batches of the whole job, for any number of replicas: swept."""

SOUND, WITHOUT, WITH = 37.4, 18.9, 29.8
"""Steps per minute of 256 H800: without injections, with 12 and no mitigation, with mitigation."""

LINK_GAIN, LINK_SLOWS = 1.23, (0.28, 0.46)
"""The greatest speed-up by a swap; the shares of speed lost to slow links."""

INJECTIONS, GPUS = 12, 256
REACTIONS = ("ignore", "redeal", "swap", "restart", "ski-rental")
USUAL = (8, 8, 4, 1, 24)
"""Replicas, micro-batches of each, injections on links, concurrent ones, minutes of each."""

SWEPT = tuple(product((4, 8, 16), (4, 8, 16), (0, 4, 8), (1, 3), (10, 72)))
"""The same, swept. Minutes: means of slow nodes, and of jobs of 512 to 1,024 GPUs (same paper)."""

REDUCING_SHARE = 0.2
"""Share of an undisturbed step: an assumption; links can then slow a step as much as published."""

_SOUND_COMPUTE_S = 60.0 / SOUND * (1.0 - REDUCING_SHARE)
_RESTART_S = 230.0
"""Restart of Megatron on 256 GPUs, in seconds (TrainMover, arXiv 2412.12636)."""


Rows = Sequence[tuple[float, str, float, float]]
"""Stragglers: begin in seconds, component, duration in seconds, factor on its time."""


def _trace(path: Path, rows: Rows) -> Path:
    lines = [f"{begin:g},{name},slow,{lasts:g},{factor:.9g}" for begin, name, lasts, factor in rows]
    write_file(path, "\n".join(["time,component,kind,lasts,factor", *lines]) + "\n")
    return path


def _point(
    trace: Path, reaction: str, replicas: int, gpus: int, micro_batches: int, **labels: object
) -> Point:
    """Return a job on servers of eight GPUs, one per stage, with the failures of a trace."""
    changes = {
        "strategy.name": "checkpoint",
        "platform.file": "hgx-h100",
        "job.groups": replicas,
        "job.gpus": gpus,
        "job.steps": 1_000_000_000,
        "times.compute_s": _SOUND_COMPUTE_S,
        "job.compute_jitter": 0.0,
        "times.all_reduce_s": 60.0 / SOUND * REDUCING_SHARE,
        "model.pipeline": gpus // 8 // replicas,
        "model.tensor": 8,
        "model.micro_batches": micro_batches,
        "checkpoint.policy": "fixed",
        "checkpoint.interval_steps": 1_000_000,
        "times.checkpoint_write_s": 10.0,
        "times.restart_s": _RESTART_S,
        "times.checkpoint_load_s": 0.0,
        "failures.model": "trace",
        "failures.trace": str(trace),
        "failures.trace_span_s": 1e9,
        "failures.kinds.slow": reaction,
        **{name: labels.pop(name) for name in [*labels] if "." in name},
    }
    printed = (("reaction", reaction), ("replicas", replicas), ("micro_batches", micro_batches))
    scenario = load_scenario("spare-sound", changes)
    return Point(scenario, labels=(*printed, *labels.items()))


def injections(links: int, at_once: int, minutes: float) -> Rows:
    """Return the injections: `at_once` of them hold at any time, each for `minutes`.

    Each strikes another server, seven further on. Those on links are evenly spaced among those on
    nodes. Each lengthens an undisturbed step so much that the job has the published speed.
    """
    lasts_s, starts = minutes * 60.0, []
    for number in range(INJECTIONS):
        is_link = (number + 1) * links // INJECTIONS > number * links // INJECTIONS
        begin_s = max(0, number - at_once + 1) * lasts_s / at_once
        gpu = 8 * (7 * number % (GPUS // 8))
        starts.append((begin_s, f"{'adapter' if is_link else 'gpu'}-{gpu}"))
    longer = _longer([(begin_s, component[:3]) for begin_s, component in starts], lasts_s)
    share = {"ada": REDUCING_SHARE, "gpu": 1.0 - REDUCING_SHARE}
    return [
        (begin_s, component, lasts_s, 1.0 + longer / share[component[:3]])
        for begin_s, component in starts
    ]


def _longer(starts: Sequence[tuple[float, str]], lasts_s: float) -> float:
    """Return the share of an undisturbed step by which each kind lengthens it, without mitigation.

    Several injections of one kind count as one; a step with both kinds is longer by both.
    """
    moments = sorted({end_s for begin_s, _ in starts for end_s in (begin_s, begin_s + lasts_s)})
    spans = []
    for begin_s, end_s in pairwise(moments):
        kinds = {kind for since_s, kind in starts if since_s <= begin_s < since_s + lasts_s}
        spans.append((end_s - begin_s, len(kinds)))

    def too_fast(longer: float) -> float:
        steps = sum(span_s / (1.0 + longer * kinds) for span_s, kinds in spans)
        return steps / moments[-1] - WITHOUT / SOUND

    return float(brentq(too_fast, 0.0, 100.0))


def injected(folder: Path, setting: tuple[int, ...], reaction: str) -> Point:
    """Return a run of the job of 256 GPUs that ends with the last injection."""
    replicas, micro_batches, links, at_once, minutes = setting
    rows = injections(links, at_once, minutes)
    trace = _trace(folder / f"{links}-{at_once}-{minutes}.csv", rows)
    keys = {"job.time_limit_s": max(begin_s + lasts_s for begin_s, _, lasts_s, _ in rows)}
    labels = {"links": links, "at_once": at_once, "minutes": minutes}
    return _point(trace, reaction, replicas, GPUS, micro_batches, **labels, **keys)


def one_slow(folder: Path) -> Iterator[Point]:
    """Yield runs with one slow replica, with and without new shares of the batch."""
    for replicas, total in product(LEFT, MICRO_BATCHES):
        trace = _trace(folder / "one.csv", [(0.0, "gpu-0", 1e9, SLOW)])
        for reaction in ("ignore", "redeal"):
            keys = {"job.time_limit_s": 20_000.0, "times.all_reduce_s": 0.0, "total": total}
            yield _point(trace, reaction, replicas, 8 * replicas, total // replicas, **keys)


def left_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Return runs with the ratio of a step to an undisturbed one, and the published ratio."""
    published = runs.replicas.map(LEFT).where(runs.reaction == "redeal", SLOW)
    left = runs.time_s / runs.completed_steps / _SOUND_COMPUTE_S
    return runs.assign(left=left, published=published)


def speed_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Return runs with their steps per minute, and the published values.

    ``inputs`` separates the runs of the usual setting from swept ones.
    """
    inputs = pd.Series("swept", runs.index)
    inputs.iloc[: len(REACTIONS)] = "usual"
    published = inputs.map({"swept": WITH}).where(runs.reaction != "ignore", WITHOUT)
    speed = 60.0 * runs.completed_steps / runs.time_s
    return runs.assign(speed=speed, inputs=inputs, published=published)


def band_table(table: pd.DataFrame, column: str, keys: list[str]) -> pd.DataFrame:
    """Return the ``mean``, ``low`` and ``high`` of a column, a row per group of a table."""
    groups = table.groupby(keys, sort=False, dropna=False)[column]
    return groups.agg(mean=lambda values: values.mean(), low="min", high="max").reset_index()


def draw(left: pd.DataFrame, speeds: pd.DataFrame) -> Figure:
    """Draw the slowdown left by replicas, and speeds by reaction, with published values."""
    figure, (left_axis, speed_axis) = plt.subplots(1, 2, figsize=(10.0, 3.8))
    for colour, total in zip(OKABE_ITO, MICRO_BATCHES, strict=False):
        rows = left[(left.reaction == "redeal") & (left.total == total)]
        label = f"{total} micro-batches"
        left_axis.plot(range(len(rows)), rows["left"], marker="o", color=colour, label=label)
    left_axis.plot(range(len(LEFT)), list(LEFT.values()), "k*", ms=11, label="published")
    left_axis.axhline(SLOW, color="#999999", ls=":")
    left_axis.annotate("nothing is done", (len(LEFT) - 1, SLOW), ha="right", va="top", fontsize=9)
    left_axis.set_ylim(1.0, 1.75)
    left_axis.set_xticks(range(len(LEFT)), [str(replicas) for replicas in LEFT])
    left_axis.set_xlabel("replicas, one of them 1.7 times as slow")
    left_axis.set_ylabel("step over one without a straggler")
    left_axis.set_title("a slow replica's micro-batches, redistributed")
    left_axis.legend(fontsize=8, loc="upper left", bbox_to_anchor=(0.0, 0.92))
    names = [*REACTIONS, "ski-rental,\nswept"]
    usual, swept = (speeds[speeds.inputs == name] for name in ("usual", "swept"))
    speed_axis.plot(
        range(len(usual)), usual.speed, "o", color=OKABE_ITO[0], label="the usual setting"
    )
    speed_axis.plot(
        [len(usual)] * len(swept), swept.speed, "_", color=OKABE_ITO[1], ms=14,
        label=f"each of {len(swept)} settings",
    )  # fmt: skip
    published = [(0, WITHOUT), (len(usual), WITH)]
    speed_axis.plot(*zip(*published, strict=True), "k*", ms=11, label="published")
    speed_axis.axhline(SOUND, color="#999999", ls=":")
    speed_axis.annotate("no straggler", (0, SOUND), va="top", fontsize=9)
    speed_axis.set_xticks(range(len(names)), names, fontsize=8)
    speed_axis.set_ylabel("steps per minute")
    speed_axis.set_title("256 GPUs by the response to 12 stragglers")
    speed_axis.set_ylim(bottom=0.0)
    speed_axis.legend(fontsize=8, loc="lower right")
    write_title(figure, "Remedies win back most of the speed that stragglers take")
    return figure


class GreyhoundStudy(Study):
    """The slowdown left by stragglers, by mitigation."""

    default_seeds = 1
    scaled_by: ClassVar = frozenset()
    charts: ClassVar = {"greyhound.png": (draw, "left", "speeds")}
    headline_title = "Steps a minute with 12 stragglers on 256 H800"
    headline_rows: ClassVar = {
        "no remedy": ("steps a minute", "ignore", "*usual"),
        "remedies by ski rental (swept)": ("steps a minute", "ski-rental", "*swept"),
    }

    def simulate(self, stage: Stage) -> Results:
        """Run one slow replica, and the injections."""
        folder = stage.folder("traces")
        left = stage.runs("one slow replica", one_slow(folder))
        points = [injected(folder, USUAL, reaction) for reaction in REACTIONS]
        points += [injected(folder, setting, "ski-rental") for setting in SWEPT]
        speeds = speed_table(stage.runs("injections", points))
        left = left_table(left)
        low, high = (1.0 / (1.0 - share) for share in LINK_SLOWS)
        gain = {"gain": low, "low": low, "high": high, "published": LINK_GAIN}
        return {
            "left": left,
            "left_bands": band_table(left, "left", ["replicas", "reaction", "published"]),
            "speeds": speeds,
            "speed_bands": band_table(speeds, "speed", ["inputs", "reaction", "published"]),
            "links": pd.DataFrame([gain]),
        }
