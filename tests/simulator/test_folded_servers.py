"""One GPU a server takes as long as all of them: folded clusters against whole ones."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import faultline.simulator.simgrid_engine.state_probe as module
import pytest
from faultline.platforms import ClusterSpec, load_preset
from faultline.simulator.simgrid_engine.folded_servers import folded_servers
from faultline.simulator.simgrid_engine.state_probe import probe_state_transfers
from faultline.simulator.simgrid_engine.state_transfers import StateTransfers


def asked(**changes: Any) -> StateTransfers:
    usual = StateTransfers(8, 4e9, 10e9, ((0, 2, 4, 6), (1, 3, 5, 7)), 1, 8e9)
    return replace(usual, **changes)


def servers(**overrides: Any) -> ClusterSpec:
    return load_preset("hgx-h100", **{"domains": 8, "domains_per_leaf": 2} | overrides)


FOLDED: dict[str, tuple[ClusterSpec, StateTransfers]] = {
    "shared adapters, thin trunks": (
        servers(gpus_per_nic=2, oversubscription=[3], client_bandwidth="3GB/s"),
        asked(copies=2),
    ),
    "two rails, slow memory": (servers(rails=2, memory_bandwidth="150GB/s"), asked(copies=3)),
    "plain fat-tree, two servers a group": (
        servers(rail_optimised=False, oversubscription=[3]),
        asked(groups=4),
    ),
    "18 servers a domain, few rails": (
        load_preset("gb200-nvl72", domains=2, domains_per_leaf=1, oversubscription=[2]),
        asked(groups=36, peers=tuple((n, n + 9, n + 18, n + 27) for n in range(9)), copies=2),
    ),
    "a rail a position": (
        load_preset("gb200-nvl72", domains=2, rails=72, gpus_per_host=8),
        asked(groups=18, peers=((0, 9), (1, 12), (2, 3), (4, 17))),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDED)
def test_one_gpu_a_server_takes_as_long_as_all_of_them(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, transfers = FOLDED[name]
    folded = probe_state_transfers(spec, transfers)
    monkeypatch.setattr(module, "folded_servers", lambda _: None)
    full = probe_state_transfers(spec, transfers)
    assert asdict(folded) == pytest.approx(asdict(full), rel=1e-6)


def test_rails_that_servers_share_in_part_do_not_fold() -> None:
    """Servers of 4 GPUs on 6 rails: 0 to 3, then 4, 5, 0, 1."""
    assert folded_servers(load_preset("gb200-nvl72", rails=6)) is None
    folded = folded_servers(load_preset("gb200-nvl72"))
    assert folded is not None
    assert (folded.gpus, folded.rails) == (8 * 18, 1)
