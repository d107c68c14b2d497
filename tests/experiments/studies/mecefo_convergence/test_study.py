"""The study as people call it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.experiments.asking import Ask

COMMAND = ("reproduce", "mecefo-convergence")


def test_without_jax_one_line_says_what_to_install(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    told = ask.refused("-o", str(tmp_path))
    assert "JAX is not installed" in told
    assert "pip install 'faultline[numerics]'" in told


@pytest.mark.slow
@pytest.mark.paper("MeCeFO", "convergence under take-overs", "reproduce-mecefo-convergence")
def test_the_quick_study(ask: Ask, tmp_path: Path) -> None:
    """More approximate gradients, more steps; what is withheld is predicted beside nothing."""
    pytest.importorskip("jax")
    status, out, _ = ask.all("--seeds", "2", "-o", str(tmp_path), "--json")
    assert status == 0
    rows = pd.DataFrame(json.loads(out))
    predicted = rows[rows.quantity == "perplexity change"]
    assert len(predicted) == 10
    assert predicted.published.isna().all()
    changed = rows[(rows.quantity == "change of the held-out loss")].set_index(
        ["scheme", "setting"]
    )
    assert changed.loc[("steady", "2"), "simulated"] > 0
    (loss,) = rows[rows.setting == "and under steady take-overs"].simulated
    assert 0 < loss < 1
    errors = rows[rows.quantity == "gradient error"]
    # A node of one rank in four: the mean is nearer to the exact one than that rank is.
    assert errors.simulated.iloc[1] < errors.simulated.iloc[0]
    tokens, low_loss = (
        rows[rows.quantity == f"time to as {much} over ideal"].set_index("setting").simulated
        for much in ("many tokens", "low a loss")
    )
    assert (low_loss > tokens).all()
    assert (tmp_path / "convergence.png").stat().st_size > 50_000
