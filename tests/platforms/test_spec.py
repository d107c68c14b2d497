import re
from pathlib import Path
from typing import Any

import faultline.platforms
import pytest
from faultline.platforms.errors import PlatformError
from faultline.platforms.preset_library import load_preset
from faultline.platforms.spec_file import load_spec, parse_spec

HGX = (Path(faultline.platforms.__file__).parent / "presets" / "hgx-h100.toml").read_text(
    encoding="utf-8"
)


def line(text: str) -> int:
    return next(n for n, found in enumerate(HGX.splitlines(), 1) if found.startswith(text))


def test_a_spec_is_in_si_units() -> None:
    spec = parse_spec(HGX)
    assert spec.scale_up.bandwidth_bytes_per_s == 450e9
    assert spec.nic.bandwidth_bytes_per_s == 50e9
    assert spec.nic.latency_s == 500e-9
    assert spec.gpu.speed_flop_per_s == 989e12
    assert spec.gpu.memory_bytes == 80e9
    assert spec.gpus == 256
    assert spec.gpus_per_rank == 1


WRONG = [
    ('flops = "989TFLOP/s"', 'flop = "989TFLOP/s"', "gpu.flop is unknown (did you mean 'flops'?)"),
    ('latency = "500ns"', "latency = 5", "nic.latency: 5 what? Write 5s if these are seconds"),
    ("domains = 32", "domains = 0", "scale_up.domains: 0 is wrong: input should be greater than"),
    ("oversubscription = [1]", "oversubscription = [0.5]", "scale_out.oversubscription.0: 0.5 is"),
    (
        "oversubscription = [1]",
        "oversubscription = [1, 2]",
        "scale_out.oversubscription has 2 values: 2 levels need 1",
    ),
    (
        "domains_per_leaf = 32",
        "domains_per_leaf = 32\nleaves_per_pod = 2",
        "scale_out.leaves_per_pod has no effect with 2 levels",
    ),
    (
        'nvlink = "nvlink4"',
        'nvlink = "nvlink44"',
        "scale_up.nvlink: 'nvlink44' is not a generation (did you mean 'nvlink4'?): there are",
    ),
    (
        "[host]",
        "[host]\ngpus_per_host = 3",
        "host.gpus_per_host: 3 does not divide scale_up.gpus_per_domain = 8",
    ),
    ("per_gpu = 1", "gpus_per_nic = 3", "nic.gpus_per_nic: 3 does not divide the 8 GPUs of a host"),
    (
        "per_gpu = 1",
        "per_gpu = 2\ngpus_per_nic = 2",
        "nic.gpus_per_nic is above 1 and so is nic.per_gpu",
    ),
    (
        "rail_optimised = true",
        "rail_optimised = true\nrails = 3",
        "scale_out.rails: 3 does not divide the 8 network adapters",
    ),
    (
        "rail_optimised = true",
        "rail_optimised = false\nrails = 4",
        "scale_out.rails has no effect without rail_optimised",
    ),
    ("domains = 32", "domains = 30000", "scale_up.domains makes 240000 GPU hosts, more than"),
    (
        'memory = "80GB"',
        'memory = "0GB"',
        "gpu.memory: '0GB' is zero: write a size in bytes above zero, like 80GB",
    ),
]


@pytest.mark.parametrize(("right", "wrong", "message"), WRONG)
def test_an_error_names_file_line_and_key(
    right: str, wrong: str, message: str, tmp_path: Path
) -> None:
    assert right in HGX
    path = tmp_path / "cluster.toml"
    path.write_text(HGX.replace(right, wrong), encoding="utf-8")
    with pytest.raises(PlatformError) as caught:
        load_spec(path)
    number = line(right) + wrong.count("\n")
    assert str(caught.value).startswith(f"{path}:{number}: {message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("right", "table", "message"),
    [
        ('nvlink = "nvlink4"', "[scale_up]", 'scale_up.bandwidth is missing: write it like "450'),
        ('pcie_bandwidth = "64GB/s"', "[nic]", "nic.pcie_bandwidth is missing: domains of several"),
    ],
)
def test_a_missing_key_is_looked_for_in_its_table(right: str, table: str, message: str) -> None:
    text = HGX.replace(right, "")
    with pytest.raises(PlatformError) as caught:
        parse_spec(text, "c.toml")
    assert str(caught.value).startswith(f"c.toml:{line(table)}: {message}")


def test_a_missing_table_is_named() -> None:
    start, end = HGX.index("[gpu]"), HGX.index("[scale_up]")
    with pytest.raises(PlatformError, match="gpu is missing: the file needs a table of this name"):
        parse_spec(HGX[:start] + HGX[end:])


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ('link_bandwidth = "1GB/s"', "host.memory_bandwidth is missing: host.link_bandwidth leads"),
        ("doors = true", "host.doors lead nowhere: state host.memory_bandwidth or the table"),
    ],
)
def test_ways_to_memory_need_a_memory(key: str, message: str) -> None:
    start, end = HGX.index("[host]"), HGX.index("[rack]")
    with pytest.raises(PlatformError, match=re.escape(message)):
        parse_spec(f"{HGX[:start]}[host]\n{key}\n{HGX[end:]}")


def test_three_levels_need_their_pods() -> None:
    text = HGX.replace("levels = 2", "levels = 3").replace("= [1]", "= [1, 2]")
    with pytest.raises(PlatformError, match="leaves_per_pod is missing: three levels need it"):
        parse_spec(text)
    spec = parse_spec(text.replace("levels = 3", "levels = 3\nleaves_per_pod = 2"))
    assert spec.scale_out.leaves_per_pod == 2


def test_a_file_that_is_no_toml_or_not_there(tmp_path: Path) -> None:
    with pytest.raises(PlatformError, match=r"none\.toml: cannot be read: No such file"):
        load_spec(tmp_path / "none.toml")
    path = tmp_path / "c.toml"
    path.write_text("name =\n", encoding="utf-8")
    with pytest.raises(PlatformError, match=r"c\.toml: is no TOML: .*line 1"):
        load_spec(path)


class TestPresets:
    def test_overrides_are_short_or_dotted(self) -> None:
        spec = load_preset("hgx-h100", domains="0.004k", **{"nic.bandwidth": "800Gbps"})
        assert spec.scale_up.domains == 4
        assert spec.nic.bandwidth_bytes_per_s == 100e9

    @pytest.mark.parametrize(("groups", "gpus"), [(200, 3000), (600, 1000), (1000, 600)])
    def test_a_rank_of_the_plane_stands_for_its_group(self, groups: int, gpus: int) -> None:
        spec = load_preset("spare-600k", groups=groups)
        assert (spec.gpus, spec.gpus_per_rank) == (groups, gpus)

    @pytest.mark.parametrize(
        ("name", "overrides", "message"),
        [
            ("hgx-h10", {}, "no preset is called 'hgx-h10' (did you mean 'hgx-h100'?)"),
            ("hgx-h100", {"domain": 4}, "key 'domain' is unknown (did you mean 'domains'?)"),
            ("hgx-h100", {"latency": "1us"}, "key 'latency' is ambiguous: write scale_up.latency"),
            ("spare-600k", {"groups": 7}, "7 groups do not divide plane.cluster_gpus = 600000"),
            (
                "spare-600k",
                {"gpus_per_domain": 8},
                "scale_up.gpus_per_domain: must be 1 in a plane",
            ),
        ],
    )
    def test_wrong_overrides(self, name: str, overrides: dict[str, Any], message: str) -> None:
        with pytest.raises(PlatformError) as caught:
            load_preset(name, **overrides)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)
