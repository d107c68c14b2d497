"""``faultline platform``: files written, checked, drawn, and refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from faultline.experiments.cli import main
from faultline.experiments.figures.platform_drawing import MOST_GPUS, MOST_NODES, sketch
from faultline.platforms.preset_library import load_preset
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.xml_reader import read_platform
from faultline.platforms.xml_writer import write_xml

from tests.experiments.command_line import Cli
from tests.platforms.helpers import edit
from tests.platforms.imported.test_imports import MATRIX, nccl

COMMAND = ("platform",)

THREE_LEVELS: dict[str, Any] = {
    "domains": 64,
    "domains_per_leaf": 16,
    "levels": 3,
    "leaves_per_pod": 2,
    "oversubscription": [2, 3],
}


@pytest.fixture
def platform(tmp_path: Path) -> Path:
    path = tmp_path / "p.xml"
    arguments = ["hgx-h100", "--set", "domains=4", "--set", "domains_per_leaf=2"]
    assert main(["platform", "generate", *arguments, "-o", str(path)]) == 0
    return path


class TestGenerate:
    def test_overrides_are_of_the_spec_in_the_file(self, platform: Path) -> None:
        assert read_platform(platform).spec == load_preset(
            "hgx-h100", domains=4, domains_per_leaf=2
        )

    def test_a_plane_of_a_toml_file(self, tmp_path: Path, cli: Cli) -> None:
        import faultline.platforms

        spec = Path(faultline.platforms.__file__).parent / "presets" / "gb200-nvl72.toml"
        path = tmp_path / "plane.xml"
        arguments = [str(spec), "--plane", "--set", "nic.bandwidth=800Gbps", "-o", str(path)]
        assert cli("generate", *arguments) == f"{path}: 8 GPUs, each representing 72\n"
        assert read_platform(path).links["nic-000000"].bandwidth_bytes_per_s == 100e9

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["hgx-h10"], "hgx-h10: no such file (did you mean 'hgx-h100'?)"),
            (["hgx-h100", "--set", "domain=4"], "key 'domain' is unknown (did you mean"),
            (["hgx-h100", "--set", "latency=1us"], "key 'latency' is ambiguous: write scale_up"),
            (["spare-600k", "--plane"], "spare-600k: is a rail plane already"),
            (
                ["hgx-h100", "--plane", "--set", "rail_optimised=false"],
                "only a rail-optimised fabric",
            ),
        ],
    )
    def test_mistakes(self, arguments: list[str], message: str, tmp_path: Path, cli: Cli) -> None:
        output = tmp_path / "x.xml"
        assert message in cli.refused("generate", *arguments, "-o", output)
        assert not output.exists()


class TestCheck:
    def test_json_is_in_si_units(self, platform: Path, cli: Cli) -> None:
        report = cli.json("check", str(platform))
        assert (report["gpus"], report["hosts"], report["domains"], report["racks"]) == (
            32,
            4,
            4,
            1,
        )
        assert report["switches"] == {"core": 1, "leaf": 16, "nvswitch": 4}
        assert report["links"]["nic"]["count"] == 32
        assert report["links"]["nvlink"]["bandwidth_bytes_per_s"] == [450e9, 450e9]
        assert report["layers"][0]["oversubscription"] == [1.0, 1.0]
        assert report["bisection"] == {"bandwidth_bytes_per_s": 800e9, "of_full": 1.0}
        assert report["storage"]["client_bytes_per_s"] == 20e9
        # 32 GPUs, storage, controller.
        assert report["simgrid_hosts"] == 34
        assert report["differs_from_spec"] == []

    def test_an_edit_is_reported_with_its_place(self, platform: Path, cli: Cli) -> None:
        edit(platform, r'(id="nic-000003" bandwidth=)"50GBps"', r'\1"200Gbps"')
        printed = cli("check", str(platform))
        assert "nic-000003: bandwidth is 25GB/s, the spec says 50GB/s" in printed
        assert "oversubscribed 0.75:1 to 1:1" in printed

    def test_the_check_names_which_edits_count(self, platform: Path, cli: Cli) -> None:
        """All jobs wait for adapters; those that name a model for NVLink and GPUs as well."""
        edit(platform, r'(id="nic-000003" bandwidth=)"50GBps"', r'\1"200Gbps"')
        edit(platform, r'(<host id="gpu-000000" speed=)"989Tf"', r'\1"1Tf"')
        edit(platform, r'(id="nvlink-000001" bandwidth=)"450GBps"', r'\1"1GBps"')
        printed = cli("check", str(platform))
        topics = ("steps of", "tensor", "compute of", "no time", "nic-000003", "gpu-", "nvlink-000")
        errors = [word for line in printed.splitlines() for word in topics if word in line]
        assert errors == ["steps of", "nic-000003", "tensor", "nvlink-000", "compute of", "gpu-"]
        report = cli.json("check", str(platform))
        assert [one["effect"] for one in report["differs_from_spec"]] == [
            "network",
            "scale-up",
            "compute",
        ]

    def test_a_broken_file_is_explained(self, platform: Path, cli: Cli) -> None:
        edit(platform, r'"50GBps"', '"50GB/s"')
        refused = cli.refused("check", platform)
        assert "'50GB/s' is a bandwidth, not a bandwidth of SimGrid" in refused


CLUSTER = """<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="c" prefix="node-" radical="0-7" suffix=".org" speed="1Gf" bw="1GBps" lat="50us"
           bb_bw="2GBps" bb_lat="500us"/>
</platform>
"""


class TestForeign:
    """A platform in SimGrid's own format, whose GPUs a pattern names."""

    @pytest.fixture
    def cluster(self, tmp_path: Path) -> Path:
        path = tmp_path / "cluster.xml"
        path.write_text(CLUSTER, "utf-8")
        return path

    def test_check(self, cluster: Path, cli: Cli) -> None:
        printed = cli("check", cluster)
        assert "none: name their hosts by --gpu-hosts PATTERN" in printed
        assert "loads its 8 hosts" in printed
        printed = cli("check", cluster, "--gpu-hosts", "node-*")
        assert "8 in 8 scale-up domains" in printed
        assert "bisection         1GB/s each way" in printed
        assert "as SimGrid routes; switches and cables are unknown" in printed

    def test_draw(self, cluster: Path, tmp_path: Path, cli: Cli) -> None:
        drawn = sketch(read_platform(cluster, "node-*"))
        assert {row: len(keys) for row, keys in drawn.rows.items()} == {
            "GPUs": 8,
            "level 1": 8,
            "level 2": 1,
        }
        picture = tmp_path / "c.svg"
        cli("draw", cluster, "--gpu-hosts", "node-*", "-o", picture)
        assert "links, level 2" in picture.read_text("utf-8")

    def test_probe(self, cluster: Path, cli: Cli) -> None:
        """Each of 14 rounds: 600 us, and 125 MB at the eighth of the backbone, 250 MB/s."""
        arguments = ("all-reduce", "ring", "--bytes", "1GB", "--gpu-hosts", "node-*")
        time_s = cli.json("probe", cluster, *arguments)["time_s"]
        assert time_s == pytest.approx(14 * (600e-6 + 0.5), rel=1e-3)
        assert "leave out the pattern" in cli.refused("probe", "hgx-h100", "--gpu-hosts", "gpu-*")

    @pytest.mark.parametrize("engine", ["replay", "simgrid"])
    def test_run(self, engine: str, cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
        scenario = cluster.with_name("job.toml")
        scenario.write_text(
            '[platform]\nfile = "cluster.xml"\ngpu_hosts = "node-*"\n'
            "[job]\ngroups = 4\nsteps = 20\nparameter_bytes = 1e9\n[failures]\nmtbf_s = 500.0\n"
            "[times]\ncompute_s = 1.0\ncheckpoint_write_s = 10.0\n",
            "utf-8",
        )
        record = Cli(capsys).json("run", scenario, "--engine", engine)
        assert (record["completed_steps"], record["events"]) == (20, 15)
        # A ring of four groups has six rounds of 125 MB; eight flows share the backbone.
        assert record["all_reduce_s"] == pytest.approx(20 * 6 * (600e-6 + 0.5))

    def test_failures_of_unknown_switches_need_their_gpus(
        self, cluster: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        trace = tmp_path / "log.csv"
        trace.write_text("time,component,cause\n100,switch-0,fan\n200,gpu-1,memory\n", "utf-8")
        platform = (f"platform.file={cluster}", "platform.gpu_hosts=node-*")
        times = ("times.checkpoint_write_s=10.0", "job.groups=4", "times.compute_s=1.0")
        for failures in (
            ("failures.model=mix",),
            ("failures.model=trace", f"failures.trace={trace}"),
        ):
            settings = [("--set", each) for each in (*platform, *times, *failures)]
            cli = Cli(capsys, "run", "llama3-70b-stress", "--set", "model.name=stated")
            arguments = [text for pair in settings for text in pair]
            assert f"switches of {cluster} are unknown" in cli.refused(*arguments)
            known = ("--set", "failures.gpus_per_switch=2", "--set", "job.steps=10")
            assert cli.json(*arguments, *known)["completed_steps"] == 10

    def test_mistakes_name_the_file_of_the_user(
        self, cluster: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        cli = Cli(capsys, "run", "spare-sound", "--set", f"platform.file={cluster}")
        assert f"{cluster}: has no GPU hosts: name them by" in cli.refused()
        pattern = ("--set", "platform.gpu_hosts=gpu-*")
        assert f"{cluster}: no host is named like 'gpu-*'" in cli.refused(*pattern)
        pattern = ("--set", "platform.gpu_hosts=node-*", "--set", "job.groups=8")
        assert f"{cluster}: has no storage host" in cli.refused(*pattern, "--set", "job.gpus=8")
        modelled = ("--set", "model.name=llama3-8b")
        assert "does not describe its GPUs; name them by model.gpu" in cli.refused(
            *pattern, *modelled
        )
        on_gb200 = ("--set", "platform.file=gb200-nvl72", "--set", "model.gpu=h100-sxm5")
        assert "describes its GPU as GB200 of 2.5PFLOP/s and 186GB, not" in cli.refused(
            *modelled, *on_gb200
        )
        named = ("--set", "model.gpu=h100-sxm5")
        assert "a scale-up domain of" in cli.refused(*pattern, *modelled, *named)
        preset = ("--set", "platform.file=hgx-h100")
        assert "hgx-h100 is a shipped cluster" in cli.refused(*pattern, *preset)


class TestDraw:
    def test_mistakes(self, platform: Path, tmp_path: Path, cli: Cli) -> None:
        assert "ends in .png" in cli.refused("draw", platform, "-o", tmp_path / "p.jpg")
        blocked = platform / "p.png"
        assert "name a file that can be written" in cli.refused("draw", platform, "-o", blocked)
        assert "cannot be read" in cli.refused("draw", "/none.xml", "-o", tmp_path / "p.png")

    @pytest.mark.parametrize(
        ("spec", "rows"),
        [
            (load_preset("hgx-h100", domains=2), [2, 16, 8, 1, 1]),
            (load_preset("gb200-nvl72", domains=1), [1, 72, 4, 1, 1]),
            (load_preset("hgx-h100", domains=32), [32, 8, 1, 1]),
            (load_preset("hgx-h100", **THREE_LEVELS), [4, 32, 2, 1, 1]),
            (load_preset("spare-600k", groups=1000), [1, 1, 1, 1]),
        ],
    )
    def test_rows_stay_short_and_lose_nothing(
        self, spec: ClusterSpec, rows: list[int], tmp_path: Path
    ) -> None:
        path = tmp_path / "p.xml"
        write_xml(spec, path)
        drawn = sketch(read_platform(path))
        assert [len(keys) for keys in drawn.rows.values()] == rows
        for row, keys in drawn.rows.items():
            assert len(keys) <= (MOST_GPUS if row == "GPUs" else MOST_NODES)
        assert sum(len(drawn.members[key]) for key in drawn.rows["GPUs"]) == spec.gpus
        # All adapters are drawn, in lines for one or for many.
        links = [link for edge in drawn.edges.values() for link in edge]
        assert sum(link_class == "nic" for link_class, _ in links) == spec.gpus


@pytest.fixture
def servers(cli: Cli, tmp_path: Path) -> Path:
    """Two servers, of which ``platform diff`` reports which phases an edit changes."""
    path = tmp_path / "servers.xml"
    cli("generate", "hgx-h100", "--set", "domains=2", "-o", path)
    return path


def edited(path: Path, old: str, new: str) -> Path:
    text = path.read_text(encoding="utf-8")
    assert old in text
    other = path.with_name("edited.xml")
    other.write_text(text.replace(old, new), encoding="utf-8")
    return other


def test_half_of_the_adapters_doubles_the_all_reduce(cli: Cli, servers: Path) -> None:
    slower = edited(
        servers, 'bandwidth="50GBps" latency="600ns"', 'bandwidth="25GBps" latency="600ns"'
    )
    errors = cli.json("diff", servers, slower)
    changes = {one["phase"]: one["change"] for one in errors["phases"]}
    assert changes["all-reduce"] == pytest.approx(1.0, rel=0.05)
    assert changes["checkpoint"] == 0
    (difference,) = errors["differences"]
    assert "bandwidth is 25GB/s" in difference["text"]
    assert "(16 of 16 nic differ)" in difference["text"]
    assert difference["effect"] == "network"


def test_slower_gpus_slow_the_compute_of_a_model(cli: Cli, servers: Path) -> None:
    slower = edited(servers, 'speed="989Tf"', 'speed="494.5Tf"')
    model = ("--set", "model.name=llama3-8b", "--set", "job.groups=2", "--set", "model.pipeline=1")
    job = ("llama3-70b-stress", *model)
    errors = cli.json("diff", servers, slower, *job)
    changes = {one["phase"].strip(): one["change"] for one in errors["phases"]}
    assert changes["computing"] > 0.3
    assert abs(changes["messages of tensor parallelism"]) < 0.1 < changes["step"]
    assert abs(changes["gradients and weights between groups"]) < 0.1


def test_the_same_file_changes_nothing(cli: Cli, servers: Path) -> None:
    printed = cli("diff", servers, servers)
    assert "No phase of this job changes." in printed
    assert "The files have the same contents." in printed


def nic_at(servers: Path, bandwidth: str) -> Path:
    name = '<link id="nic-000003" bandwidth='
    return edited(servers, f'{name}"50GBps"', f'{name}"{bandwidth}"')


def test_an_edit_without_effect_is_explained(cli: Cli, servers: Path) -> None:
    """Eight GPUs write a checkpoint to a storage of 50 GB/s: an adapter counts below 6.25 GB/s."""
    reasons = cli.json("diff", servers, nic_at(servers, "75GBps"))["reasons"]
    assert reasons == [
        "all-reduce: nic-000000 limits it. nic-000003 is busy 66.7% as long: it would limit the "
        "phase below 50GB/s.",
        "checkpoint: storage-write limits it. nic-000003 is busy 8.3% as long: it would limit the "
        "phase below 6.25GB/s.",
    ]
    printed = cli("diff", servers, nic_at(servers, "75GBps"))
    assert "No phase of this job changes, because\n- all-reduce: nic-000000 limits it." in printed
    for bandwidth, counts in (("6.3GBps", False), ("6.2GBps", True)):
        phases = cli.json("diff", servers, nic_at(servers, bandwidth))["phases"]
        (change,) = (one["change"] for one in phases if one["phase"] == "checkpoint")
        assert (change > 0) is counts


def test_a_link_without_messages_and_an_unused_gpu_are_explained(cli: Cli, servers: Path) -> None:
    slower = edited(servers, 'bandwidth="450GBps"', 'bandwidth="45GBps"')
    reasons = cli.json("diff", servers, slower)["reasons"]
    assert "all-reduce: nic-000000 limits it. No edited link carries its messages." in reasons
    slower = edited(servers, 'speed="989Tf"', 'speed="494.5Tf"')
    (reason,) = cli.json("diff", servers, slower)["reasons"]
    assert reason == "computing: times.compute_s is the same on any GPU; a [model] depends on GPUs."


def test_a_phase_of_one_platform_alone_is_listed(cli: Cli, servers: Path) -> None:
    """A narrow NVLink makes other ranks wait, which they do not on the platform before."""
    link = '<link id="nvlink-000003" bandwidth='
    slower = edited(servers, f'{link}"450GBps"', f'{link}"100GBps"')
    model = ("--set", "model.name=llama3-8b", "--set", "job.groups=2", "--set", "model.pipeline=1")
    printed = cli.json("diff", servers, slower, "llama3-70b-stress", *model)
    assert printed["reasons"] == []
    times = {one["phase"]: (one["before_s"], one["after_s"]) for one in printed["phases"]}
    for place in (0, 1):
        parts = sum(time[place] for name, time in times.items() if name.startswith("  "))
        assert parts == pytest.approx(times["step"][place])
    assert " new " in cli("diff", servers, slower, "llama3-70b-stress", *model)


def test_what_cannot_be_compared_is_reported(cli: Cli, servers: Path) -> None:
    assert "no such file" in cli.refused("diff", servers, "nowhere.xml")
    job = ("llama3-70b-stress",)
    assert "has 16 GPUs, the job needs 256" in cli.refused("diff", servers, servers, *job)


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        (".xml", nccl().decode().replace('"400000"', '"' + "9" * 5_000 + '"')),
        (".xml", '<system><cpu numaid="0">' + "<pci>" * 100_000),
        (".txt", MATRIX.replace("NV18", "NV" + "9" * 5_000)),
    ],
    ids=["digits", "deep", "links"],
)
def test_what_cannot_be_imported_is_refused(
    ending: str, text: str, tmp_path: Path, cli: Cli
) -> None:
    given, spec = tmp_path / f"given{ending}", tmp_path / "ours.toml"
    given.write_text(text, encoding="utf-8")
    assert str(given) in cli.refused("import", given, "-o", spec)
    assert not spec.exists()
