"""Untrusted platform files: they can describe nothing but a cluster."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from faultline.experiments.cli import main
from faultline.platforms.errors import PlatformError
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_reader import platform_from_xml, read_platform
from faultline.platforms.xml_writer import xml_text

from tests.experiments.command_line import Cli

pytestmark = pytest.mark.system


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


TEXT = xml_text(load_preset("hgx-h100", domains=2))
OPTIONS = '<config id="General"><prop id="{}" value="{}" /></config>'
ROOT = '<zone id="faultline"'
GPU = '<host id="gpu-000000"'
NIC = '<link id="nic-000000"'


def line_of(text: str, what: str) -> int:
    return text[: text.index(what)].count("\n") + 1


def refusal(content: str | bytes) -> str:
    with pytest.raises(PlatformError) as caught:
        platform_from_xml(content if isinstance(content, bytes) else content.encode(), "p.xml")
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) <= 1_000
    return message


@pytest.mark.parametrize("option", ["tracing", "tracing/filename", "plugin", "model-check/replay"])
def test_no_option_writes_a_file(option: str, tmp_path: Path, cli: Cli) -> None:
    target = tmp_path / "written-by-simgrid"
    text = TEXT.replace(ROOT, OPTIONS.format(option, target) + ROOT, 1)
    path = tmp_path / "p.xml"
    path.write_text(text, encoding="utf-8")
    printed = cli.refused("platform", "check", path)
    assert printed.startswith(
        f"faultline: {path}:{line_of(text, '<config')}: option {option!r}: is "
    )
    assert not target.exists()


def test_what_changes_nothing_but_the_precision_is_allowed() -> None:
    for option, value in (("precision/timing", "1e-9"), ("network/model", "CM02")):
        text = TEXT.replace(ROOT, OPTIONS.format(option, value) + ROOT, 1)
        assert platform_from_xml(text.encode(), "p.xml").gpus
    for option, value in (("precision/timing", "1e9"), ("network/model", "LV08")):
        assert option in refusal(TEXT.replace(ROOT, OPTIONS.format(option, value) + ROOT, 1))


@pytest.mark.parametrize(
    ("before", "element"),
    [
        (ROOT, '<include file="/etc/passwd" />'),
        ("</platform>", '<actor host="gpu-000000" function="f" />'),
        (ROOT, '<trace id="t" file="/etc/passwd" />'),
        ("</platform>", '<cluster id="c" prefix="c-" suffix="" radical="0-9999999" speed="1Gf" />'),
    ],
)
def test_elements_that_are_not_listed_are_refused_with_their_line(
    before: str, element: str
) -> None:
    text = TEXT.replace(before, element + before, 1)
    name = element.split(maxsplit=1)[0]
    assert refusal(text).startswith(f"p.xml:{line_of(text, name)}: {name}> is not allowed")


@pytest.mark.parametrize(
    ("tag", "attribute"),
    [
        (GPU, "availability_file"),
        (GPU, "coordinates"),
        (NIC, "bandwidth_file"),
        (NIC, "state_file"),
    ],
)
def test_attributes_that_name_files_are_refused_with_their_line(tag: str, attribute: str) -> None:
    text = TEXT.replace(tag, f'{tag} {attribute}="/dev/zero"', 1)
    assert refusal(text).startswith(f"p.xml:{line_of(text, attribute)}: '{attribute}' of <")


NESTED = "".join(f'<zone id="z{n}" routing="Full">' for n in range(1_100)) + "</zone>" * 1_100
STRANGE: list[tuple[str, str | bytes, str]] = [
    ("UTF-16", TEXT.encode("utf-16"), "UTF-8"),
    ("Latin-1", TEXT.replace("utf-8", "ISO-8859-1", 1), "UTF-8"),
    ("no UTF-8", TEXT.encode().replace(b"gpu-000001", b"gpu-\xff"), "UTF-8"),
    (
        "entities",
        re.sub(r"simgrid.dtd\">", 'simgrid.dtd" [<!ENTITY a "b">]>', TEXT),
        "document type",
    ),
    (
        "nested zones",
        TEXT.replace('<zone id="management"', NESTED + '<zone id="management"'),
        "100",
    ),
    ("digits", TEXT.replace('bandwidth="50GBps"', f'bandwidth="{"5" * 5_000}GBps"', 1), "5,004"),
    ("many digits", TEXT.replace('bandwidth="50GBps"', f'bandwidth="{"5" * 900}Bps"', 1), "range"),
    ("Vivaldi", TEXT.replace("DijkstraCache", "Vivaldi"), "routing is 'Vivaldi'"),
    ("core = 0", TEXT.replace(GPU, f'{GPU} core="0"', 1), "core is '0'"),
    ("long name", TEXT.replace("gpu-000001", "g" * 100_000), "100,000 characters"),
    ("escape", TEXT.replace("gpu-000001", "gpu-&#x9b;31m"), "unprintable characters"),
    ("text", TEXT.replace("<router", "hello<router", 1), "is between elements"),
    ("old version", TEXT.replace('version="4.1"', 'version="3"', 1), "version is '3'"),
]


@pytest.mark.parametrize(("content", "message"), [case[1:] for case in STRANGE], ids=lambda _: "")
def test_strange_files_are_refused_in_one_line(content: str | bytes, message: str) -> None:
    assert message in refusal(content)


def test_nothing_of_simgrid_is_printed_beside_our_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.xml"
    # SimGrid wants hosts before links; our reader does not mind.
    zone = '<zone id="fabric" routing="DijkstraCache">'
    moved = '<link id="early" bandwidth="1GBps" latency="1us" />'
    path.write_text(TEXT.replace(zone, zone + moved, 1), encoding="utf-8")
    settings = (f"platform.file={path}", "job.groups=2", "job.steps=5")
    words = [word for setting in settings for word in ("--set", setting)]
    assert main(["run", "spare-sound", "--engine", "simgrid", *words]) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("faultline: ")


@pytest.mark.slow
def test_a_million_hosts_are_read_or_refused_in_bounded_time(tmp_path: Path) -> None:
    path = tmp_path / "million.xml"
    hosts = "".join(f'<host id="gpu-{n}" speed="1Gf"/>\n' for n in range(1_000_000))
    gpu = '<host id="g" speed="1Gf"><prop id="role" value="gpu"/></host>'
    zone = '<zone id="z" routing="DijkstraCache"><prop id="faultline:version" value="1"/>'
    path.write_text(
        f'<platform version="4.1">{zone}{gpu}{hosts}</zone></platform>', encoding="utf-8"
    )
    with pytest.raises(PlatformError, match="no route leads from"):
        read_platform(path)
