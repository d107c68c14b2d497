"""Failures that take memory away: which they are, how often, and what windows are left with."""

from __future__ import annotations

import numpy as np
import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.mix_file import load_mix
from faultline.experiments.studies.gemini.setting import (
    HOSTS,
    HOSTS_PER_DOMAIN,
    LAYOUT,
    MIXES,
    SCHEMES,
    failure_rates_per_s,
    memory_losing_mix,
)
from faultline.experiments.studies.gemini.wasted import (
    CheckpointCosts,
    placement_table,
    wasted_table,
)
from faultline.experiments.studies.gemini.window_table import survival
from faultline.experiments.studies.gemini.windows import DrawnLosses
from faultline.simulator.failures.mix import Cause, CauseMix
from faultline.strategies.in_memory.node_groups import NodeGroups

DAY_S = 86_400.0


def test_shipped_mixes_know_no_failures_of_domains() -> None:
    """Why a share of such failures is an axis of its own."""
    for mix in MIXES:
        assert "domain" not in {cause.level for cause in load_mix(mix).causes()}


def test_rates_of_llama3() -> None:
    """328 of the 419 interruptions in 54 days are hardware: 78 %."""
    host, domain = failure_rates_per_s(memory_losing_mix("llama3", 0.0))
    assert HOSTS == 2048
    assert host * HOSTS * 54 * DAY_S == pytest.approx(328)
    assert domain == 0.0


def test_rates_of_rsc_1() -> None:
    host, _ = failure_rates_per_s(memory_losing_mix("rsc-1", 0.0))
    assert host * 1000 * DAY_S == pytest.approx(6.50)


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


@pytest.mark.parametrize("placement", ["across-domains", "neighbours"])
@pytest.mark.parametrize("scheme", ["reft-8", "gemini-2"])
def test_survival_of_drawn_failures_is_the_closed_form(scheme: str, placement: str) -> None:
    mix = memory_losing_mix("rsc-1", 0.05)
    groups = SCHEMES[scheme].groups(HOSTS, placement)
    gone = np.concatenate(
        [DrawnLosses(mix, 24 * 400, seed).windows(12).lost(groups) for seed in (1, 2)]
    )
    expected = 1.0 - survival(scheme, placement, failure_rates_per_s(mix), 12.0)
    error = (expected * (1.0 - expected) / gone.size) ** 0.5
    assert gone.mean() == pytest.approx(expected, abs=4 * error)


def test_only_broken_hardware_loses_memory() -> None:
    struck = {cause.name for cause in memory_losing_mix("llama3", 0.0).mixed}
    kept = {cause.name for cause in load_mix("llama3").causes()} - struck
    assert kept == {"software-bug", "switch-or-cable", "dependency"}


def test_hardware_that_the_closed_forms_do_not_know_is_refused() -> None:
    mix = CauseMix((Cause("power-feed", "group", "hardware", 1e-9),), LAYOUT)
    with pytest.raises(UserError, match="power-feed: hardware of level group"):
        failure_rates_per_s(mix)


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


def test_a_checkpoint_that_does_not_fit_an_iteration_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        CheckpointCosts(iteration_s=1.0).in_memory_s()
