"""A platform file describes a cluster, and does nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.experiments.cli import main
from faultline.platforms.errors import PlatformError
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_reader import platform_from_xml
from faultline.platforms.xml_writer import xml_text

from tests.experiments.asking import Ask


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    return Ask(capsys)


TEXT = xml_text(load_preset("hgx-h100", domains=2))
OPTIONS = '<config id="General"><prop id="{}" value="{}" /></config>'
ROOT = '<zone id="faultline"'
GPU = '<host id="gpu-000000"'
NIC = '<link id="nic-000000"'


def line_of(text: str, what: str) -> int:
    return text[: text.index(what)].count("\n") + 1


def refusal(content: str) -> str:
    with pytest.raises(PlatformError) as caught:
        platform_from_xml(content.encode(), "p.xml")
    return str(caught.value)


@pytest.mark.parametrize(
    "option", ["tracing", "tracing/filename", "plugin", "path", "model-check/replay", "contexts/x"]
)
def test_no_option_writes_a_file(option: str, tmp_path: Path, ask: Ask) -> None:
    target = tmp_path / "written-by-simgrid"
    text = TEXT.replace(ROOT, OPTIONS.format(option, target) + ROOT, 1)
    path = tmp_path / "p.xml"
    path.write_text(text, encoding="utf-8")
    printed = ask.refused("platform", "check", path)
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
        ("</platform>", '<process host="gpu-000000" function="f" />'),
        (ROOT, '<trace id="t" file="/etc/passwd" />'),
        ("</platform>", '<trace_connect trace="t" element="gpu-000000" />'),
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
        (GPU, "state_file"),
        (GPU, "speed_file"),
        (GPU, "coordinates"),
        (NIC, "bandwidth_file"),
        (NIC, "latency_file"),
        (NIC, "state_file"),
    ],
)
def test_attributes_that_name_files_are_refused_with_their_line(tag: str, attribute: str) -> None:
    text = TEXT.replace(tag, f'{tag} {attribute}="/dev/zero"', 1)
    assert refusal(text).startswith(f"p.xml:{line_of(text, attribute)}: '{attribute}' of <")


@pytest.mark.parametrize(
    ("right", "wrong", "printed"),
    [
        ("DijkstraCache", "Vivaldi", "routing is 'Vivaldi'"),
        ("DijkstraCache", "Full", "has routing Full and no route from"),
        ('version="4.1"', 'version="3"', "version is '3'"),
        ("gpu-000001", "", "host has an empty name"),
    ],
)
def test_a_file_that_simgrid_crashes_at_is_refused(right: str, wrong: str, printed: str) -> None:
    assert printed in refusal(TEXT.replace(right, wrong))


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
