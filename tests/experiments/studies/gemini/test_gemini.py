"""`faultline reproduce gemini`: the published probabilities come out, by three ways.

Losses of memory: random sets and windows of drawn failures, against closed forms and by hand.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.mix_file import load_mix
from faultline.experiments.studies.gemini import study, tables
from faultline.experiments.studies.gemini.tables import (
    HOSTS,
    HOSTS_PER_DOMAIN,
    LAYOUT,
    MIXES,
    PLACEMENTS,
    SCHEMES,
    DrawnLosses,
    LossSets,
    failure_rates_per_s,
    memory_losing_mix,
    placement_table,
    survival,
    uniform_sets,
    wasted_table,
)
from faultline.simulator.failures.mix import Cause, CauseMix
from faultline.strategies.in_memory.node_groups import NodeGroups, Placement
from faultline.strategies.in_memory.survival import (
    loss_given_domains,
    loss_given_nodes,
    loss_in_window,
)
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from tests.experiments.asking import Ask

MIX = "llama3"
DAY_S = 86_400.0
STRAY = 4.0
"""Standard errors that a mean may stray: of a thousand such tests one in 16 would fail."""


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


def check(gone: np.ndarray, expected: float) -> None:
    error = (expected * (1.0 - expected) / gone.size) ** 0.5
    assert abs(gone.mean() - expected) <= STRAY * error + 1e-12


@given(
    pairs=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 11)), max_size=30),
    size=st.integers(1, 4),
    tolerated=st.integers(0, 3),
    placement=st.sampled_from(PLACEMENTS),
)
def test_losses_are_those_of_the_groups(
    pairs: list[tuple[int, int]], size: int, tolerated: int, placement: Placement
) -> None:
    groups = NodeGroups(12, size, tolerated, placement)
    index = np.array([one for one, _ in pairs], dtype=np.int64)
    node = np.array([node for _, node in pairs], dtype=np.int64)
    found = LossSets.with_repeats(5, index, node).lost(groups)
    assert found.tolist() == [
        not groups.survives(node for other, node in pairs if other == one) for one in range(5)
    ]


def test_all_sets_of_a_size_are_equally_likely() -> None:
    drawn = uniform_sets(np.random.default_rng(5), 40_000, 6, 3)
    masks = np.zeros(40_000, dtype=np.int64)
    np.add.at(masks, drawn.set_index, 1 << drawn.node)
    sets, counts = np.unique(masks, return_counts=True)
    assert len(sets) == 20
    assert {bin(one).count("1") for one in sets.tolist()} == {3}
    assert chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize(("size", "tolerated", "lost"), [(2, 1, 16), (16, 1, 8), (4, 2, 60)])
def test_lost_nodes_against_the_closed_form(size: int, tolerated: int, lost: int) -> None:
    groups = NodeGroups(1024, size, tolerated, "across-domains")
    drawn = uniform_sets(np.random.default_rng(lost), 20_000, 1024, lost)
    check(drawn.lost(groups), loss_given_nodes(groups, lost))


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize(
    ("nodes", "size", "tolerated"), [(1024, 16, 1), (1000, 3, 2), (100, 40, 9)]
)
def test_lost_domains_against_the_closed_form(
    placement: Placement, nodes: int, size: int, tolerated: int
) -> None:
    groups = NodeGroups(nodes, size, tolerated, placement)
    drawn = uniform_sets(np.random.default_rng(nodes), 5_000, nodes, 4, 8)
    check(drawn.lost(groups), loss_given_domains(groups, 8, 4))


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize(("size", "tolerated"), [(2, 1), (8, 1), (3, 2)])
def test_windows_against_the_closed_form(placement: Placement, size: int, tolerated: int) -> None:
    """Of 1,024 nodes 20 fail on average, and of their 128 domains one in two windows."""
    sets, groups = 5_000, NodeGroups(1024, size, tolerated, placement)
    rng = np.random.default_rng(7)
    single = np.repeat(np.arange(sets), rng.poisson(20.0, sets))
    whole = np.repeat(np.arange(sets), rng.poisson(0.5, sets))
    of_domains = rng.integers(128, size=whole.size)[:, np.newaxis] * 8 + np.arange(8)
    drawn = LossSets.with_repeats(
        sets,
        np.concatenate([single, np.repeat(whole, 8)]),
        np.concatenate([rng.integers(1024, size=single.size), of_domains.ravel()]),
    )
    check(drawn.lost(groups), loss_in_window(groups, 8, 20.0 / 1024, 0.5 / 128, 1.0))


def test_shipped_mixes_know_no_failures_of_domains() -> None:
    """Why a share of such failures is an axis of its own."""
    for mix in MIXES:
        assert "domain" not in {cause.level for cause in load_mix(mix).causes()}


@pytest.mark.parametrize(
    ("mix", "hosts", "days", "failures"), [("llama3", 2048, 54, 328), ("rsc-1", 1000, 1, 6.50)]
)
def test_published_rates(mix: str, hosts: int, days: int, failures: float) -> None:
    """Of Llama 3's 419 interruptions in 54 days 328 are hardware: 78 %."""
    host, domain = failure_rates_per_s(memory_losing_mix(mix, 0.0))
    assert host * hosts * days * DAY_S == pytest.approx(failures)
    assert domain == 0.0


@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_a_share_of_domain_failures_keeps_the_number_of_failures(share: float) -> None:
    host, domain = failure_rates_per_s(memory_losing_mix("rsc-2", share))
    plain, _ = failure_rates_per_s(memory_losing_mix("rsc-2", 0.0))
    domains = HOSTS // HOSTS_PER_DOMAIN
    assert host * HOSTS + domain * domains == pytest.approx(plain * HOSTS)
    assert domain * domains == pytest.approx(share * plain * HOSTS)


def test_windows_hold_the_failures_that_the_mix_draws() -> None:
    """Against the failures themselves, one after the other."""
    mix = memory_losing_mix("rsc-1", 0.2)
    failures = []
    for batch in mix.batches(4):
        failures += batch
        if batch[-1].time_s > 50 * DAY_S:
            break
    windows = DrawnLosses(mix, 24 * 50, 4).windows(24)
    assert windows.sets == 50
    expected: list[set[int]] = [set() for _ in range(50)]
    for one in failures:
        if one.time_s < 50 * DAY_S:
            expected[int(one.time_s // DAY_S)] |= set(LAYOUT.hosts_losing_memory(one))
    assert sum(map(len, expected)) > 300
    found: list[set[int]] = [set() for _ in range(50)]
    for index, host in zip(windows.set_index, windows.node, strict=True):
        found[index].add(int(host))
    assert found == expected
    groups = NodeGroups(HOSTS, 8, 1, "across-domains")
    assert windows.lost(groups).tolist() == [not groups.survives(hosts) for hosts in expected]


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("scheme", ["reft-8", "gemini-2"])
def test_survival_of_drawn_failures_is_the_closed_form(scheme: str, placement: Placement) -> None:
    mix = memory_losing_mix("rsc-1", 0.05)
    groups = SCHEMES[scheme].groups(placement)
    gone = np.concatenate(
        [DrawnLosses(mix, 24 * 400, seed).windows(12).lost(groups) for seed in (1, 2)]
    )
    check(gone, 1.0 - survival(scheme, placement, failure_rates_per_s(mix), 12.0))


def test_only_broken_hardware_loses_memory() -> None:
    struck = {cause.name for cause in memory_losing_mix("llama3", 0.0).mixed}
    kept = {cause.name for cause in load_mix("llama3").causes()} - struck
    assert kept == {"software-bug", "switch-or-cable", "dependency"}


def test_hardware_that_the_closed_forms_do_not_know_is_refused() -> None:
    mix = CauseMix((Cause("power-feed", "group", "hardware", 1e-9),), LAYOUT)
    with pytest.raises(UserError, match="power-feed: hardware of level group"):
        failure_rates_per_s(mix)


@pytest.mark.slow
def test_the_whole_reproduction_from_the_command_line(ask: Ask, tmp_path: Path) -> None:
    results = ask.reproduced("gemini", tmp_path, "--seeds", "1")
    assert {row["scheme"] for row in results} >= {"gemini", "reft-8", "reft-16"}
    names = {"rows", "recovery", "domains", "windows", "curves", "wasted", "placement", "claims"}
    assert {path.stem for path in tmp_path.glob("*.csv")} == names
    table = pd.read_csv(tmp_path / "windows.csv")
    inside = (table.exact >= table.low) & (table.exact <= table.high)
    assert inside.mean() > 0.8
