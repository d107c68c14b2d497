"""Specs from the output of nvidia-smi."""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.platforms import PlatformError, load_preset
from faultline.platforms.topology_import import imported_spec, read_matrix, read_switches

MATRIX = (Path(__file__).parent / "topo-hgx-h100.txt").read_text(encoding="utf-8")


def table(tmp_path: Path, servers: int, per_leaf: int, nics: int = 8) -> Path:
    lines = ["node,nic,switch"]
    for node in range(servers):
        lines += [f"n{node},mlx5_{nic},leaf-{node // per_leaf}-{nic}" for nic in range(nics)]
    path = tmp_path / "switches.csv"
    path.write_text("\n".join(lines))
    return path


def test_the_matrix_of_a_server_is_read() -> None:
    server = read_matrix(MATRIX, "topo.txt")
    assert (server.gpus, server.nics, server.nvlinks) == (8, 8, 18)
    assert imported_spec(server, None, "hgx-h100", "topo.txt").gpus == 8


def test_colours_of_a_terminal_do_not_matter() -> None:
    header, rest = MATRIX.split("\n", 1)
    assert read_matrix(f"\x1b[4m{header}\x1b[0m\n{rest}", "t") == read_matrix(MATRIX, "t")


def test_servers_and_switches_are_the_cluster_that_ships(tmp_path: Path) -> None:
    """What nvidia-smi says of HGX H100, plugged in as the shipped cluster is, is that cluster."""
    found = imported_spec(
        read_matrix(MATRIX, "t"), read_switches(table(tmp_path, 32, 32)), "hgx-h100", "t"
    )
    ours = load_preset("hgx-h100")
    same = {"name": "", "description": ""}
    assert found.model_copy(update=same) == ours.model_copy(update=same)
    smaller = read_switches(table(tmp_path, 6, 2))
    halves = imported_spec(read_matrix(MATRIX, "t"), smaller, "hgx-h100", "t")
    assert (halves.gpus, halves.scale_out.domains_per_leaf) == (48, 2)
    fewer = imported_spec(read_matrix(MATRIX.replace("NV18", "NV9"), "t"), None, "hgx-h100", "t")
    assert fewer.scale_up.bandwidth_bytes_per_s == pytest.approx(225e9)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nothing of the kind", "no line begins with GPU0"),
        (MATRIX.replace("NV18", "NV99"), "has NV99, and a GPU of hgx-h100 has 18 links"),
        (MATRIX.replace("NV18", "NV6", 3), "joins unequally"),
        ("\n".join(MATRIX.splitlines()[:4]), "has no complete row of GPU3"),
    ],
)
def test_another_text_is_refused(text: str, said: str) -> None:
    with pytest.raises(PlatformError, match=said):
        imported_spec(read_matrix(text, "t"), None, "hgx-h100", "t")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("nic,", "port,", 1), "has no columns node, nic and switch"),
        (lambda text: text + "\nn0,mlx5_0,leaf-9-9", "lists mlx5_0 of n0 a second time"),
        (lambda text: text.replace("n1,mlx5_0,leaf-0-0", "n1,,leaf-0-0"), ":10: has no node"),
        (lambda text: text.replace("n1,mlx5_0,leaf-0-0\n", ""), "has 7 adapters of n1"),
        (lambda text: text.replace("n1,mlx5_1,leaf-0-1", "n1,mlx5_1,leaf-0-0"), "unequally"),
    ],
)
def test_a_table_that_is_uneven_is_refused(tmp_path: Path, change: object, said: str) -> None:
    path = table(tmp_path, 4, 2)
    path.write_text(change(path.read_text()))  # type: ignore[operator]
    with pytest.raises(PlatformError, match=said):
        imported_spec(read_matrix(MATRIX, "t"), read_switches(path), "hgx-h100", str(path))
