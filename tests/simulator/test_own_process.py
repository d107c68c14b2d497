"""Processes of simulations: those that are killed are replaced, and nothing they print is seen."""

from __future__ import annotations

import os
import signal
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest
from faultline.simulator.simgrid_engine.process import SimulationError, in_own_process


def die_so_often(count: int, folder: Path, how: int) -> str:
    """Die as if somebody had killed this process, the first `count` times that it is called."""
    tried = len(list(folder.iterdir()))
    (folder / str(tried)).touch()
    if tried < count:
        os.kill(os.getpid(), how)
    return "alive"


def talk() -> int:
    os.write(1, b"[0.000000] [parse/CRITICAL] to the output\n")
    os.write(2, b"[0.000000] [parse/CRITICAL] to the errors\n")
    return 7


def refuse() -> None:
    raise RuntimeError("no such host")


@pytest.mark.parametrize("count", [1, 3])
def test_a_process_that_is_killed_is_replaced(count: int, tmp_path: Path) -> None:
    assert in_own_process(die_so_often, count, tmp_path, signal.SIGKILL) == "alive"
    assert len(list(tmp_path.iterdir())) == count + 1


def test_one_that_is_killed_for_ever_is_told(tmp_path: Path) -> None:
    with pytest.raises(SimulationError, match="killed, 4 times in a row"):
        in_own_process(die_so_often, 99, tmp_path, signal.SIGKILL)


def test_one_that_aborts_would_do_so_again(tmp_path: Path) -> None:
    with pytest.raises(SimulationError, match="SimGrid aborted"):
        in_own_process(die_so_often, 99, tmp_path, signal.SIGABRT)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let the first process not start, as where the one it is forked from was killed."""
    begun: list[str] = []
    start = ForkServerProcess.start

    def start_later(self: ForkServerProcess) -> None:
        begun.append("start")
        if len(begun) == 1:
            raise EOFError("unexpected EOF")
        start(self)

    monkeypatch.setattr(ForkServerProcess, "start", start_later)
    return begun


def test_one_whose_fork_server_is_killed_at_its_start_is_started_again(starts: list[str]) -> None:
    assert in_own_process(talk) == 7
    assert len(starts) == 2


def test_what_it_prints_is_not_seen(capfd: pytest.CaptureFixture[str]) -> None:
    assert in_own_process(talk) == 7
    assert capfd.readouterr() == ("", "")


def test_what_it_refuses_is_told() -> None:
    with pytest.raises(SimulationError, match="SimGrid refused to go on: no such host"):
        in_own_process(refuse)
