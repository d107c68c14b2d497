"""`faultline reproduce gemini`: the published probabilities come out, by three ways."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from faultline.experiments.studies.gemini import study, tables
from faultline.experiments.studies.gemini.tables import placement_table, wasted_table

from tests.experiments.asking import Ask

MIX = "llama3"


@pytest.fixture(scope="module")
def recovered() -> pd.DataFrame:
    return tables.recovery_table([0], 500)


@pytest.fixture(scope="module")
def windows() -> pd.DataFrame:
    return tables.window_table(MIX, [0], 40, (0.0, 0.1, 0.2), (24,))


@pytest.mark.paper("GEMINI", "probability of recovery", "reproduce-gemini")
def test_the_published_probabilities(recovered: pd.DataFrame) -> None:
    """93.3 % and 80 % for 16 machines, pairs, 2 and 3 lost (Wang et al. 2023 (GEMINI))."""
    found = {(row.quantity, row.setting): row for row in study.recovery_rows(recovered)}
    for lost, published in ((2, 93.3), (3, 80.0)):
        setting = f"N=16 m=2 k={lost}"
        exact = found["recovery probability", setting]
        assert (exact.scheme, exact.unit, exact.published) == ("gemini", "%", published)
        assert exact.simulated == pytest.approx(published, abs=0.05)
        bound = found["recovery probability, lower bound", setting]
        assert bound.simulated == pytest.approx(published, abs=0.05)
        drawn = found["recovery probability, Monte Carlo", setting]
        assert drawn.low < drawn.simulated < drawn.high
        assert drawn.simulated == pytest.approx(published, abs=8.0)


def test_random_sets_agree_with_closed_forms(recovered: pd.DataFrame) -> None:
    error = (recovered.exact * (1 - recovered.exact) / recovered.sets) ** 0.5
    assert ((recovered.drawn - recovered.exact).abs() <= 4.5 * error + 1e-3).all()
    assert (recovered.bound <= recovered.exact + 1e-12).all()


def test_placement_decides_what_a_lost_domain_does() -> None:
    table = tables.domain_table([0], 300)
    one = table[(table.lost_domains == 1) & (table.scheme != "unprotected")]
    assert (one[one.placement == "across-domains"].drawn == 1.0).all()
    assert (one[one.placement == "neighbours"].drawn == 0.0).all()
    assert (one.exact == one.drawn).all()
    assert len(list(study.domain_rows(table))) == 2 * 4 * 2 * 4


def test_every_row_of_a_table_can_be_told_from_the_others(
    recovered: pd.DataFrame, windows: pd.DataFrame
) -> None:
    results = [
        *study.recovery_rows(recovered),
        *study.window_rows(windows),
        *study.wasted_rows(wasted_table(), placement_table()),
    ]
    names = [(row.quantity, row.scheme, row.setting) for row in results]
    assert len(names) == len(set(names))
    json.dumps([row.as_dict() for row in results], allow_nan=False)


def test_schemes_rank_as_their_tolerance_does(windows: pd.DataFrame) -> None:
    exact = windows.set_index(["domain_share", "window_h", "placement", "scheme"]).exact
    exact = exact.sort_index()
    for share in (0.0, 0.2):
        mine = exact[share, 24, "across-domains"]
        assert mine["unprotected"] < mine["reft-16"] < mine["reft-8"] < mine["gemini-2"]
        assert mine["gemini-2"] < mine["gemini-3"]
    assert exact[0.2, 24, "neighbours", "gemini-2"] < exact[0.2, 24, "across-domains", "gemini-2"]


def test_the_closing_sentence_reads_the_tables(windows: pd.DataFrame) -> None:
    results = {"windows": windows, "placement": placement_table()}
    (said,) = study.GeminiStudy().headline(results, ())
    exact = windows[
        (windows.domain_share == 0.1)
        & (windows.window_h == 24)
        & (windows.scheme == "gemini-2")
        & (windows.placement == "neighbours")
    ].exact.item()
    assert f"neighbours with {exact:.1%}" in said
    assert "1.5 minutes on average instead of 12.0" in said


def test_wasted_time_by_hand() -> None:
    """1.2 TB; storage at 2.5 GB/s: 480 s, a peer at 50 GB/s: 1.5 s for a sixteenth."""
    wasted = wasted_table().set_index("checkpoints").wasted_s
    assert wasted["memory, every iteration"] == pytest.approx(60 + 30 + 1.5)
    assert wasted["storage, one after the other"] == pytest.approx(480 * 2.5)
    assert wasted["storage, every 3 h"] == pytest.approx(480 + 5400 + 480)


def test_what_placement_does_to_wasted_time() -> None:
    """A lost domain of 8 of 16 machines: pairs of neighbours are gone, pairs across survive."""
    placed = placement_table().set_index(["placement", "domain_share"]).wasted_s
    assert placed["neighbours", 0.1] == pytest.approx(0.9 * 91.5 + 0.1 * 6360)
    assert placed["across-domains", 0.2] == pytest.approx(91.5)


def test_curves_are_the_closed_form_of_the_tables(windows: pd.DataFrame) -> None:
    curves = tables.curve_table(MIX)
    keys = ["mix", "domain_share", "window_h", "scheme", "placement"]
    both = windows.merge(curves, on=keys, suffixes=("", "_curve"))
    assert len(both) == 3 * 4 * 2
    assert list(both.exact_curve) == pytest.approx(list(both.exact), abs=1e-12)


@pytest.mark.slow
def test_the_whole_reproduction_from_the_command_line(ask: Ask, tmp_path: Path) -> None:
    results = ask.reproduced("gemini", tmp_path, "--seeds", "1")
    assert {row["scheme"] for row in results} >= {"gemini", "reft-8", "reft-16"}
    names = {"rows", "recovery", "domains", "windows", "curves", "wasted", "placement", "claims"}
    assert {path.stem for path in tmp_path.glob("*.csv")} == names
    table = pd.read_csv(tmp_path / "windows.csv")
    inside = (table.exact >= table.low) & (table.exact <= table.high)
    assert inside.mean() > 0.8
