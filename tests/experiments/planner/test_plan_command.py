"""``faultline plan`` on the command line."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path

import pytest

from tests.experiments.command_line import Cli

COMMAND = ("plan",)
JOB = [
    "spare-study",
    *("--set", "job.groups=30", "--gpus", "3000", "--mtbf", "20min", "--restart", "20min"),
    *("--set", "job.steps=300", "--set", "restart.failure_during=absorbed"),
    *("--protections", "storage", "--schemes", "spare,replication"),
]
FEW = ("--at-values", "--worlds", "4", "--steps", "100")


def test_json_has_all_that_was_planned(cli: Cli) -> None:
    content = json.loads(cli.planned(*JOB, *FEW, "--price", "2.5", "--json"))
    assert (content["gpus"], content["groups"], content["mtbf_s"]) == (3000, 30, 1200.0)
    assert (content["restart_s"], content["worlds"]) == (1200.0, 4)
    assert {row["scheme"] for row in content["schemes"]} == {"spare", "replication"}
    for row in content["schemes"]:
        bands, ideal_days = row["bands"], 300 * (content["compute_s"] + content["all_reduce_s"])
        assert 0.0 < bands["low"] <= bands["mean"] <= content["cap_s"]
        assert row["days"] == pytest.approx(row["time_to_train_ratio"] * ideal_days / 86_400)
        assert row["gpu_hours"] == pytest.approx(row["days"] * 24 * 3000)
        assert row["cost"] == pytest.approx(2.5 * row["gpu_hours"])
    assert content["advised"] == content["schemes"][0]["scheme"]
    assert sum(row["best"]["mean"] for row in content["schemes"]) == pytest.approx(1.0)


def test_a_pipe_gets_the_first_answer_once(cli: Cli) -> None:
    _, printed, message = cli.all(*JOB, *FEW)
    assert message.startswith("First answer, by closed forms at the stated values, in ")
    assert message.count("\n") == 1
    assert "First answer" not in printed


def test_the_answer_is_the_same_every_time(cli: Cli) -> None:
    first, again = (cli.planned(*JOB, "--json", "--quick", "--steps", "50") for _ in range(2))
    assert first == again


def test_the_page_has_the_sentences_of_the_terminal(cli: Cli, tmp_path: Path) -> None:
    few = ("--steps", "50", "--quick", "--price", "2.5")
    printed = cli.planned(*JOB, *few, "-o", tmp_path / "answer.html")
    page = unescape((tmp_path / "answer.html").read_text(encoding="utf-8"))
    sentences = [
        line for line in printed.splitlines() if line.startswith(("Take", "A tie", "If", "In each"))
    ]
    assert len(sentences) == 2
    for sentence in sentences:
        assert sentence in page


def test_legends_are_printed_on_request(cli: Cli) -> None:
    brief, explained = (cli.planned(*JOB, *FEW, *one) for one in ((), ("--explain",)))
    for text in ("machines: ", "within 1 %: of the soonest", "Taken as given"):
        assert text not in brief
        assert text in explained


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--mtbf", "0s"], "above zero"),
        (["--gpus", "10", "--set", "job.groups=200"], "--gpus 10: cannot make 200 groups"),
        (["--schemes", "spare,wishful"], "no such scheme"),
        (["--set", "job.groups=30", "--set", "strategy.redundancy=20"], "at least 567 groups"),
        (["--restart", "60d"], "without another failure is only"),
        (["--worlds", "3"], "a whole number from 4"),
        (["--worlds", "9", "--quick"], "--quick: has no effect with --worlds"),
        (["--json", "--explain"], "--explain: has no effect with --json"),
    ],
)
def test_bad_input_is_answered_in_one_line(
    arguments: list[str],
    said: str,
    cli: Cli,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in cli.refused("spare-study", *arguments)
    assert not list(tmp_path.iterdir())


def test_no_scheme_at_all_is_status_1(cli: Cli) -> None:
    hopeless = ["--set", "job.time_limit_s=1000", "--schemes", "checkpoint"]
    status, printed, _ = cli.all(*JOB, *FEW, *hopeless)
    assert status == 1
    assert "left out: checkpoint only: a restart takes 20.00 minutes, longer than" in printed
    assert "No advice: each scheme is left out" in printed
