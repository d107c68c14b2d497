"""What ``faultline`` can be asked, without importing what answers it: ``--help`` is quick."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from faultline.experiments.commands.arguments import (
    Command,
    Reader,
    above_zero,
    declare,
    shipped,
    whole,
)

PLOT_FORMATS = ("png", "svg", "pdf")

DRAWN_GPUS = 16_384
"""GPUs of the job, where a failure model is drawn by itself: those of Llama 3's pretraining."""

DRAWN_GPUS_PER_GROUP = 128
"""About as many make a group then: tensor parallelism 8 times pipeline parallelism 16."""

_LIMIT = "nothing runs within nothing; use more"
_GPUS = {"--gpus": whole(" is no number of GPUs: use 1 to 1000000000", most=10**9)}
_PRESETS = shipped("presets", "faultline.platforms")

_SEED = "--seed N [0]  default: 0"
_WORKERS = "--workers N  processes; default: one a core"
_SETTINGS = (
    "--set KEY=VALUE  change one dotted key of the scenario, or leave it open by ~KEY; may be "
    "given more than once"
)
_SCENARIO = f"SCENARIO  a TOML file, or one of: {shipped('scenarios')}\n{_SETTINGS}"
_COLLECTIVE = f"""\
FILE  a platform XML, or a shipped cluster: {_PRESETS}
--collective NAME [all-reduce]  default: all-reduce
--algorithm NAME  default: the first one of the collective
--bytes SIZE [1GB]  what a rank reduces, sends or gets in all, like 1GB or 64MiB (default: 1GB)
--ranks N  how many GPUs take part (default: all)
--fidelity flow|chunk [flow]  one flow an edge of the algorithm (default), or every message
--placement packed|spread [packed]  ranks on the first GPUs (default), or on one GPU of each
    scale-up domain"""

_ONE_RUN = (
    Command(
        "run",
        "play one scenario and print what came of it",
        "Play one scenario with one seed and print its record.",
        "example: faultline run spare-study --set job.groups=600 --set strategy.name=replication "
        "--set strategy.redundancy=3",
        f"""\
{_SCENARIO}
--engine replay|simgrid [replay]  replay jumps from event to event (default); simgrid plays every
    rank and message
{_SEED}
--price X  of a GPU-hour, in any currency: tells the cost
--timeline FILE  what happened when: a trace for Perfetto and chrome://tracing (.json), or a
    table (.csv, .parquet)""",
    ),
    Command(
        "explain-recovery",
        "show what a failure costs under each scheme, phase by phase",
        "Show the phases of the recovery from the failure of one GPU under each scheme, with "
        "seconds, ranks, bytes and where each number comes from. Prices of phases are in the "
        "scenario's [recovery]; state moves over its platform.",
        "example: faultline explain-recovery head-to-head --set recovery.preset=standby",
        f"""\
{_SCENARIO}
--schemes NAME...  only these (default: all)""",
    ),
    Command(
        "plan",
        "say which scheme to take, with which redundancy and checkpoint interval",
        "Find the best redundancy and checkpoint interval of each scheme by closed forms, verify "
        "the best few by simulation, and say which scheme to take.",
        "example: faultline plan spare-sound --gpus 100000 --mtbf 30min",
        f"""\
{_SCENARIO}

the cluster, instead of the scenario's:
--gpus N  GPUs of the whole job
--groups N  data-parallel groups that they make
--mtbf TIME  mean time between failures of the whole job, for example 5min; default: the
    scenario's, scaled with 1 / GPUs
--restart TIME  time of a restart
--save TIME  time to write a checkpoint

how it is planned:
--schemes A,B  schemes that come into question; default: all but those whose options have to say
    how a group is cut into stages or domains (ntp, mecefo, ...)
--protections A,B  ways to keep the state that come into question; default: all that fit the job
--seeds N [3]  seeds of a verification; default 3, and more for what they cannot tell apart
--verify N [3]  choices to verify at least; each scheme's best over each protection always is;
    default 3
--steps N  steps of simulated jobs; default: enough for 20 restarts, at most the whole job
--no-simulation  closed forms alone
or --optimise  search the best redundancy and interval by simulation too

--price X  of a GPU-hour, in any currency: tells the cost
--page FILE  write one sheet of A4 for the decision (HTML)
-o --output FOLDER  draw each scheme's time to train over redundancy and interval, with its
    table""",
    ),
)

_MANY_RUNS = (
    Command(
        "sweep",
        "play a grid of scenarios and seeds; goes on where it was interrupted",
        "Play every point of a grid with every seed. Results land in DIR as they come; the same "
        "command again plays only what is missing. Tables with a row a run stand in DIR at the "
        "end.",
        "example: faultline sweep first-look -o results/first-look",
        f"""\
GRID  a TOML file, or one of: {shipped("grids")}
-o --output DIR!  where results are kept
--workers N  runs at a time; default: one a core
or --scheduler ADDRESS  play on the workers of a Dask scheduler: tls://HOST:PORT with certificates,
    tcp://127.0.0.1:PORT without
--certificates DIR  the folder that faultline cluster certificates made
--time-limit TIME  real time a run may take, for example 10min; a run that takes longer has failed
--memory-limit SIZE  memory a run may take, for example 4GB; a run that takes more has failed
--retry-failed  play runs that failed before once more
--accept-other-code  keep results that were made before the simulation's source changed""",
        {
            "--time-limit": above_zero("time", _LIMIT),
            "--memory-limit": above_zero("size", _LIMIT),
        },
    ),
    Command(
        "compare",
        "compare the schemes of a sweep, seed by seed",
        "Compare the values of one axis of a sweep with a baseline: differences between runs of "
        "the same seed and the same setting, with 95 %% intervals by paired t.",
        "example: faultline compare results/mtbf --metric availability --baseline replication",
        """\
DIR  what faultline sweep wrote
--metric NAME [time_to_train_ratio]  column of the sweep's table; default: time_to_train_ratio
--by KEY  axis whose values are compared; default: strategy.name where it was varied, else the
    first axis
--baseline VALUE  what to compare with; default: the axis's first value
--csv FILE  write all rows to a CSV file""",
        execute="sweep:execute_compare",
    ),
    Command(
        "plot",
        "draw a sweep, or the course of one run",
        "Draw the usual pictures of a sweep, or those you name; or the course of one run, from "
        "its timeline or played for it.",
        "examples: faultline plot results/mtbf --kind heat-map --x failures.mtbf_s "
        "--y restart.duration_s; faultline plot --timeline spare-study --set job.steps=1000 "
        "-o course.png",
        f"""\
SOURCE?  a folder that faultline sweep wrote, or a file that faultline run --timeline wrote
-o --output PATH  of a sweep: a folder (default: figures, in the sweep's); of a run: a file
    (default: timeline.png)
--format {"|".join(PLOT_FORMATS)} [png]  default: png

pictures of a sweep:
--kind curves|heat-map|best-map|schemes|badput  one kind of picture instead of the usual
--x KEY  axis to the right; default: the first numeric
--y KEY  axis upwards, of a map
--metric NAME  default: time_to_train_ratio
--hue KEY  axis of the lines; default: strategy.name
--column KEY  axis of the panels

the course of a run:
--timeline SCENARIO  play this scenario and draw its run
{_SETTINGS}
--engine replay|simgrid [replay]
{_SEED}
--window START END  part of the run to be drawn larger, in simulated seconds""",
        {"--window": float},
    ),
    Command(
        "report",
        "write one page that tells what a sweep found",
        "Write one self-contained HTML page from a sweep: the answer, what was asked, "
        "comparisons, figures, where the time went, all points. It needs no network.",
        "example: faultline report results/my-sweep -o report.html",
        """\
DIR  what faultline sweep wrote
--price X  of a GPU-hour, in any currency: tells the cost
-o --output FILE  the page; default: report.html in DIR""",
        execute="plot:execute_report",
    ),
    Command(
        "reproduce",
        "play a published comparison and print it beside the published numbers",
        "Play a published comparison again: tables and figures go to results/NAME, the headline "
        "to the screen.",
        options=f"""\
NAME  which one; 'list' tells what there is
--full  everything that was published
--seeds K  default: 3; adaptive: 5
{_WORKERS}
-o --output DIR  default: results/NAME""",
    ),
    Command(
        "head-to-head",
        "play all schemes on one platform, and draw the map of which is best where",
        "All schemes of this project, with one model on one platform, under the same failures: a "
        "table of three settings, what becomes of one of them where every event costs everybody "
        "the same, or where the layers divide otherwise, and two planes that show which scheme "
        "trains soonest and which with the fewest GPU-hours. Played cells are kept in DIR/cells: "
        "the same command goes on where it was interrupted.",
        "example: faultline head-to-head --quick --schemes checkpoint spare/reft",
        f"""\
--quick  a coarse grid and few seeds
--side N  cells on a side of a plane; default: 20, or 4
--seeds K  seeds of a cell; default: 3, or 1
--schemes NAME...  schemes, or one as spare/reft; default: all
--only settings|stalls|layers|restart|domains  the table of settings, what stalls or layers do to
    it, or one plane; default: all
{_WORKERS}
-o --output DIR  default: results/head-to-head""",
    ),
)

_SCENARIOS = Command(
    "scenario",
    "list, show, check and explain scenarios",
    "Scenarios are TOML files that say what is trained, under which failures, and by which scheme. "
    "docs/scenario-reference.md documents every key.",
    parts=(
        Command("list", "list the scenarios that come with Faultline"),
        Command(
            "show",
            "print a scenario with every value filled in, as TOML that can be run",
            "Print a scenario with every value filled in: defaults, redundancy and checkpoint "
            "interval by the closed forms, what was measured on the platform. It is TOML: kept in "
            "a file of this folder, it gives the same records.",
            "example: faultline scenario show spare-study --set job.groups=600 > mine.toml",
            f"""\
{_SCENARIO}
--plain  without comments
--all  also defaults on which nothing depends here""",
        ),
        Command(
            "check",
            "name every mistake of scenario files",
            "Name every mistake of scenario files, one a line, with its place; the exit status is "
            "2 if there is any.",
            options="""\
FILE...  a TOML file""",
            read={"FILE": str},
        ),
        Command(
            "explain",
            "explain a key or a table: meaning, unit, default, range, choices, source",
            epilog="example: faultline scenario explain failures.clock",
            options="KEY?  a dotted key, or a table; all tables if left out",
        ),
        Command("reference", "print the reference of all keys as Markdown", plain=True),
        Command(
            "schema",
            "print the JSON Schema of scenario files, for editors",
            "Print the JSON Schema of scenario files: editors that know TOML complete keys by it, "
            "show what they mean and underline mistakes.",
            "example: faultline scenario schema > scenario.schema.json, and "
            "'#:schema ./scenario.schema.json' as the first line of a scenario",
            plain=True,
        ),
    ),
)

_PLATFORMS = Command(
    "platform",
    "generate, check, draw, probe and list platforms",
    "Platforms are SimGrid XML files, generated from a cluster spec and made to be edited. "
    "docs/modelling-a-cluster.md goes through it step by step.",
    parts=(
        Command(
            "generate",
            "write the XML of a cluster spec",
            epilog="example: faultline platform generate hgx-h100 --set domains=4 "
            "--set nic.bandwidth=800Gbps -o four-servers.xml",
            options=f"""\
SPEC  a TOML file, or one of: {_PRESETS}
-o --output FILE!
--set KEY=VALUE  change one key of the spec, dotted or short; may be given more than once
--plane  only one rail plane, which stands for the cluster""",
        ),
        Command(
            "check",
            "load a platform in SimGrid and say what it is, or what is broken in it",
            options="FILE",
        ),
        Command(
            "draw",
            "draw the topology of a platform",
            options="FILE\n-o --output FILE!  one that ends in .svg, .png or .pdf",
        ),
        Command("list", "list the clusters that come with Faultline"),
        Command(
            "diff",
            "say which phases of a job an edit changes, and by how much",
            "Time the phases of a job on two platforms: its step and what that is made of, the "
            "all-reduce, writing and loading a checkpoint, snapshots and restarts. Without a "
            "scenario, a job of which each scale-up domain is a group.",
            "example: faultline platform diff servers.xml edited.xml --scenario mine.toml",
            """\
A  a platform XML, or a shipped cluster
B  another one
--scenario SCENARIO  the job: a TOML file, or the name of a shipped scenario
--set KEY=VALUE  change one dotted key of the scenario; may be given more than once""",
            {"A": str, "B": str},
            "platform_edits:execute_diff",
        ),
        Command(
            "import",
            "make a platform of a graph, or a spec of what nvidia-smi says",
            "Make a platform XML of a graph (NetworkX's node-link JSON, or GraphML), or a cluster "
            "spec of what `nvidia-smi topo -m` prints on one server and a table of the switches "
            "that adapters are plugged into. docs/modelling-a-cluster.md says what they contain.",
            "example: faultline platform import topo.txt --switches switches.csv --like hgx-h100 "
            "-o ours.toml",
            f"""\
FILE  a graph (.json, .graphml), or the text that nvidia-smi topo -m prints
-o --output FILE!  a platform XML of a graph, else a spec (TOML) for platform generate
--switches FILE  CSV with the columns node, nic and switch
--like SPEC [hgx-h100]  a shipped cluster whose GPUs, hosts and storage these servers have:
    {_PRESETS}""",
            {"FILE": Path},
            "platform_edits:execute_import",
        ),
        Command(
            "probe",
            "measure a collective on a platform",
            "Measure one collective on an idle platform in SimGrid: its time, its bandwidths as "
            "nccl-tests counts them, and which links limit it. Beside it stands the alpha-beta "
            "time of the algorithm, as if all edges were like the one between the first and the "
            "last rank.",
            "example: faultline platform probe hgx-h100 --collective all-reduce "
            "--algorithm ring --bytes 1GB --ranks 64. Algorithms: {algorithms}",
            _COLLECTIVE,
            {"FILE": str, "--ranks": int},
            "collective:execute_probe",
        ),
        Command(
            "break",
            "let a component fail in the middle of a collective",
            "Play one collective in SimGrid while a GPU, host, scale-up domain, rack, switch or "
            "link fails, and tell which ranks die, which hang until their watchdog fires, and "
            "which got through before.",
            "example: faultline platform break hgx-h100 --component leaf-00000-03 --at 5ms "
            "--watchdog 30s --algorithm ring --bytes 1GB --ranks 64",
            f"""\
{_COLLECTIVE}
--component NAME!  what fails: gpu-000003, host-00001, domain-00000, rack-00000, a switch or a link
--at TIME [1ms]  when it fails (default: 1ms)
--watchdog TIME [600s]  when ranks give up waiting (default: 600s)""",
            {"FILE": str, "--ranks": int, "TIME": str},
            "collective:execute_break",
        ),
        Command(
            "collisions",
            "tell what hashing flows onto spines costs an all-reduce",
            "Compare routing by hash (ECMP, over several seeds) and by destination (D-mod-k) with "
            "adaptive routing: how much longer the all-reduce of a job takes. Groups take GPUs in "
            "order, and GPU k of every group sends to GPU k of the next, all at once.",
            "example: faultline platform collisions hgx-h100 --set domains=64 "
            "--set domains_per_leaf=16 --set spines=16 --groups 4",
            f"""\
SPEC  a TOML file, or one of: {_PRESETS}
--set KEY=VALUE  change one key of the spec, dotted or short; may be given more than once
--groups N!  how many groups the job has
--seeds N [20]  seeds of the hash (default: 20)""",
        ),
    ),
)

_LOG = """\
LOG  sacct --parsable2, a range of Prometheus in JSON, milliseconds,add|remove,node, a CSV file with
    time,node, or a trace
--nodes N  nodes of the cluster (default: those that the log names)
--gpus-per-node N [8]  GPUs of a node (default: 8)
--span TIME  for how long the cluster was watched, if longer than the log shows, for example 90d"""
_LOG_READERS: dict[str, Reader] = {
    "LOG": Path,
    "--nodes": whole(" is no number of nodes: use 1 to 1000000", 1, 10**6),
    "--gpus-per-node": whole(" is no number of GPUs: use 1 to 1000", 1, 1000),
}

_FAILURES = Command(
    "failures",
    "list failure models, and draw what they produce",
    "Failure models: which there are, and what they produce.",
    parts=(
        Command(
            "list",
            "list the shipped mixes of causes",
            "List the shipped mixes of causes and how often they strike a job.",
            options=f"""\
--gpus N [{DRAWN_GPUS}]  GPUs of the job (default: {DRAWN_GPUS})""",
            read=_GPUS,
        ),
        Command(
            "draw",
            "draw the failures of a model or a scenario",
            "Draw failures and say by cause how many came and how many were expected. A model by "
            f"itself strikes {DRAWN_GPUS:,} GPUs in groups of {DRAWN_GPUS_PER_GROUP}; a scenario "
            "has a job of its own.",
            "example: faultline failures draw llama3 --days 54 -o llama3.png --csv llama3.csv",
            f"""\
WHAT  a mix ({shipped("mixes")}, or a TOML file with causes), a trace (a CSV file), or a scenario
    ({shipped("scenarios")}, or a TOML file)
--gpus N  GPUs of the job
--days D [54]  how long to draw (default: 54)
{_SEED}
{_SETTINGS}
-o --output FILE  draw a figure (PNG)
--csv FILE  write the failures as a trace to run again""",
            _GPUS,
        ),
        Command(
            "import",
            "make a trace of a log: Slurm, Prometheus, CSV, preemptions",
            "Read a log of failures and write it as a trace, each node a host of the job.",
            "example: faultline failures import sacct.txt -o trace.csv",
            f"""\
{_LOG}
-o --output FILE!  the trace to write""",
            _LOG_READERS,
            "failure_logs:execute_import",
        ),
        Command(
            "fit",
            "fit rates, shapes, lemons and repair times to a log",
            "Fit a log of failures: rates by cause, Weibull shapes, how nodes differ, times to "
            "repair, each with a 95 % interval or what speaks against it.",
            "example: faultline failures fit sacct.txt --mix ours.toml -o fit.png",
            f"""\
{_LOG}
-o --output FILE  draw a figure (PNG)
--mix FILE  write what was fitted as a mix that scenarios can use""",
            _LOG_READERS,
            "failure_logs:execute_fit",
        ),
    ),
)

_NEW = Command(
    "new",
    "begin a package with a scheme of your own",
    "Write a package that Faultline finds once it is installed. docs/adding-a-scheme.md says what "
    "a scheme answers.",
    parts=(
        Command(
            "scheme",
            "write a package with a scheme, its test and its entry point",
            epilog="example: faultline new scheme buddies",
            options="""\
NAME  what the scheme is called in scenarios
-o --output DIR  a new folder; default: NAME""",
        ),
    ),
)

_MACHINE = (
    Command(
        "cluster",
        "prepare a cluster of many machines",
        parts=(
            Command(
                "certificates",
                "make the certificates by which its machines know one another",
                "Make an authority, and one certificate with its key for all machines of a "
                "cluster. The authority's key is not kept. See docs/many-machines.md.",
                options="DIR  a new folder, to be copied to every machine",
            ),
        ),
    ),
    Command(
        "doctor",
        "print versions, limits of this machine, and a self-test of the fabric",
        "Print versions, the limits of this machine and what they mean, and let SimGrid play "
        "single flows. Exit status 1 if a check failed.",
        options="""\
--clean  empty the cache of generated platforms and measurements, and check nothing""",
        execute="machine:execute_doctor",
    ),
    Command(
        "bench",
        "measure how fast the engines, the matching, platforms and sweeps are",
        "Measure the speed and memory of Faultline on this machine, one case after the other, "
        "each in a process of its own. Nothing else should run meanwhile.",
        options="""\
--quick  the smallest case of each kind""",
        execute="machine:execute_bench",
    ),
)


_COMPLETION = Command(
    "completion",
    "print what makes a shell complete commands and options",
    "Print a script by which a shell completes commands, options and files.",
    "example: faultline completion bash > ~/.local/share/bash-completion/completions/faultline",
    "SHELL  one of: bash, zsh, tcsh",
    plain=True,
)
_SCHEMA = Command(
    "schema",
    "print the JSON Schema of what commands print with --json",
    "Print the JSON Schema of what commands print with --json: $defs has a form for each command, "
    "under its words with hyphens between them. Numbers are in SI units unless their name says "
    "otherwise; what is unknown or infinite is null.",
    plain=True,
)


ALL = (
    *_ONE_RUN,
    *_MANY_RUNS,
    _SCENARIOS,
    _PLATFORMS,
    _FAILURES,
    _NEW,
    *_MACHINE,
    _COMPLETION,
    _SCHEMA,
)
"""All commands, in the order in which ``--help`` lists them."""


def add_parsers(commands: Any) -> None:
    """Declare all commands."""
    declare(commands, ALL)
