"""The cache: within bounds under concurrent writers, and emptied on request."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from faultline.platforms.cache_folder import cache_directory, keep_within_bounds
from faultline.platforms.files import write_file


def fill(shelf: Path, count: int, size_bytes: int = 100) -> None:
    shelf.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        path = shelf / f"{number:03}.json"
        write_file(path, b"x" * size_bytes)
        os.utime(path, (number, number))


@pytest.mark.parametrize("bounds", [{"most_files": 5}, {"most_bytes": 500}])
def test_the_oldest_make_place(bounds: dict[str, int], tmp_path: Path) -> None:
    fill(tmp_path, 20)
    keep_within_bounds(tmp_path, **bounds)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{number:03}.json" for number in range(15, 20)
    ]


def test_two_may_write_and_make_place_at_once(tmp_path: Path) -> None:
    wrong: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for number in range(60):
                write_file(tmp_path / f"{name}-{number}.json", "content")
                keep_within_bounds(tmp_path, most_files=10)
        except BaseException as error:
            wrong.append(error)

    workers = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []
    left = list(tmp_path.iterdir())
    assert len(left) <= 11
    assert {path.read_text(encoding="utf-8") for path in left} == {"content"}


def test_a_relative_place_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    monkeypatch.setenv("HOME", "/home/user")
    assert cache_directory() == Path("/home/user/.cache/faultline")
