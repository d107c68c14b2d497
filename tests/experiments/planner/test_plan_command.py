"""``faultline plan`` on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.experiments.command_line import Cli

COMMAND = ("plan",)
JOB = [
    "spare-study",
    *("--set", "job.groups=30", "--gpus", "3000", "--mtbf", "20min", "--restart", "20min"),
    *("--set", "job.steps=300", "--set", "restart.failure_during=absorbed"),
    *("--protections", "storage"),
]
AT_A_POINT = ("--priors", "0")


def test_json_has_all_that_was_planned(cli: Cli) -> None:
    content = cli.json(*JOB, *AT_A_POINT, "--schemes", "spare,replication", "--verify", "2")
    assert (content["gpus"], content["groups"], content["mtbf_s"]) == (3000, 30, 1200.0)
    assert content["restart_s"] == 1200.0
    assert {line["scheme"] for line in content["choices"]} == {"spare", "replication"}
    for line in content["choices"]:
        predicted, simulated = line["predicted"], line["simulated"]
        assert len(simulated["ratios"]) >= 3
        assert 0.0 < simulated["goodput"] < 1.0
        assert simulated["low"] <= simulated["time_to_train_ratio"] <= simulated["high"]
        if predicted is None:
            assert line["error"] is line["may_be_off"] is None
            continue
        ideal_days = 300 * (content["compute_s"] + content["all_reduce_s"]) / 86_400
        assert predicted["days"] == pytest.approx(predicted["time_to_train_ratio"] * ideal_days)
        assert predicted["gpu_hours"] == pytest.approx(predicted["days"] * 24 * 3000)
        assert line["error"]["low"] <= line["error"]["high"]
        assert line["may_be_off"] >= abs(line["error"]["mean"])
    advice = content["advice"]
    assert (advice["scheme"] is None) == bool(advice["undecided"])
    assert content["optimised"] == []


def test_the_answer_is_the_same_every_time(cli: Cli) -> None:
    few = ("--schemes", "spare,replication", "--verify", "1", "--steps", "50", "--quick")
    first, again = (cli(*JOB, "--json", *few) for _ in range(2))
    assert first == again


def test_the_answer_over_the_priors_has_a_page(cli: Cli, tmp_path: Path) -> None:
    few = ("--schemes", "spare,replication", "--steps", "50", "--quick", "--price", "2.5")
    printed = cli(*JOB, *few, "--page", tmp_path / "answer.html")
    assert "Candidates by expected regret" in printed
    assert "taken as given" in printed
    page = (tmp_path / "answer.html").read_text(encoding="utf-8")
    for sentence in printed.splitlines()[-4:-1]:
        assert sentence in page


def test_the_table_and_the_sentence_are_printed(cli: Cli) -> None:
    printed = cli(*JOB, "--verify", "0")
    assert "SPARe + checkpoint" in printed
    assert "checkpoint only" in printed
    assert printed.splitlines()[-1].startswith("No advice: nothing was verified")
    assert "NTP" in printed
    assert "…" not in printed


def test_optimise_reports_its_runs(cli: Cli) -> None:
    found = cli.json(*JOB, *AT_A_POINT, "--optimise", "--schemes", "spare", "--steps", "40")[
        "optimised"
    ][0]
    assert found["runs"] > 0
    assert found["steps"] == 40
    change = found["closed_form_takes_longer"]
    assert change["low"] <= change["mean"] <= change["high"]
    if found["best"] == found["closed_form"]:
        assert change["mean"] == 0.0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--mtbf", "0s"], "above zero"),
        (["--gpus", "10", "--set", "job.groups=200"], "10 GPUs cannot make 200 groups"),
        (["--schemes", "spare,wishful"], "no such scheme"),
        (["--set", "job.groups=30", "--set", "strategy.redundancy=20"], "at least 567 groups"),
        (["--restart", "60d"], "without another failure is only"),
        (["--verify", "0", "--optimise"], "has no effect with --verify 0"),
        (["--priors", "0", "--page", "page.html"], "has no effect with --priors 0"),
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
    assert said in cli.refused("spare-study", "--seeds", "1", *arguments)
    assert not list(tmp_path.iterdir())


def test_no_scheme_at_all_is_status_1(cli: Cli) -> None:
    hopeless = ["--set", "job.time_limit_s=1000", "--schemes", "checkpoint", "--verify", "0"]
    status, printed, _ = cli.all(*JOB, *hopeless)
    assert status == 1
    assert "left out: checkpoint only: a restart takes 0.0139 days, longer than" in printed
    assert printed.splitlines()[-1] == "No advice: each scheme is left out, for the reason above."
