"""What is claimed: every list points to what is there, and verdicts are counted from rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import pytest
from faultline.experiments import studies
from faultline.experiments.studies.base import Kind, Row
from faultline.experiments.studies.catalogue import all_studies, load_study
from faultline.experiments.studies.claims import (
    ELSEWHERE,
    NO_ROW,
    judged,
    judged_rows,
    tally,
    verdict_of,
)
from faultline.experiments.studies.data import read_rows
from faultline.experiments.studies.operators import scale
from faultline.experiments.studies.recovery.study import with_repeated

from tests.experiments.command_line import Cli

ROOT = Path(__file__).parents[3]
WITHIN = 0.05
LISTS = sorted(
    path.parts[-3].replace("_", "-") for path in Path(studies.__path__[0]).glob("*/data/claims.csv")
)


def listed(name: str) -> tuple[dict[str, Any], ...]:
    return read_rows(name.replace("-", "_"), "claims")


def row(simulated: float, published: float | None, setting: str = "here", **ends: float) -> Row:
    low, high = ends.get("low", simulated), ends.get("high", simulated)
    return Row("goodput", "spare", setting, published, simulated, low, high, "1")


def verdict(claim: Mapping[str, Any], rows: list[Row]) -> str:
    table = judged([{"claim": "it is so", **claim}], rows, WITHIN, ["runs"])
    return str(table.verdict[0])


def test_every_study_of_something_published_lists_its_claims() -> None:
    assert sorted(all_studies()) == LISTS


@pytest.mark.parametrize("name", LISTS)
def test_a_claim_has_something_beside_it_or_a_reason(name: str) -> None:
    claims = listed(name)
    assert len(claims) >= 8
    assert {claim.get("kind", "prediction") for claim in claims} <= set(get_args(Kind))
    assert all(claim.get("beside") or claim.get("not_simulated") for claim in claims)
    assert len({(one.get("system"), one["claim"]) for one in claims}) == len(claims)
    for claim in claims:
        for beside in str(claim.get("beside", "")).split("; "):
            if beside.startswith(("docs/", "tests/")):
                assert (ROOT / beside.split(":")[0]).exists(), beside
            if beside.startswith("faultline reproduce "):
                assert beside.split(":")[0].split()[2] in all_studies(), beside


@pytest.mark.parametrize(
    "name",
    [
        "recovery",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("greyhound", "operators", "recycle")
        ),
    ],
)
def test_the_rows_that_claims_name_are_simulated(
    name: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`Cli.reproduced` checks the claims of every study that the command line runs."""
    # What operators did not publish is simulated in less time than for its figure.
    monkeypatch.setattr(scale, "DAYS", {gpus: days / 6 for gpus, days in scale.DAYS.items()})
    few = ("--seeds", "1") if "seeds" in load_study(name).scaled_by else ()
    cli.reproduced(name, tmp_path, *few, "--workers", "1")
    table = pd.read_csv(tmp_path / "claims.csv")
    assert len(table) == len(listed(name))
    is_here = ~table.beside.fillna("docs/").str.startswith(ELSEWHERE)
    assert table.verdict[is_here].notna().all()


def test_rows_are_counted_by_their_verdict() -> None:
    rows = [
        row(1.0, 1.0, "N=1"),
        row(1.2, 1.0, "N=2"),
        row(0.5, 1.0, "N=3"),
        row(2.0, None, "N=4"),
        row(9.0, 9.0, "elsewhere"),
    ]
    claim = {"beside": "goodput", "setting": "N=*"}
    assert verdict(claim, rows) == "2 outside, 1 inside, 1 predicted (worst -50%)"
    assert verdict({**claim, "scheme": "ntp"}, rows) == NO_ROW
    assert verdict({"beside": "goodput; availability"}, rows) == NO_ROW
    assert verdict({"beside": "runs.csv; docs/recovery.md"}, rows) == ""
    assert verdict({"beside": "walks.csv"}, rows) == NO_ROW
    assert verdict({"not_simulated": "unknown how"}, rows) == ""


def test_a_study_judges_its_own_rows() -> None:
    stated = replace(row(1.0, 1.0), verdict="withheld")
    assert verdict({"beside": "goodput"}, [stated]) == "1 withheld"


def test_a_number_of_the_list_is_published_where_rows_have_none() -> None:
    rows = [row(10.0, None), row(20.0, None, "there")]
    claim = {"beside": "goodput", "published": 14}
    assert verdict({**claim, "test": "at least"}, rows) == "1 outside, 1 inside (worst -29%)"
    # What is swept is one band, which is the verdict of each of its rows.
    swept = judged_rows([{**claim, "test": "swept"}], rows, WITHIN)
    assert (list(swept.verdict), list(swept.published)) == (["inside"] * 2, [14.0] * 2)
    assert verdict({**claim, "test": "swept"}, rows) == "1 inside"
    assert verdict({"beside": "goodput", "published": "a table"}, rows) == "2 predicted"


@pytest.mark.parametrize(
    ("test", "low", "high", "expected", "off"),
    [
        ("point", 0.9, 1.3, "outside", 0.1),
        ("band", 1.04, 1.3, "inside", 0.0),
        ("band", 1.06, 1.3, "outside", 0.06),
        # A band of a factor of 3, or around nothing, holds any value; one that misses has missed.
        ("band", 0.5, 1.4, "inside", 0.0),
        ("band", 0.5, 1.5, "too wide", 0.0),
        ("band", -0.1, 1.1, "too wide", 0.0),
        ("band", 1.2, 9.0, "outside", 0.2),
        ("at least", 1.0, 1.3, "inside", 0.0),
        ("at least", 0.9, 1.3, "partly", 0.0),
        ("at least", 0.7, 0.9, "outside", -0.1),
        ("at most", 0.7, 1.0, "inside", 0.0),
        ("at most", 0.9, 1.3, "partly", 0.0),
        ("at most", 1.1, 1.3, "outside", 0.1),
    ],
)
def test_a_verdict(test: Any, low: float, high: float, expected: str, off: float) -> None:
    found, missed = verdict_of(row(1.1, 1.0, low=low, high=high), test, 0.05)
    assert (found, missed) == (expected, pytest.approx(off))


@pytest.mark.parametrize("kind", [one for one in get_args(Kind) if one != "prediction"])
def test_what_is_no_prediction_is_counted_apart(kind: Kind) -> None:
    rows = [row(1.0, 1.0, "a"), row(1.0, 1.0, "b"), row(2.0, 1.0, "c"), row(2.0, 1.0, "d")]
    rows[1::2] = [replace(one, kind="prediction") for one in rows[1::2]]
    claim = {"claim": "it is so", "beside": "goodput", "kind": kind}
    (verdict_text,) = judged([claim], rows, WITHIN, ()).verdict
    assert verdict_text == f"1 {kind}, 1 inside, 1 {kind}, outside, 1 outside (worst +100%)"
    table = judged_rows([claim], rows, WITHIN)
    assert tally(table) == {kind: 1, "inside": 1, f"{kind}, outside": 1, "outside": 1}


def test_the_first_claim_that_names_a_row_judges_it() -> None:
    rows = [row(1.0, None), row(5.0, None, "there")]
    claims = [
        {"claim": "a", "beside": "goodput", "published": 2, "test": "at most", "setting": "here"},
        {"claim": "b", "beside": "goodput", "published": 2},
    ]
    table = judged_rows(claims, rows, WITHIN)
    assert list(table.verdict) == ["inside", "outside"]
    assert list(judged_rows([], rows, WITHIN).verdict) == ["predicted", "predicted"]


def test_a_constant_that_has_hit_once_counts_once() -> None:
    """The third row is off, the fourth hits with another value, the fifth with the second's."""
    table = pd.DataFrame(
        {
            "system": "a",
            "event": "move",
            "modelled_s": [20.0, 20.1, 20.2, 30.0, 20.3],
            "off": [0.3, 0.0, -0.5, 0.0, 0.1],
            "role": "predicted",
        }
    )
    assert list(with_repeated(table).role) == ["predicted"] * 4 + ["repeated"]
    fitted = table.assign(role=["fitted", *["predicted"] * 4], off=0.0)
    assert list(with_repeated(fitted).role) == [
        "fitted", "repeated", "repeated", "predicted", "repeated"
    ]  # fmt: skip
