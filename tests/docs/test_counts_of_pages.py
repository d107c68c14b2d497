"""Numbers that pages count from the rows of studies: sentences are parsed, and rows counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.recoveries import ExplainedRecovery, explained_recoveries
from faultline.experiments.studies.base import beside_published, listed_rows
from faultline.experiments.studies.claims import judged_rows, tally
from faultline.experiments.studies.ntp.setting import utilisation_table
from faultline.experiments.studies.recovery.study import RecoveryStudy
from faultline.experiments.studies.stage import Stage
from rich.console import Console

from tests.docs.pages import numbers


def test_recoveries_are_counted(tmp_path: Path) -> None:
    study = RecoveryStudy()
    with Stage(tmp_path, Console(quiet=True), workers=1) as stage:
        results = study.simulate(stage)
    rows = [row for row in study.rows(results) if row.quantity == "recovery"]
    table = judged_rows(study.claims(), rows, study.within)
    counts = tally(table)
    met, missed = counts["inside"], counts["outside"]
    assert numbers("README.md", r"(\d+) measured \[recoveries\]") == [len(rows)]
    assert numbers(
        "docs/results.md", r"Of (\d+) measured ones (\d+) are .*? and (\d+) of (\d+) are within"
    ) == [len(rows), met + missed, met, met + missed]
    assert numbers(
        "docs/recovery.md",
        r"phases of (\d+) recoveries .*?; (\d+) of (\d+) predictions .*? fitted on (\d+), and "
        r"(\d+) hit",
    ) == [
        len(rows),
        met,
        met + missed,
        table.kind.eq("calibrated").sum(),
        table.kind.eq("same constant").sum(),
    ]


def _short_of_restarts() -> Iterator[ExplainedRecovery]:
    schemes = ["spare", "replica-drop", "mecefo", "oobleck"]
    for one in explained_recoveries(load_scenario("head-to-head"), schemes):
        if isinstance(one, ExplainedRecovery) and one.recovery != "restart":
            yield one


def test_recoveries_short_of_a_restart_take_what_pages_state() -> None:
    took_s = {(one.scheme, one.event): one.duration_s for one in _short_of_restarts()}
    assert numbers(
        "docs/results.md", r"recovery short of a restart takes (\d+) to (\d+) s"
    ) == pytest.approx([min(took_s.values()), max(took_s.values())], abs=0.5)
    (oobleck_s,) = numbers("docs/head-to-head.md", r"128 communicators (\d+) s and more")
    assert oobleck_s == pytest.approx(took_s["oobleck", "a GPU fails"], abs=0.5)
    assert numbers(
        "docs/head-to-head.md", r"SPARe and replica drop lose (\d+) s, MeCeFO (\d+) s"
    ) == pytest.approx([took_s["spare", "a GPU fails"], took_s["mecefo", "a GPU fails"]], abs=0.5)


def test_ntp_s_utilisations_are_counted() -> None:
    made = {"utilisation": utilisation_table()}
    compared = beside_published("ntp", listed_rows("ntp", made))
    rows = [row for row in compared if row.published is not None]
    counts = tally(judged_rows((), rows, 0.05))
    assert numbers("README.md", r"(\d+) of (\d+) of our utilisations are outside") == [
        counts["outside"],
        len(rows),
    ]


def test_published_steps_are_counted_alike_everywhere() -> None:
    (of_readme,) = numbers("README.md", r"(\d+) published step times")
    predicted = numbers("docs/step-time.md", r"(\d+) of them predicted .*?, (\d+) within 10 %")
    assert (
        numbers("docs/results.md", r"(\d+) published steps of .*?, (\d+) within 10 %") == predicted
    )
    assert predicted[0] == of_readme
