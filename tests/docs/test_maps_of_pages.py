"""What pages print of the maps is what the published table has."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from faultline.experiments.figures.palette import title_of
from faultline.experiments.studies.head_to_head.maps import JOBS, MAPS_OF

_ROOT = Path(__file__).resolve().parents[2]
_LEAST_SHARE = 0.05


def _published() -> pd.DataFrame:
    return pd.read_csv(_ROOT / "results" / "published" / "head-to-head-maps.csv")


def row_of(job: str, cells: pd.DataFrame) -> str:
    """Return a job's row: schemes with 5 % of a map's cells and more, and how sure they are."""
    entries = []
    for name in MAPS_OF[job]:
        mine = cells[(cells["job"] == job) & (cells["map"] == name)]
        shares = mine["best"].str.partition("/")[0].value_counts(normalize=True)
        schemes = ", ".join(
            f"{title_of(str(scheme))} {share:.0%}".replace("%", " %")
            for scheme, share in shares.items()
            if share >= _LEAST_SHARE
        )
        entries.append(f"{schemes} ({mine['probability'].mean():.0%})".replace("%)", " %)"))
    return f"| {JOBS[job]} | {' | '.join(entries)} |{'  |' * (4 - len(entries))}"


@pytest.mark.parametrize("job", JOBS)
def test_the_shares_of_the_maps(job: str) -> None:
    page = (_ROOT / "docs" / "head-to-head.md").read_text(encoding="utf-8")
    assert row_of(job, _published()) in page


def test_every_map_has_all_its_cells() -> None:
    cells = _published()
    counts = cells.groupby(["job", "map"]).size()
    assert counts.to_dict() == {(job, name): 1600 for job in JOBS for name in MAPS_OF[job]}
    assert cells["probability"].between(0.0, 1.0).all()
    assert (cells["cost"] <= cells["plain_cost"] + 0.02).all()
    assert (cells["regret"] >= 0.0).all()
