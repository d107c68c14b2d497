"""Processes of simulations: they end with their owners, and nothing they print is seen."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from faultline.simulator.simgrid_engine.errors import SimulationError
from faultline.simulator.simgrid_engine.process import OwnProcess, fork_from_here, in_own_process

from tests.experiments.runs.processes import PATIENCE_S, gone, start_python, wait_for


def end_by(how: int) -> None:
    os.kill(os.getpid(), how)


def talk() -> int:
    os.write(1, b"[0.000000] [parse/CRITICAL] to the output\n")
    os.write(2, b"[0.000000] [parse/CRITICAL] to the errors\n")
    return 7


def refuse() -> None:
    raise RuntimeError("no such host")


def test_one_that_is_killed_is_told() -> None:
    with pytest.raises(SimulationError, match="was killed: perhaps the machine ran out of memory"):
        in_own_process(end_by, signal.SIGKILL)


def complain_and_abort() -> None:
    os.write(2, b"\n".join(b"line %d" % number for number in range(9)) + b"\n\x1b[1m")
    os.abort()


def test_what_it_printed_last_is_in_the_message() -> None:
    with pytest.raises(SimulationError, match=r"SimGrid aborted .*: line 7 \| line 8 \| \[1m$"):
        in_own_process(complain_and_abort)


def test_what_it_prints_is_not_seen(capfd: pytest.CaptureFixture[str]) -> None:
    assert in_own_process(talk) == 7
    assert capfd.readouterr() == ("", "")


def test_what_it_refuses_is_told() -> None:
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


def parent_of_its_own(argument: str) -> tuple[int, int]:
    return in_own_process(os.getppid), in_own_process(int, argument)


def test_one_asks_its_owner_for_processes() -> None:
    # The owner's fork server has begun both, and there is no other.
    assert in_own_process(parent_of_its_own, "7") == (in_own_process(os.getppid), 7)


def test_what_its_owner_cannot_do_is_told() -> None:
    with pytest.raises(ValueError, match="no number"):
        in_own_process(parent_of_its_own, "no number")


def open_descriptors() -> set[str]:
    return {str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()}


def fork_one(folder: Path) -> tuple[int, int, set[str]]:
    fork_from_here()
    with (folder / "kept").open("w"), OwnProcess() as process:
        return os.getpid(), process.call(os.getppid), process.call(open_descriptors)


def test_one_that_is_forked_has_nothing_of_its_owner(tmp_path: Path) -> None:
    """Else the end of what an owner has open would be seen only when all are gone."""
    owner, parent, opened = in_own_process(fork_one, tmp_path)
    assert parent == owner
    assert str(tmp_path / "kept") not in opened
    # A connection, the owner's pipe, what tidies up, and the folder that was just read.
    assert len(opened) <= 5


def work_for_ever(folder: Path) -> None:
    (folder / "draft").write_text(str(os.getpid()))
    (folder / "draft").rename(folder / "worker")
    while True:
        pass


OWNER = """\
import signal
import sys
from pathlib import Path
from faultline.simulator.simgrid_engine.process import OwnProcess, fork_from_here
from tests.simulator.test_own_process import work_for_ever
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # Under nohup it is ignored.
if sys.argv[2] == "forked":
    fork_from_here()
with OwnProcess() as process:
    process.call(work_for_ever, Path(sys.argv[1]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells of it there")
@pytest.mark.parametrize("start", ["forked", "served"])
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_one_at_work_ends_with_its_owner(start: str, how: signal.Signals, tmp_path: Path) -> None:
    owner = start_python("-c", OWNER, str(tmp_path), start, stderr=subprocess.PIPE)
    assert wait_for((tmp_path / "worker").exists)
    worker = psutil.Process(int((tmp_path / "worker").read_text()))
    owner.send_signal(how)
    assert gone([worker])
    # Its fork server has its standard error open.
    assert owner.communicate(timeout=PATIENCE_S)[1] == b""
    assert owner.returncode == -how
