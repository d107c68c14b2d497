"""The one reader and the one writer: what they refuse, and what they leave behind."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faultline.platforms.files import is_draft, read_file, read_text, write_file

MOST = 1_000


def odd_files(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield what is no regular file, with what is printed of it."""
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    yield pipe, "a pipe"
    through = folder / "link-to-a-pipe"
    through.symlink_to(pipe)
    yield through, "a pipe"
    door = folder / "socket"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(door))
    yield door, "a socket"
    yield folder, "a folder"
    yield Path("/dev/zero"), "a device"
    yield Path("/dev/stdin"), ", not a regular file"


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    for path, message in odd_files(tmp_path):
        with pytest.raises(OSError, match=message) as caught:
            read_file(path, MOST)
        assert caught.value.filename == str(path)


def test_reading_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * MOST)
    assert len(read_file(path, MOST)) == MOST
    with path.open("ab") as file:
        file.truncate(10**12)  # A hole: no disk is needed for it.
    with pytest.raises(OSError, match="larger than 1000 bytes"):
        read_file(path, MOST)


def test_a_link_is_followed_only_where_it_may_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content", encoding="utf-8")
    link = tmp_path / "link"
    link.symlink_to("file")
    assert read_text(link, MOST) == "content"
    with pytest.raises(OSError, match="a symbolic link"):
        read_file(link, MOST, follow=False)


def test_what_is_no_text_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(OSError, match="not UTF-8 text"):
        read_text(path, MOST)


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.json"
    write_file(path, b"old")

    def fail(*_: object) -> None:
        assert any(is_draft(file.name) for file in tmp_path.iterdir())
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    owner: Any = os if step == "fsync" else Path
    monkeypatch.setattr(owner, step, fail)
    with pytest.raises(OSError, match="No space") as caught:
        write_file(path, b"new")
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_but_a_regular_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious", encoding="utf-8")
    link = tmp_path / "link"
    link.symlink_to("precious")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    not_files = {link: "a symbolic link", pipe: "a pipe", tmp_path: "a folder", Path(): "a folder"}
    for path, message in not_files.items():
        with pytest.raises(OSError, match=message):
            write_file(path, "other")
    assert (tmp_path / "precious").read_text(encoding="utf-8") == "precious"
    assert link.is_symlink()


def test_readers_see_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    contents = [bytes([65 + number]) * 50_000 for number in range(8)]
    write_file(path, contents[0])
    ended = threading.Event()

    def write() -> None:
        for content in contents * 4:
            write_file(path, content)
        ended.set()

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    while not ended.is_set():
        assert read_file(path, 10**6) in contents
    for writer in writers:
        writer.join()
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
