"""What plays many runs, or reads what they left, can be asked."""

from __future__ import annotations

from pathlib import Path

from faultline.experiments.commands.arguments import (
    ENGINE,
    POSITIVE,
    SEED,
    SETTINGS,
    Command,
    Group,
    above_zero,
    json_option,
    option,
    output_option,
    shipped,
)

PLOT_FORMATS = ("png", "svg", "pdf")

_LIMIT = "nothing runs within nothing; use more"

_SWEEP = option("DIR", "what faultline sweep wrote", Path, dest="directory")
_WORKERS = option("--workers N", "processes; default: one a core", POSITIVE)

_GRID_SWEEP = Command(
    "sweep",
    "play a grid of scenarios and seeds; goes on where it was interrupted",
    "Play every point of a grid with every seed. Results land in DIR as they come; the same "
    "command again plays only what is missing. Tables with a row a run stand in DIR at the end.",
    "example: faultline sweep first-look -o results/first-look",
    (
        option("GRID", f"a TOML file, or one of: {shipped('grids')}"),
        output_option("DIR", "where results are kept", required=True),
        Group(
            None,
            (
                option("--workers N", "runs at a time; default: one a core", POSITIVE),
                option("--scheduler tcp://HOST:PORT", "play on the workers of a Dask scheduler"),
            ),
        ),
        option(
            "--time-limit TIME",
            "real time a run may take, for example 10min; a run that takes longer has failed",
            above_zero("time", _LIMIT),
        ),
        option(
            "--memory-limit SIZE",
            "memory a run may take, for example 4GB; a run that takes more has failed",
            above_zero("size", _LIMIT),
        ),
        option("--retry-failed", "play runs that failed before once more"),
        option(
            "--accept-other-code",
            "keep results that were made before the simulation's source changed",
        ),
    ),
)

_COMPARE = Command(
    "compare",
    "compare the schemes of a sweep, seed by seed",
    "Compare the values of one axis of a sweep with a baseline: differences between runs of the "
    "same seed and the same setting, with 95 %% intervals by paired t.",
    "example: faultline compare results/mtbf --metric availability --baseline replication",
    (
        _SWEEP,
        option(
            "--metric NAME",
            "column of the sweep's table; default: time_to_train_ratio",
            default="time_to_train_ratio",
        ),
        option(
            "--by KEY",
            "axis whose values are compared; default: strategy.name where it was varied, else the "
            "first axis",
        ),
        option("--baseline VALUE", "what to compare with; default: the axis's first value"),
        json_option("print one JSON object"),
        option("--csv FILE", "write all rows to a CSV file", Path),
    ),
)

_PLOT = Command(
    "plot",
    "draw a sweep, or the course of one run",
    "Draw the usual pictures of a sweep, or those you name; or the course of one run, from its "
    "timeline or played for it.",
    "examples: faultline plot results/mtbf --kind heat-map --x failures.mtbf_s "
    "--y restart.duration_s; faultline plot --timeline spare-study --set job.steps=1000 "
    "-o course.png",
    (
        option(
            "SOURCE",
            "a folder that faultline sweep wrote, or a file that faultline run --timeline wrote",
            Path,
            nargs="?",
        ),
        output_option(
            "PATH",
            "of a sweep: a folder (default: figures, in the sweep's); of a run: a file (default: "
            "timeline.png)",
        ),
        option("--format", "default: png", choices=PLOT_FORMATS, default="png"),
        Group(
            "pictures of a sweep",
            (
                option(
                    "--kind",
                    "one kind of picture instead of the usual",
                    choices=("curves", "heat-map", "best-map", "schemes", "badput"),
                ),
                option("--x KEY", "axis to the right; default: the first numeric"),
                option("--y KEY", "axis upwards, of a map"),
                option("--metric NAME", "default: time_to_train_ratio"),
                option("--hue KEY", "axis of the lines; default: strategy.name"),
                option("--column KEY", "axis of the panels"),
            ),
        ),
        Group(
            "the course of a run",
            (
                option("--timeline SCENARIO", "play this scenario and draw its run"),
                SETTINGS,
                option("--engine", **ENGINE),
                SEED,
                option(
                    "--window START END",
                    "part of the run to be drawn larger, in simulated seconds",
                    float,
                    nargs=2,
                ),
            ),
        ),
    ),
)

_REPORT = Command(
    "report",
    "write one page that tells what a sweep found",
    "Write one self-contained HTML page from a sweep: the answer, what was asked, comparisons, "
    "figures, where the time went, all points. It needs no network.",
    "example: faultline report results/my-sweep -o report.html",
    (_SWEEP, output_option("FILE", "the page; default: report.html in DIR")),
)

_REPRODUCE = Command(
    "reproduce",
    "play a published comparison and print it beside the published numbers",
    "Play a published comparison again: tables and figures go to results/NAME, the headline to "
    "the screen.",
    options=(
        option("NAME", "which one; 'list' tells what there is"),
        option("--full", "everything that was published"),
        option("--seeds K", "default: 3; adaptive: 5", POSITIVE),
        json_option("print the rows as a JSON list"),
        _WORKERS,
        output_option("DIR", "default: results/NAME"),
    ),
)

_HEAD_TO_HEAD = Command(
    "head-to-head",
    "play all schemes on one platform, and draw the map of which is best where",
    "All schemes of this project, with one model on one platform, under the same failures: a "
    "table of three settings, what becomes of one of them where every event costs everybody the "
    "same, or where the layers divide otherwise, and two planes that show which scheme trains "
    "soonest and which with the fewest GPU-hours. Played cells are kept in DIR/cells: the same "
    "command goes on where it was interrupted.",
    "example: faultline head-to-head --quick --schemes checkpoint spare/reft",
    (
        option("--quick", "a coarse grid and few seeds"),
        option("--side N", "cells on a side of a plane; default: 20, or 4", POSITIVE),
        option("--seeds K", "seeds of a cell; default: 3, or 1", POSITIVE),
        option("--schemes NAME", "schemes, or one as spare/reft; default: all", nargs="+"),
        option(
            "--only",
            "the table of settings, what stalls or layers do to it, or one plane; default: all",
            choices=["settings", "stalls", "layers", "restart", "domains"],
        ),
        json_option("print the settings' table as JSON"),
        _WORKERS,
        output_option("DIR", "default: results/head-to-head"),
    ),
)

SWEEP_COMMANDS = (_GRID_SWEEP, _COMPARE, _PLOT, _REPORT, _REPRODUCE, _HEAD_TO_HEAD)
