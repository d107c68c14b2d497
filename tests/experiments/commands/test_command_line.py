"""The command line as a whole: how it ends if its output is closed, and what all commands share."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import faultline
import pytest
from faultline.experiments.cli import parser
from faultline.experiments.commands import preparing
from faultline.experiments.commands.declarations.parsing import Parser
from faultline.experiments.config.errors import QUIET
from faultline.experiments.runs.table import read_table

from tests.child_processes import output_of_python, run_program, run_python
from tests.docs.pages import ROOT
from tests.experiments.command_line import Cli, in_a_process


def test_an_interrupt_while_modules_are_imported_is_one_line() -> None:
    interrupted = (
        "import sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'faultline.experiments.cli': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from faultline.experiments.entry import main; sys.exit(main())"
    )
    done = run_python("-c", interrupted, "list")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "faultline: interrupted\n")


def test_a_missing_package_is_reported_in_one_line() -> None:
    """As in an environment without rich, where pip left dependencies alone."""
    parts_down = (
        "import sys; sys.modules['rich'] = None; import importlib.metadata as known\n"
        "found = known.version\n"
        "def version(name):\n"
        "    if name == 'rich': raise known.PackageNotFoundError(name)\n"
        "    return found(name)\n"
        "known.version = version\n"
        "from faultline.experiments.entry import main; sys.exit(main())"
    )
    done = run_python("-c", parts_down, "list")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("faultline: not installed: rich; ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "unbuffered"),
    [
        ("--help", ""),
        ("--help", "1"),
        ("list platforms", ""),
        pytest.param("scenario show spare-study", "", marks=pytest.mark.slow),
        ("doctor", ""),
    ],
)
def test_a_command_with_a_closed_output_ends_quietly(words: str, unbuffered: str) -> None:
    """As if SIGPIPE had ended it; Rich, print and argparse each fail in a way of their own."""
    reading, writing = os.pipe()
    os.close(reading)
    pipes: dict[str, Any] = {"stdout": writing, "stderr": subprocess.PIPE}
    odd = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    try:
        done = in_a_process(*words.split(), capture_output=False, env=odd, **pipes)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_lack_of_memory_is_reported_in_a_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparing, "execute_doctor", Mock(side_effect=MemoryError()))
    assert "out of memory or threads" in cli.refused("doctor")


def test_an_interrupt_that_a_library_made_an_error_of_is_one(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pydantic, written in Rust, does so if it has called a function of ours meanwhile."""

    def execute(_: object) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("Error building a model") from None

    monkeypatch.setattr(preparing, "execute_doctor", execute)
    assert cli.all("doctor") == (130, "", "faultline: interrupted\n")


@pytest.mark.parametrize(("columns", "width"), [("40", 40), ("0", 160), ("many", 160)])
def test_columns_limit_the_width_of_a_table(
    columns: str, width: int, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    printed = cli("run", "spare-study", "--set", "job.steps=5", "--set", "job.groups=12")
    assert 39 <= max(map(len, printed.splitlines())) <= width


def test_no_name_and_no_cause_is_a_formula(tmp_path: Path, cli: Cli) -> None:
    printed = cli.refused("run", "spare-study", "--set", 'name="=1+2"')
    assert "is a formula to a spreadsheet; begin it with a letter" in printed
    log = tmp_path / "log.csv"
    log.write_text("time,node,cause\n0h,a,gpu\n5h,b,=cmd|calc\n")
    assert "is a formula to a spreadsheet" in cli.refused("failures", "fit", log)


@pytest.mark.parametrize(
    ("words", "option", "value"),
    [
        ("plan spare-sound --mtbf 5min", "mtbf", 300.0),
        ("plan spare-sound --gpus 100k", "gpus", 100_000),
        ("sweep first-look -o out.sqlite --memory-limit 4GB", "memory_limit", 4e9),
        ("run spare-sound --gpus 1.5M", "gpus", 1_500_000),
        ("run spare-sound --restart 90s", "restart", 90.0),
        ("sweep first-look --steps 2k", "steps", 2_000),
        ("platform probe hgx-h100 --bytes 1000", "bytes", 1000.0),
        ("failures draw llama3 --days 36h", "days", 1.5),
        ("failures draw llama3 --days 36", "days", 36.0),
    ],
)
def test_a_number_may_have_a_unit(words: str, option: str, value: float) -> None:
    assert getattr(parser().parse_args(words.split()), option) == value


def test_the_version_names_what_results_depend_on(cli: Cli) -> None:
    assert cli("--version").startswith(f"faultline {faultline.__version__} (SimGrid 4.1, Python 3.")


def test_a_quiet_sweep_prints_its_result_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.setenv(QUIET, "")  # So that it is as before afterwards.
    monkeypatch.delenv(QUIET)
    grid = tmp_path / "grid.toml"
    grid.write_text(
        'scenario = "spare-study"\n[set]\njob = {groups = 24, steps = 5}\n'
        '[grid]\n"strategy.redundancy" = [2]\n'
    )
    words = ["sweep", grid, "-o", tmp_path / "out.sqlite", "--workers", "1"]
    assert "next:" not in cli("-q", *words)
    again = cli.json(*words, "--quiet")
    assert (again["simulated"], again["already_there"], again["failed"]) == (0, 1, 0)
    assert Path(again["file"]).is_file()


def test_bash_completes_what_was_begun_by_the_readme_s_line(tmp_path: Path) -> None:
    pytest.importorskip("shtab")
    script = tmp_path / "completion"
    (words,) = re.findall(
        r"`\S+/shtab --shell bash (\S+)`", (ROOT / "README.md").read_text(encoding="utf-8")
    )
    script.write_text(output_of_python("-m", "shtab", "--shell", "bash", words))
    assert "{scenarios}" not in script.read_text()
    reports_failures = (
        f"source {script}; COMP_WORDS=(faultline platform ge); COMP_CWORD=2; "
        'COMP_LINE="faultline platform ge"; _shtab_faultline; echo "${COMPREPLY[@]}"'
    )
    done = run_program("bash", "-c", reports_failures, check=True)
    assert done.stdout.split() == ["generate"]


def test_a_key_is_left_open(cli: Cli) -> None:
    """As if the file had not stated it: the best redundancy by closed forms."""
    shown = cli.json("scenario", "show", "spare-study", "--set", "strategy.redundancy=2", "--json")
    again = ("--set", "strategy.redundancy=2", "--set", "~strategy.redundancy", "--json")
    left_open = cli.json("scenario", "show", "spare-study", *again)
    assert shown["keys"]["strategy.redundancy"]["value"] == 2
    assert left_open["keys"]["strategy.redundancy"]["value"] > 2


# What a command prints is not looked at.
_COMMAND = "from faultline.experiments.cli import main; sys.stdout = open('/dev/null', 'w'); main(["
_NOT_TO_RUN = (
    "'matplotlib', 'multiprocessing', 'networkx', 'pandas', 'psutil', 'scipy.optimize', "
    "'scipy.stats', 'simgrid', 'tqdm'"
)


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        (
            "from faultline.experiments.cli import parser; parser().format_help()",
            "'numpy', 'pandas', 'pydantic', 'simgrid'",
        ),
        # A worker begins before the first run, and again if it is lost.
        ("import faultline.experiments.runs.worker", "'pandas', 'scipy.stats', 'matplotlib'"),
        (f"{_COMMAND}'run', 'spare-study', '--set', 'job.steps=9', '--json'])", _NOT_TO_RUN),
        (f"{_COMMAND}'scenario', 'check', 'spare-study'])", _NOT_TO_RUN),
    ],
    ids=["help and version", "a process of a sweep", "a run", "a check"],
)
def test_nothing_is_imported_that_takes_long(code: str, unwanted: str) -> None:
    known = f"print(sorted({{{unwanted}}} & set(sys.modules)), file=sys.__stdout__)"
    script = f"import sys; {code}; {known}"
    assert output_of_python("-c", script) == "[]\n"


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ("run spare-sound --price 2 --json", "--price: has no effect with --json"),
        ("plan spare-sound --quick --worlds 8", "--quick: has no effect with --worlds"),
        ("platform diff a b --set job.steps=5", "--set: has no effect without SCENARIO"),
        (
            "run spare-sound --set detection.watchdog_s=9",
            "watchdog_s=9: has no effect with detection",
        ),
    ],
)
def test_an_option_without_effect_is_refused(words: str, printed: str, cli: Cli) -> None:
    assert printed in cli.refused(*words.split())


def conditional() -> Parser:
    read = Parser(prog="x")
    read.add_argument("--m", action="store_true", help="other")
    read.add_argument("--n", type=int, default=3, help="how many")
    read.add_argument("--set", action="append", default=[])
    read.add_argument("--kind", choices=("a", "b"))
    read.not_with("--m", "--n")
    read.only_with("--kind", "--set")
    read.not_with("--kind", "--m", values=("b",))
    return read


def test_an_option_with_a_condition_keeps_its_default() -> None:
    assert vars(conditional().parse_args([])) == {"m": False, "n": 3, "set": [], "kind": None}
    assert conditional().parse_args(["--m"]).n == 3
    assert conditional().parse_args(["--n", "4"]).n == 4
    assert conditional().parse_args(["--set", "1", "--set", "2", "--kind", "a"]).set == ["1", "2"]
    assert conditional().parse_args(["--m", "--kind", "a"]).m


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ("plann spare-sound", "did you mean 'plan'?"),
        ("run spare-study --mtbf 300", "--mtbf: 300 what? Write 5min if these are seconds"),
        ("run spare-study --mtbf 5m", "write 5min"),
        ("plan spare-sound --gpus 100kk", "'100kk' is no number of GPUs"),
        ("sweep first-look --mtfb 5min", "--mtfb 5min: no such argument; did you mean '--mtbf'?"),
        ("sweep spare-study", "that is a scenario; name a grid (adaptive, "),
        ("run first-look", "that is a grid; name a scenario (head-to-head, "),
        ("run SPARe", "that is a scheme; name a scenario"),
        ("run spare-stdy", "no such file (did you mean 'spare-study'?)"),
        ("plan spare-sound checkpoint", "checkpoint: that is a scheme"),
        ("explain-recovery spare-sound --schemes SPARe", "did you mean 'spare'?"),
        ("explain-recovery spare-sound --schemes spare ntp", "a list is written A,B"),
        ("sweep first-look --mtbf 5min", "--mtbf: first-look varies failures.mtbf_s"),
        ("run spare-study --gpus 100", "--gpus 100: cannot make 200 groups"),
        ("run spare-study --set strategy.name=ntp", "needs the layout of a group"),
        ("sweep first-look -o x.csv", "-o: x.csv: name a file that ends in .sqlite"),
        ("plot x.sqlite -o x.png", "-o: x.png: name a folder, without an ending"),
        ("failures draw llama3 -o x.txt", "ends in .png, .svg, .pdf or .csv"),
    ],
)
def test_a_wrong_word_is_answered_with_the_right_one(words: str, printed: str, cli: Cli) -> None:
    assert printed in cli.refused(*words.split())


def test_a_job_is_resized_alike_in_every_command(tmp_path: Path, cli: Cli) -> None:
    """Half of the GPUs fail half as often; a run and each point of a sweep have this rate."""
    size = ("--gpus", "300k", "--steps", "20", "--restart", "5min")
    record = cli.json("run", "spare-study", *size)
    assert (record["gpus"], record["steps"]) == (300_000, 20)
    assert "A failure every 10.00 minutes" in cli("run", "spare-study", *size)
    grid = tmp_path / "grid.toml"
    grid.write_text('scenario = "spare-study"\n[grid]\n"strategy.redundancy" = [2, 3]\n')
    results = tmp_path / "out.sqlite"
    cli.all("sweep", grid, *size, "-o", results, "--workers", "1")
    plan, table = read_table(results)
    assert set(table["gpus"].to_pylist()) == {300_000}
    fixed = plan.fixed
    assert (fixed["failures.mtbf_s"], fixed["times.restart_s"]) == (600.0, 300.0)
