"""Specs from what nvidia-smi and NCCL print of a server."""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.platforms.errors import PlatformError
from faultline.platforms.preset_library import load_preset
from faultline.platforms.topology_import import (
    Server,
    imported_spec,
    read_matrix,
    read_nccl_topology,
    read_switches,
)

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
    assert (server.gpus, len(server.adapters), server.nvlinks) == (8, 8, 18)
    assert imported_spec(server, None, "hgx-h100", "topo.txt").spec.gpus == 8


def nccl(gpus: int = 8, count: int = 18, speed: str = "400000", target: str = "switch") -> bytes:
    """Return what NCCL writes of a server: GPUs and adapters below PCI switches, two per socket."""
    devices = []
    for number in range(gpus):
        others = [other for other in range(gpus) if other != number]
        ends = {
            "switch": [("fffff:ff:ff.0", count)],
            "all": [(f"0000:1{other}:00.0", count) for other in others],
            "next": [(f"0000:1{(number + 1) % gpus}:00.0", count)],
        }[target]
        links = "".join(f'<nvlink target="{end}" count="{n}" tclass="0x0"/>' for end, n in ends)
        devices.append(
            f'<pci busid="0000:0{number}:00.0" class="0x060400">'
            f'<pci busid="0000:1{number}:00.0" class="0x030200"><gpu dev="{number}" sm="90">{links}'
            f'</gpu></pci><pci busid="0000:2{number}:00.0" class="0x020700"><nic>'
            f'<net name="mlx5_{number}" dev="{number}" speed="{speed}" port="1"/></nic></pci></pci>'
        )
    return f'<system version="1"><cpu numaid="0">{"".join(devices)}</cpu></system>'.encode()


def test_the_topology_that_nccl_writes_has_what_the_matrix_has() -> None:
    server = read_nccl_topology(nccl(), "topo.xml")
    matrix = read_matrix(MATRIX, "topo.txt")
    assert (server.gpus, len(server.adapters), server.nvlinks) == (8, 8, 18)
    assert (matrix.gpus, len(matrix.adapters), matrix.nvlinks) == (8, 8, 18)
    spec = imported_spec(server, None, "hgx-h100", "topo.xml").spec
    assert spec.nic.bandwidth_bytes_per_s == 50e9
    slower = imported_spec(read_nccl_topology(nccl(speed="200000"), "t"), None, "hgx-h100", "t")
    assert slower.spec.nic.bandwidth_bytes_per_s == 25e9


def test_gpus_that_links_join_in_pairs_have_the_sum_of_their_links() -> None:
    assert read_nccl_topology(nccl(4, 4, target="all"), "t").nvlinks == 12


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (nccl(target="next"), "NVLink joins unequally"),
        (nccl().replace(b'count="18"', b'count="many"', 1), "count = 'many': write a whole"),
        (b"<system/>", "has no <gpu>: a file for NCCL_TOPO_FILE has PCI devices alone"),
        (
            nccl().replace(b'<cpu numaid="0">', b'<cpu host_hash="1"/><cpu host_hash="2">'),
            "has 2 servers\\b.*keep the <cpu> of one",
        ),
        (b"<platform/>", "starts with <platform>: such a file starts with <system>"),
        (b"GPU0", "not well-formed XML"),
    ],
)
def test_a_topology_with_too_little_in_it_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(PlatformError, match=message):
        read_nccl_topology(content, "topo.xml")


def test_colours_of_a_terminal_do_not_matter() -> None:
    header, rest = MATRIX.split("\n", 1)
    assert read_matrix(f"\x1b[4m{header}\x1b[0m\n{rest}", "t") == read_matrix(MATRIX, "t")


def test_servers_and_switches_are_the_cluster_that_ships(tmp_path: Path) -> None:
    """What nvidia-smi prints of HGX H100, plugged in as the shipped cluster is, is that cluster."""
    found = imported_spec(
        read_matrix(MATRIX, "t"), read_switches(table(tmp_path, 32, 32)), "hgx-h100", "t"
    ).spec
    ours = load_preset("hgx-h100")
    same = {"name": "", "description": ""}
    assert found.model_copy(update=same) == ours.model_copy(update=same)
    smaller = read_switches(table(tmp_path, 6, 2))
    halves = imported_spec(read_matrix(MATRIX, "t"), smaller, "hgx-h100", "t")
    assert (halves.spec.gpus, halves.spec.scale_out.domains_per_leaf) == (48, 2)
    fewer = imported_spec(read_matrix(MATRIX.replace("NV18", "NV9"), "t"), None, "hgx-h100", "t")
    assert fewer.spec.scale_up.bandwidth_bytes_per_s == pytest.approx(225e9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing of the kind", "no line begins with GPU0"),
        (MATRIX.replace("NV18", "NV99"), "has NV99, and a GPU of hgx-h100 has 18 links"),
        (MATRIX.replace("NV18", "NV6", 3), "joins unequally"),
        ("\n".join(MATRIX.splitlines()[:4]), "has no complete row of GPU3"),
    ],
)
def test_another_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(PlatformError, match=message):
        imported_spec(read_matrix(text, "t"), None, "hgx-h100", "t")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("nic,", "port,", 1), "has no columns node, nic and switch"),
        (lambda text: text + "\nn0,mlx5_0,leaf-9-9", "lists mlx5_0 of n0 a second time"),
        (lambda text: text.replace("n1,mlx5_0,leaf-0-0", "n1,,leaf-0-0"), ":10: has no node"),
        (lambda text: text.replace("n1,mlx5_0,leaf-0-0\n", ""), "has 7 adapters of n1"),
        (lambda text: text.replace("n1,mlx5_1,leaf-0-1", "n1,mlx5_1,leaf-0-0"), "unequally"),
    ],
)
def test_a_table_that_is_uneven_is_refused(tmp_path: Path, change: object, message: str) -> None:
    path = table(tmp_path, 4, 2)
    path.write_text(change(path.read_text()))  # type: ignore[operator]
    with pytest.raises(PlatformError, match=message):
        imported_spec(read_matrix(MATRIX, "t"), read_switches(path), "hgx-h100", str(path))


def matrix_with(nics: int) -> str:
    """Return the matrix of eight GPUs, with an adapter near each and others near none."""
    names = [f"GPU{n}" for n in range(8)] + [f"NIC{n}" for n in range(nics)]

    def cell(row: str, column: str) -> str:
        if row == column:
            return " X "
        if row.startswith("GPU") and column.startswith("GPU"):
            return "NV18"
        return "PIX" if row[3:] == column[3:] and row[:3] != column[:3] else "SYS"

    rows = ["\t".join(["", *names, "CPU Affinity"])]
    rows += ["\t".join([row, *(cell(row, column) for column in names)]) for row in names]
    legend = [f"  NIC{n}: mlx5_{n}" for n in range(nics)]
    return "\n".join([*rows, "", "NIC Legend:", "", *legend])


def test_adapters_of_storage_and_management_are_left_out(tmp_path: Path) -> None:
    """By the table of switches if there is one, else because no GPU is near."""
    server = read_matrix(matrix_with(9), "t")
    assert len(server.adapters) == 9
    alone = imported_spec(server, None, None, "t")
    assert alone.spec.nic.gpus_per_nic == 1
    assert "left out, as next to no GPU: mlx5_8" in alone.notes
    switches = read_switches(table(tmp_path, 2, 2))
    plugged = imported_spec(server, switches, None, "t")
    assert (plugged.spec.gpus, plugged.spec.nic.gpus_per_nic) == (16, 1)
    assert "left out, as not in the table of switches: mlx5_8" in plugged.notes


def test_adapters_of_unequal_speed_are_told_by_their_names() -> None:
    content = nccl().replace(b'speed="400000"', b'speed="100000"', 1)
    with pytest.raises(PlatformError, match=r"mlx5_0 100000, .*in a table of switches"):
        imported_spec(read_nccl_topology(content, "t"), None, None, "t")


def test_what_a_server_does_not_show_is_said() -> None:
    bare = Server(8, (), 18)
    kept = imported_spec(bare, None, "hgx-h100", "t")
    assert kept.spec.nic == load_preset("hgx-h100").nic
    assert "the file shows no adapters: those of hgx-h100 are kept" in kept.notes
    slow = imported_spec(Server(8, (), 0), None, "hgx-h100", "t")
    assert slow.spec.scale_up.bandwidth_bytes_per_s == 64e9
    assert any("have no NVLink" in note for note in slow.notes)


@pytest.mark.parametrize(
    ("sm", "links", "name", "bandwidth"),
    [("80", 12, "hgx-a100", 300e9), ("90", 18, "hgx-h100", 450e9), ("100", 18, "hgx-b200", 900e9)],
)
def test_the_generation_of_the_gpus_is_read(
    sm: str, links: int, name: str, bandwidth: float
) -> None:
    content = nccl(count=links).replace(b'sm="90"', f'sm="{sm}"'.encode())
    found = imported_spec(read_nccl_topology(content, "t"), None, None, "t")
    assert (found.like, found.notes) == (name, ())
    assert found.spec.gpu == load_preset(name).gpu
    assert found.spec.scale_up.bandwidth_bytes_per_s == bandwidth


def test_a_preset_with_other_gpus_is_told() -> None:
    content = nccl().replace(b'sm="90"', b'sm="100"')
    other = imported_spec(read_nccl_topology(content, "t"), None, "hgx-h100", "t")
    assert other.notes == ("its GPUs have sm 100, as in hgx-b200, but are those of hgx-h100",)
