"""What ``faultline`` can be asked, without importing what answers it: ``--help`` is quick."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from faultline.experiments.commands.arguments import (
    ENGINE,
    POSITIVE,
    SCENARIO,
    SEED,
    SETTINGS,
    Command,
    Group,
    above_zero,
    days,
    declare,
    json_option,
    names,
    option,
    output_option,
    shipped,
    whole,
)
from faultline.experiments.commands.platform_parsers import PLATFORM
from faultline.experiments.commands.sweep_parsers import SWEEP_COMMANDS

DRAWN_GPUS = 16_384
"""GPUs of the job, where a failure model is drawn by itself: those of Llama 3's pretraining."""

DRAWN_GPUS_PER_GROUP = 128
"""About as many make a group then: tensor parallelism 8 times pipeline parallelism 16."""

_GPUS = whole(" is no number of GPUs: use 1 to 1000000000", most=10**9)
_TIME = above_zero("time", "use a time above zero, for example 5min")


_RUN = Command(
    "run",
    "play one scenario and print what came of it",
    "Play one scenario with one seed and print its record.",
    "example: faultline run spare-study --set job.groups=600 --set strategy.name=replication "
    "--set strategy.redundancy=3",
    (
        *SCENARIO,
        option(
            "--engine",
            "replay jumps from event to event (default); simgrid plays every rank and message",
            **ENGINE,
        ),
        SEED,
        json_option("print the record as one JSON object"),
        option("--timeline FILE", "write the events of the run to a CSV file", Path),
    ),
)

_CLUSTER = Group(
    "the cluster, instead of the scenario's",
    (
        option("--gpus N", "GPUs of the whole job", POSITIVE),
        option("--groups N", "data-parallel groups that they make", POSITIVE),
        option(
            "--mtbf TIME",
            "mean time between failures of the whole job, for example 5min; default: the "
            "scenario's, scaled with 1 / GPUs",
            _TIME,
        ),
        option("--restart TIME", "time of a restart", _TIME),
        option("--save TIME", "time to write a checkpoint", _TIME),
    ),
)

_EFFORT = Group(
    "how it is planned",
    (
        option(
            "--schemes A,B",
            "schemes that come into question; default: all but those whose options have to say "
            "how a group is cut into stages or domains (ntp, mecefo, ...)",
            names,
        ),
        option(
            "--protections A,B",
            "ways to keep the state that come into question; default: all that fit the job",
            names,
        ),
        option(
            "--seeds N",
            "seeds of a verification; default 3, and more for what they cannot tell apart",
            POSITIVE,
            default=3,
        ),
        option(
            "--verify N",
            "choices to verify at least; each scheme's best over each protection always is; "
            "default 3",
            POSITIVE,
            default=3,
        ),
        option(
            "--steps N",
            "steps of simulated jobs; default: enough for 20 restarts, at most the whole job",
            POSITIVE,
        ),
        Group(
            None,
            (
                option("--no-simulation", "closed forms alone"),
                option("--optimise", "search the best redundancy and interval by simulation too"),
            ),
        ),
    ),
)

_PLAN = Command(
    "plan",
    "say which scheme to take, with which redundancy and checkpoint interval",
    "Find the best redundancy and checkpoint interval of each scheme by closed forms, verify the "
    "best few by simulation, and say which scheme to take.",
    "example: faultline plan spare-sound --gpus 100000 --mtbf 30min",
    (
        *SCENARIO,
        _CLUSTER,
        _EFFORT,
        json_option("print the plan as one JSON object"),
        output_option(
            "FOLDER",
            "draw each scheme's time to train over redundancy and interval, with its table",
        ),
    ),
)

_SCENARIO_COMMAND = Command(
    "scenario",
    "list, show, check and explain scenarios",
    "Scenarios are TOML files that say what is trained, under which failures, and by which "
    "scheme. docs/scenario-reference.md documents every key.",
    parts=(
        Command("list", "list the scenarios that come with Faultline"),
        Command(
            "show",
            "print a scenario with every value filled in, as TOML that can be run",
            "Print a scenario with every value filled in: defaults, redundancy and checkpoint "
            "interval by the closed forms, what was measured on the platform. It is TOML: kept in "
            "a file of this folder, it gives the same records.",
            "example: faultline scenario show spare-study --set job.groups=600 > mine.toml",
            (
                *SCENARIO,
                option("--plain", "without comments"),
                option("--all", "also defaults on which nothing depends here"),
                json_option("print one JSON object: scenario and origins"),
            ),
        ),
        Command(
            "check",
            "name every mistake of scenario files",
            "Name every mistake of scenario files, one a line, with its place; the exit status is "
            "2 if there is any.",
            options=(option("FILE", "a TOML file", nargs="+", dest="files"),),
        ),
        Command(
            "explain",
            "explain a key or a table: meaning, unit, default, range, choices, source",
            epilog="example: faultline scenario explain failures.clock",
            options=(option("KEY", "a dotted key, or a table; all tables if left out", nargs="?"),),
        ),
        Command("reference", "print the reference of all keys as Markdown"),
    ),
)

_FAILURES = Command(
    "failures",
    "list failure models, and draw what they produce",
    "Failure models: which there are, and what they produce.",
    parts=(
        Command(
            "list",
            "list the shipped mixes of causes",
            "List the shipped mixes of causes and how often they strike a job.",
            options=(
                option(
                    "--gpus N",
                    f"GPUs of the job (default: {DRAWN_GPUS})",
                    _GPUS,
                    default=DRAWN_GPUS,
                ),
                json_option("print one JSON list; times in seconds"),
            ),
        ),
        Command(
            "draw",
            "draw the failures of a model or a scenario",
            "Draw failures and say by cause how many came and how many were expected. A model by "
            f"itself strikes {DRAWN_GPUS:,} GPUs in groups of {DRAWN_GPUS_PER_GROUP}; a scenario "
            "has a job of its own.",
            "example: faultline failures draw llama3 --days 54 -o llama3.png --csv llama3.csv",
            (
                option(
                    "WHAT",
                    f"a mix ({shipped('mixes')}, or a TOML file with causes), a trace (a CSV "
                    f"file), or a scenario ({shipped('scenarios')}, or a TOML file)",
                ),
                option("--gpus N", "GPUs of the job", _GPUS),
                option("--days D", "how long to draw (default: 54)", days, default=54.0),
                SEED,
                SETTINGS,
                output_option("FILE", "draw a figure (PNG)"),
                option("--csv FILE", "write the failures as a trace to run again", Path),
                json_option("print one JSON object; times in seconds"),
            ),
        ),
    ),
)

_DOCTOR = Command(
    "doctor",
    "print versions, limits of this machine, and a self-test of the fabric",
    "Print versions, the limits of this machine and what they mean, and let SimGrid play single "
    "flows. Exit status 1 if a check failed.",
    options=(json_option("print the checks as a JSON object"),),
)

_BENCH = Command(
    "bench",
    "measure how fast the engines, the matching, platforms and sweeps are",
    "Measure the speed and memory of Faultline on this machine, one case after the other, each in "
    "a process of its own. Nothing else should run meanwhile.",
    options=(
        json_option("print the numbers as a JSON object"),
        option("--quick", "the smallest case of each kind"),
    ),
)


def add_parsers(commands: Any) -> None:
    """Declare all commands, in the order in which ``--help`` lists them."""
    others = (_SCENARIO_COMMAND, PLATFORM, _FAILURES, _DOCTOR, _BENCH)
    declare(commands, (_RUN, _PLAN, *SWEEP_COMMANDS, *others))
