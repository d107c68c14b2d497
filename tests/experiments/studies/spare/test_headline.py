"""The headline of docs/results.md: the code's own rows."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest
from faultline.experiments.studies.base import listed_rows

ROOT = Path(__file__).parents[4]
PUBLISHED = ROOT / "results" / "published"


def published(name: str) -> pd.DataFrame:
    return pd.read_csv(PUBLISHED / f"spare-{name}.csv")


def words(path: str) -> str:
    """A page in one line, so that sentences may break anywhere."""
    text = re.sub(r"<!--.*?-->", "", (ROOT / path).read_text("utf-8"))
    return " ".join(text.split())


def test_the_table_of_the_docs_is_the_published_one() -> None:
    page = words("docs/results.md")
    for row in published("headline").itertuples():
        best = f"{row.sound_best:.2f} (r = {row.sound_best_redundancy}; "
        best += f"{row.sound_best_low:.2f} to {row.sound_best_high:.2f})"
        sound = f"{row.sound:.2f} / {row.sound_availability:.1%}"
        assert f"| {sound} | {best} |" in page, row


@pytest.mark.paper("SPARe", "time saved over replication, N = 200, 600, 1000", "reproduce")
def test_the_published_saving_comes_out() -> None:
    """By the published table, which `test_published_tables` runs again."""
    rows = list(listed_rows("spare", {"savings": published("savings")}))
    assert [row.published is not None for row in rows] == [True, False] * 3
    for row in rows[::2]:
        assert row.simulated == pytest.approx(row.published, abs=0.015)
