"""Processes of simulations: those that are killed are replaced, and nothing they print is seen."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import psutil
import pytest
from faultline.simulator.processes import standstill
from faultline.simulator.processes.process import (
    in_own_process,
)
from faultline.simulator.simgrid.errors import SimulationError

from tests.experiments.runs.processes import PATIENCE_S, gone, start_python, wait_for

pytestmark = pytest.mark.system


def die_in_first_calls(count: int, folder: Path, how: int) -> str:
    """Send this process a signal in the first `count` calls."""
    calls = len(list(folder.iterdir()))
    (folder / str(calls)).touch()
    if calls < count:
        os.kill(os.getpid(), how)
    return "alive"


def print_and_return() -> int:
    os.write(1, b"[0.000000] [parse/CRITICAL] to the output\n")
    os.write(2, b"[0.000000] [parse/CRITICAL] to the errors\n")
    return 7


def refuse() -> None:
    raise RuntimeError("no such host")


@pytest.mark.parametrize("count", [1, 3])
def test_a_process_that_is_killed_is_replaced(count: int, tmp_path: Path) -> None:
    assert in_own_process(die_in_first_calls, count, tmp_path, signal.SIGKILL) == "alive"
    assert len(list(tmp_path.iterdir())) == count + 1


def test_a_process_that_is_killed_repeatedly_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SimulationError, match="killed, 4 times in a row"):
        in_own_process(die_in_first_calls, 99, tmp_path, signal.SIGKILL)


def test_a_process_that_aborts_is_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(SimulationError, match="SimGrid aborted"):
        in_own_process(die_in_first_calls, 99, tmp_path, signal.SIGABRT)
    assert len(list(tmp_path.iterdir())) == 1


def complain_and_abort() -> None:
    os.write(2, b"\n".join(b"line %d" % number for number in range(9)) + b"\n\x1b[1m")
    os.abort()


def test_the_last_printed_lines_are_in_the_message() -> None:
    with pytest.raises(SimulationError, match=r"SimGrid aborted .*: line 7 \| line 8 \| \[1m$"):
        in_own_process(complain_and_abort)


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let the first process not start, as if its fork server had been killed."""
    begun: list[str] = []
    start = ForkServerProcess.start

    def start_later(self: ForkServerProcess) -> None:
        begun.append("start")
        if len(begun) == 1:
            raise EOFError("unexpected EOF")
        start(self)

    monkeypatch.setattr(ForkServerProcess, "start", start_later)
    return begun


def wait_for_itself() -> None:
    lock = threading.Lock()
    with lock:
        lock.acquire()


def test_a_deadlocked_process_is_ended_with_its_line_of_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(standstill, "LOOK_EVERY_S", 0.1)
    monkeypatch.setattr(standstill, "LIMIT_S", 1.0)
    with pytest.raises(
        SimulationError, match=r"stands still.* at test_own_process.py:\d+ wait_for"
    ):
        in_own_process(wait_for_itself)


def work_for_two_seconds() -> str:
    begun_s = time.process_time()
    while time.process_time() - begun_s < 2.0:
        pass
    return "done"


def test_a_process_that_computes_for_long_is_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standstill, "LOOK_EVERY_S", 0.1)
    monkeypatch.setattr(standstill, "LIMIT_S", 1.0)
    assert in_own_process(work_for_two_seconds) == "done"


def test_a_process_whose_fork_server_was_killed_is_started_again(starts: list[str]) -> None:
    assert in_own_process(print_and_return) == 7
    assert len(starts) == 2


def test_the_output_of_a_process_is_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    assert in_own_process(print_and_return) == 7
    assert capfd.readouterr() == ("", "")


def test_an_error_of_simgrid_is_reported() -> None:
    with pytest.raises(SimulationError, match="SimGrid refused to go on: no such host"):
        in_own_process(refuse)


def lack_of(kind: str) -> None:
    raise {"threads": RuntimeError(os.strerror(errno.EAGAIN)), "memory": MemoryError()}[kind]


def test_a_lack_of_memory_is_named_with_its_limit() -> None:
    printed = (
        r"out of memory or threads \(Resource temporarily unavailable\); raise ulimit -v \(.+\)"
    )
    with pytest.raises(SimulationError, match=printed):
        in_own_process(lack_of, "threads")
    with pytest.raises(MemoryError):
        in_own_process(lack_of, "memory")


def work_for_ever(folder: Path) -> None:
    (folder / "draft").write_text(str(os.getpid()))
    (folder / "draft").rename(folder / "worker")
    while True:
        pass


OWNER = """\
import signal
import sys
from pathlib import Path
from faultline.simulator.processes.process import OwnProcess, fork_from_here
from tests.simulator.processes.test_own_process import work_for_ever
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # Under nohup it is ignored.
if sys.argv[2] == "forked":
    fork_from_here()
with OwnProcess() as process:
    process.call(work_for_ever, Path(sys.argv[1]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells of it there")
@pytest.mark.parametrize("start", ["forked", "served"])
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_busy_process_ends_with_its_owner(
    start: str, how: signal.Signals, tmp_path: Path
) -> None:
    owner = start_python("-c", OWNER, str(tmp_path), start, stderr=subprocess.PIPE)
    assert wait_for((tmp_path / "worker").exists)
    worker = psutil.Process(int((tmp_path / "worker").read_text()))
    owner.send_signal(how)
    assert gone([worker])
    # Its fork server has its standard error open.
    assert owner.communicate(timeout=PATIENCE_S)[1] == b""
    assert owner.returncode == -how
