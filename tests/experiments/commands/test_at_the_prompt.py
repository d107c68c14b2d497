"""What every command shares: versions, quiet, colours, completion, JSON of lists."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from faultline.experiments.cli import main
from faultline.experiments.config.errors import QUIET
from faultline.experiments.config.scenario_file import shipped_scenarios
from faultline.experiments.runs.player import message_console

from tests.experiments.asking import Ask


def test_the_version_names_what_results_depend_on(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("faultline 0.1.0 (SimGrid 4.1, Python 3.")


@pytest.mark.parametrize("words", [["-q", "scenario", "list"], ["scenario", "list", "--quiet"]])
def test_quiet_counts_before_and_after_the_command(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(QUIET, "")
    monkeypatch.delenv(QUIET)
    assert not message_console().quiet
    assert main(words) == 0
    assert message_console().quiet
    assert "spare-study" in capsys.readouterr().out


def test_a_quiet_sweep_tells_its_result_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(QUIET, "1")
    grid = tmp_path / "grid.toml"
    grid.write_text(
        'scenario = "spare-study"\n[set]\njob = {groups = 24, steps = 5}\n'
        '[grid]\n"strategy.redundancy" = [2]\n'
    )
    words = ["sweep", str(grid), "-o", str(tmp_path / "out"), "--workers", "1"]
    assert main(words) == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert "next:" not in told.out
    assert main([*words, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["played"], again["already_there"], again["failed"]) == (0, 1, 0)
    assert Path(again["tables"]["parquet"]).is_file()


def test_lists_are_json_too(ask: Ask, tmp_path: Path) -> None:
    assert [one["name"] for one in ask.json("scenario", "list")] == shipped_scenarios()
    assert "hgx-h100" in {one["name"] for one in ask.json("platform", "list")}
    sound, wrong = tmp_path / "sound.toml", tmp_path / "wrong.toml"
    sound.write_text("[job]\ngroups = 4\n")
    wrong.write_text("[job]\ngruops = 4\n")
    (found,) = ask.json("scenario", "check", str(sound))
    assert found == {"file": str(sound), "mistakes": []}


def test_no_color_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.console import Console

    monkeypatch.setenv("NO_COLOR", "1")
    console = Console(force_terminal=True)
    with console.capture() as printed:
        console.print("all is well", style="green")
    assert "\x1b[32m" not in printed.get()


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_shells_complete_commands(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    assert "reproduce" in capsys.readouterr().out


def test_bash_completes_what_was_begun(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "completion"
    script.write_text(capsys.readouterr().out)
    asks = (
        f"source {script}; COMP_WORDS=(faultline platform ge); COMP_CWORD=2; "
        'COMP_LINE="faultline platform ge"; _shtab_faultline; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", asks], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["generate"]


def test_another_shell_is_refused(ask: Ask) -> None:
    assert "use one of bash, zsh, tcsh" in ask.refused("completion", "fish")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("~job.groups=3", "write key=value"),
        ("~job.gruops", "did you mean 'job.groups'"),
        ("~", "~key"),
    ],
)
def test_a_key_that_cannot_be_left_open_is_told(ask: Ask, setting: str, said: str) -> None:
    assert said in ask.refused("run", "spare-study", "--set", setting)


def test_a_key_is_left_open(ask: Ask) -> None:
    """As if the file had not stated it: the best redundancy by closed forms."""
    shown = ask.json("scenario", "show", "spare-study", "--set", "strategy.redundancy=2", "--json")
    again = ("--set", "strategy.redundancy=2", "--set", "~strategy.redundancy", "--json")
    left_open = ask.json("scenario", "show", "spare-study", *again)
    assert shown["keys"]["strategy.redundancy"]["value"] == 2
    assert left_open["keys"]["strategy.redundancy"]["value"] > 2


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        (
            "from faultline.experiments.cli import parser; parser().format_help()",
            "'numpy', 'pandas', 'pydantic', 'simgrid'",
        ),
        # A sweep begins its processes again and again.
        ("import faultline.experiments.runs.fork_server", "'pandas', 'scipy.stats', 'matplotlib'"),
    ],
    ids=["help and version", "a run"],
)
def test_nothing_is_imported_that_takes_long(code: str, unwanted: str) -> None:
    script = f"import sys; {code}; print(sorted({{{unwanted}}} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
