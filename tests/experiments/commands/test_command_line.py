"""The command line as a whole: how it ends if its output is closed, and what all commands share."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import faultline
import pytest
from faultline.experiments.commands import preparing
from faultline.experiments.commands.declarations.parsing import Parser
from faultline.experiments.config.errors import QUIET
from faultline.experiments.config.scenario_file import shipped_scenarios
from faultline.experiments.screen import message_console
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_writer import write_xml

from tests.child_processes import output_of_python, run_program, run_python
from tests.docs.pages import ROOT
from tests.experiments.command_line import Cli, in_a_process


def end_without_a_reader(*words: str, unbuffered: str = "") -> tuple[int, str]:
    """Return exit status and complaints of a command whose standard output is closed."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        pipes: dict[str, Any] = {"stdout": writing, "stderr": subprocess.PIPE}
        odd = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        done = in_a_process(*words, capture_output=False, env=odd, **pipes)
    finally:
        os.close(writing)
    return done.returncode, done.stderr


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
        ("list clusters", ""),
        pytest.param("scenario show spare-study", "", marks=pytest.mark.slow),
        ("doctor", ""),
        ("platform check p.xml", ""),
    ],
)
def test_a_command_with_a_closed_output_ends_quietly(
    words: str, unbuffered: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if SIGPIPE had ended it; Rich, print and argparse each fail in a way of their own."""
    monkeypatch.chdir(tmp_path)
    write_xml(load_preset("hgx-h100", domains=2), tmp_path / "p.xml")
    assert end_without_a_reader(*words.split(), unbuffered=unbuffered) == (141, "")


def test_bad_input_is_reported_though_the_output_is_closed() -> None:
    status, complaints = end_without_a_reader("run", "no-such-scenario")
    assert status == 2
    assert complaints.startswith("faultline: no-such-scenario: ")
    assert complaints.count("\n") == 1


def test_another_pipe_that_breaks_is_an_error(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    broken = BrokenPipeError(32, "Broken pipe", "a worker")
    monkeypatch.setattr(preparing, "execute_doctor", Mock(side_effect=broken))
    assert cli.refused("doctor") == "faultline: a worker: Broken pipe\n"


@pytest.mark.parametrize("option", ["--timeline", "--set"])
def test_a_nul_is_refused_in_one_line(option: str, cli: Cli) -> None:
    assert cli.refused("run", "spare-sound", option, "a\0.json")


def test_the_version_names_what_results_depend_on(cli: Cli) -> None:
    assert cli("--version").startswith(f"faultline {faultline.__version__} (SimGrid 4.1, Python 3.")


@pytest.mark.parametrize("words", [["-q", "list", "scenarios"], ["list", "scenarios", "--quiet"]])
def test_quiet_counts_before_and_after_the_command(
    words: list[str], monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.setenv(QUIET, "")
    monkeypatch.delenv(QUIET)
    assert not message_console().quiet
    assert "spare-study" in cli(*words)
    assert message_console().quiet


def test_a_quiet_sweep_prints_its_result_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.setenv(QUIET, "1")
    grid = tmp_path / "grid.toml"
    grid.write_text(
        'scenario = "spare-study"\n[set]\njob = {groups = 24, steps = 5}\n'
        '[grid]\n"strategy.redundancy" = [2]\n'
    )
    words = ["sweep", grid, "-o", tmp_path / "out", "--workers", "1"]
    assert "next:" not in cli(*words)
    again = cli.json(*words)
    assert (again["simulated"], again["already_there"], again["failed"]) == (0, 1, 0)
    assert Path(again["tables"]["parquet"]).is_file()


def test_what_is_checked_is_json_too(cli: Cli, tmp_path: Path) -> None:
    sound = tmp_path / "sound.toml"
    sound.write_text("[job]\ngroups = 4\n")
    (found,) = cli.json("scenario", "check", str(sound))
    assert found == {"file": str(sound), "mistakes": []}


def completion(shell: str) -> str:
    """Return the script that the README's line prints."""
    (words,) = re.findall(
        r"`\S+/shtab --shell bash (\S+)`", (ROOT / "README.md").read_text(encoding="utf-8")
    )
    return output_of_python("-m", "shtab", "--shell", shell, words)


def test_bash_completes_what_was_begun(tmp_path: Path) -> None:
    pytest.importorskip("shtab")
    script = tmp_path / "completion"
    script.write_text(completion("bash"))
    reports_failures = (
        f"source {script}; COMP_WORDS=(faultline platform ge); COMP_CWORD=2; "
        'COMP_LINE="faultline platform ge"; _shtab_faultline; echo "${COMPREPLY[@]}"'
    )
    done = run_program("bash", "-c", reports_failures, check=True)
    assert done.stdout.split() == ["generate"]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("~job.groups=3", "write key=value"),
        ("~job.gruops", "did you mean 'job.groups'"),
        ("~", "~key"),
    ],
)
def test_a_key_that_cannot_be_left_open_is_reported(cli: Cli, setting: str, message: str) -> None:
    assert message in cli.refused("run", "spare-study", "--set", setting)


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
        # A sweep begins its processes again and again.
        ("import faultline.experiments.runs.fork_server", "'pandas', 'scipy.stats', 'matplotlib'"),
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
        ("plan spare-sound --verify 0 --seeds 3", "--seeds: has no effect with --verify 0"),
        ("compare . --metric goodput --price 2", "--price: has no effect with --metric"),
        ("platform diff a b --set job.steps=5", "--set: has no effect without SCENARIO"),
        ("head-to-head --only maps --seeds 3", "--seeds: has no effect with --only maps"),
        ("list studies --gpus 8", "--gpus: has no effect on studies"),
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
        ("--m --n 3", "--n: has no effect with --m; leave one of them out"),
        ("--set 1", "--set: has no effect without --kind; add that, or leave it out"),
        ("--m --kind b", "--m: has no effect with --kind b; leave one of them out"),
    ],
)
def test_a_condition_counts_for_what_is_stated(
    words: str, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        conditional().parse_args(words.split())
    assert capsys.readouterr().err == f"x: error: {printed}; see x --help\n"


def test_help_states_the_conditions() -> None:
    printed = " ".join(conditional().format_help().split())
    assert "how many (not with --m)" in printed
    assert "--set SET (only with --kind)" in printed
    assert "other (not with --kind b)" in printed


def test_help_names_what_is_shipped(cli: Cli) -> None:
    printed = " ".join(cli("run", "--help").split())
    assert f"or one of: {', '.join(sorted(shipped_scenarios()))}" in printed
    assert "double-tree" in cli("platform", "probe", "--help")


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_names_what_is_shipped_too(shell: str) -> None:
    pytest.importorskip("shtab")
    script = completion(shell)
    assert "reproduce" in script
    assert "{scenarios}" not in script
    assert ("spare-study" in script) == (shell == "zsh")
