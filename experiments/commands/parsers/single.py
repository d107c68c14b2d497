"""Parsers of what asks one scenario, one failure model, or this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from faultline.experiments.commands.parsers.arguments import (
    above_zero,
    add_command,
    add_json,
    add_output,
    add_scenario,
    add_seed,
    add_settings,
    days,
    gpu_count,
    names,
    positive,
    shipped,
    subcommands,
)

_TIME = above_zero("time", "use a time above zero, for example 5min")

DRAWN_GPUS = 16_384
"""GPUs of the job, where a failure model is drawn by itself: those of Llama 3's pretraining."""

DRAWN_GPUS_PER_GROUP = 128
"""About as many make a group then: tensor parallelism 8 times pipeline parallelism 16."""


def run(commands: Any) -> None:
    """Declare ``faultline run``."""
    parser = add_command(
        commands,
        "run",
        help="play one scenario and print what came of it",
        description="Play one scenario with one seed and print its record.",
        epilog="example: faultline run spare-study --set job.groups=600 "
        "--set strategy.name=replication --set strategy.redundancy=3",
    )
    add_scenario(parser)
    parser.add_argument(
        "--engine",
        choices=("replay", "simgrid"),
        default="replay",
        help="replay jumps from event to event (default); simgrid plays every rank and message",
    )
    add_seed(parser)
    add_json(parser, "print the record as one JSON object")
    parser.add_argument(
        "--timeline", type=Path, metavar="FILE", help="write the events of the run to a CSV file"
    )


def plan(commands: Any) -> None:
    """Declare ``faultline plan``."""
    parser = add_command(
        commands,
        "plan",
        help="say which scheme to take, with which redundancy and checkpoint interval",
        description="Find the best redundancy and checkpoint interval of each scheme by closed "
        "forms, verify the best few by simulation, and say which scheme to take.",
        epilog="example: faultline plan spare-sound --gpus 100000 --mtbf 30min",
    )
    add_scenario(parser)
    cluster = parser.add_argument_group("the cluster, instead of the scenario's").add_argument
    cluster("--gpus", type=positive, metavar="N", help="GPUs of the whole job")
    cluster("--groups", type=positive, metavar="N", help="data-parallel groups that they make")
    cluster(
        "--mtbf",
        type=_TIME,
        metavar="TIME",
        help="mean time between failures of the whole job, for example 5min; default: the "
        "scenario's, scaled with 1 / GPUs",
    )
    cluster("--restart", type=_TIME, metavar="TIME", help="time of a restart")
    cluster("--save", type=_TIME, metavar="TIME", help="time to write a checkpoint")
    _add_effort(parser.add_argument_group("how it is planned"))
    add_json(parser, "print the plan as one JSON object")
    add_output(
        parser,
        "FOLDER",
        "draw each scheme's time to train over redundancy and interval, with its table",
    )


def _add_effort(group: Any) -> None:
    group.add_argument(
        "--schemes",
        type=names,
        metavar="A,B",
        help="schemes that come into question; default: all but those whose options have to say "
        "how a group is cut into stages or domains (ntp, mecefo, ...)",
    )
    group.add_argument(
        "--protections",
        type=names,
        metavar="A,B",
        help="ways to keep the state that come into question; default: all that fit the job",
    )
    group.add_argument(
        "--seeds",
        type=positive,
        default=3,
        metavar="N",
        help="seeds of a verification; default 3, and more for what they cannot tell apart",
    )
    group.add_argument(
        "--verify",
        type=positive,
        default=3,
        metavar="N",
        help="choices to verify at least; each scheme's best over each protection always is; "
        "default 3",
    )
    group.add_argument(
        "--steps",
        type=positive,
        metavar="N",
        help="steps of simulated jobs; default: enough for 20 restarts, at most the whole job",
    )
    how = group.add_mutually_exclusive_group()
    how.add_argument("--no-simulation", action="store_true", help="closed forms alone")
    how.add_argument(
        "--optimise",
        action="store_true",
        help="search the best redundancy and interval by simulation too",
    )


def scenario(commands: Any) -> None:
    """Declare ``faultline scenario``."""
    add = subcommands(
        commands,
        "scenario",
        help="list, show, check and explain scenarios",
        description="Scenarios are TOML files that say what is trained, under which failures, and "
        "by which scheme. docs/scenario-reference.md documents every key.",
    )
    add("list", help="list the scenarios that come with Faultline")
    show = add(
        "show",
        help="print a scenario with every value filled in, as TOML that can be run",
        description="Print a scenario with every value filled in: defaults, redundancy and "
        "checkpoint interval by the closed forms, what was measured on the platform. It is TOML: "
        "kept in a file of this folder, it gives the same records.",
        epilog="example: faultline scenario show spare-study --set job.groups=600 > mine.toml",
    )
    add_scenario(show)
    show.add_argument("--plain", action="store_true", help="without comments")
    show.add_argument(
        "--all", action="store_true", help="also defaults on which nothing depends here"
    )
    add_json(show, "print one JSON object: scenario and origins")
    check = add(
        "check",
        help="name every mistake of scenario files",
        description="Name every mistake of scenario files, one a line, with its place; the exit "
        "status is 2 if there is any.",
    )
    check.add_argument("files", metavar="FILE", nargs="+", help="a TOML file")
    explain = add(
        "explain",
        help="explain a key or a table: meaning, unit, default, range, choices, source",
        epilog="example: faultline scenario explain failures.clock",
    )
    explain.add_argument(
        "key", metavar="KEY", nargs="?", help="a dotted key, or a table; all tables if left out"
    )
    add("reference", help="print the reference of all keys as Markdown")


def failures(commands: Any) -> None:
    """Declare ``faultline failures``."""
    add = subcommands(
        commands,
        "failures",
        help="list failure models, and draw what they produce",
        description="Failure models: which there are, and what they produce.",
    )
    listing = add(
        "list",
        help="list the shipped mixes of causes",
        description="List the shipped mixes of causes and how often they strike a job.",
    )
    listing.add_argument(
        "--gpus",
        type=gpu_count,
        default=DRAWN_GPUS,
        metavar="N",
        help=f"GPUs of the job (default: {DRAWN_GPUS})",
    )
    add_json(listing, "print one JSON list; times in seconds")
    draw = add(
        "draw",
        help="draw the failures of a model or a scenario",
        description="Draw failures and say by cause how many came and how many were expected. "
        f"A model by itself strikes {DRAWN_GPUS:,} GPUs in groups of {DRAWN_GPUS_PER_GROUP}; a "
        "scenario has a job of its own.",
        epilog="example: faultline failures draw llama3 --days 54 -o llama3.png --csv llama3.csv",
    )
    draw.add_argument(
        "what",
        metavar="WHAT",
        help=f"a mix ({shipped('mixes')}, or a TOML file with causes), a trace (a CSV "
        f"file), or a scenario ({shipped('scenarios')}, or a TOML file)",
    )
    draw.add_argument("--gpus", type=gpu_count, metavar="N", help="GPUs of the job")
    draw.add_argument(
        "--days", type=days, default=54.0, metavar="D", help="how long to draw (default: 54)"
    )
    add_seed(draw)
    add_settings(draw)
    add_output(draw, "FILE", "draw a figure (PNG)")
    draw.add_argument(
        "--csv", type=Path, metavar="FILE", help="write the failures as a trace to run again"
    )
    add_json(draw, "print one JSON object; times in seconds")


def doctor(commands: Any) -> None:
    """Declare ``faultline doctor``."""
    parser = add_command(
        commands,
        "doctor",
        help="print versions, limits of this machine, and a self-test of the fabric",
        description="Print versions, the limits of this machine and what they mean, and let "
        "SimGrid play single flows. Exit status 1 if a check failed.",
    )
    add_json(parser, "print the checks as a JSON object")


def bench(commands: Any) -> None:
    """Declare ``faultline bench``."""
    parser = add_command(
        commands,
        "bench",
        help="measure how fast the engines, the matching, platforms and sweeps are",
        description="Measure the speed and memory of Faultline on this machine, one case after "
        "the other, each in a process of its own. Nothing else should run meanwhile.",
    )
    add_json(parser, "print the numbers as a JSON object")
    parser.add_argument("--quick", action="store_true", help="the smallest case of each kind")
