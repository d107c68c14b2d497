"""Results that are kept between runs: computed once, for one source, and harmless to read."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from faultline.platforms import kept_results
from faultline.platforms.kept_results import kept
from faultline.platforms.preset_library import load_preset
from faultline.platforms.symmetry import Symmetry
from faultline.platforms.xml_reader import platform_at, read_platform
from faultline.platforms.xml_writer import write_xml


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "faultline" / "analyses"


def never() -> str:
    raise AssertionError("this result is in the cache")


def test_a_result_is_computed_once() -> None:
    assert kept("name", (1, "key"), lambda: "first") == "first"
    assert kept("name", (1, "key"), never) == "first"
    assert kept("name", (2, "key"), lambda: "second") == "second"


def test_a_change_of_the_source_computes_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kept("name", 1, lambda: "first")
    monkeypatch.setattr(kept_results, "_source_digest", lambda: "other")
    assert kept("name", 1, lambda: "second") == "second"


class Forged:
    """A pickle that writes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[Path, bytes], None], tuple[Path, bytes]]:
        return kept_results.write_file, (self.path, b"was here")


@pytest.mark.parametrize("content", [b"", b"\x80", None])
def test_a_forged_file_runs_no_code(content: bytes | None, cache: Path, tmp_path: Path) -> None:
    kept("name", 1, lambda: "first")
    (entry,) = cache.iterdir()
    trace = tmp_path / "trace"
    entry.write_bytes(pickle.dumps(Forged(trace)) if content is None else content)
    assert kept("name", 1, lambda: "second") == "second"
    assert not trace.exists()


def test_platforms_and_symmetries_survive_the_cache(tmp_path: Path) -> None:
    spec = load_preset("hgx-h100")
    for name in ("one.xml", "two.xml"):
        write_xml(spec, tmp_path / name)
        assert platform_at(tmp_path / name) == read_platform(tmp_path / name)
    platform = platform_at(tmp_path / "one.xml")
    symmetry = Symmetry(platform)
    kept("symmetry", 1, lambda: symmetry)
    again = kept("symmetry", 1, never)
    assert vars(again) == vars(symmetry)
    assert again.stand_ins(reversed(platform.gpu_names)) == symmetry.stand_ins(
        reversed(platform.gpu_names)
    )
