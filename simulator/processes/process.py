"""Runs simulations in processes of their own, because SimGrid allows one engine per process."""

from __future__ import annotations

import faulthandler
import fcntl
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import DupFd
from multiprocessing.util import MAXFD
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, ParamSpec, TypeVar

from faultline.platforms.errors import shortage
from faultline.platforms.simgrid_library import find_simgrid_library
from faultline.simulator.accounting.progress import Progress
from faultline.simulator.accounting.timeline import Event
from faultline.simulator.job.job import Job
from faultline.simulator.loop.run import simulate
from faultline.simulator.loop.training import Training
from faultline.simulator.processes import standstill
from faultline.simulator.processes.contexts import worker_context
from faultline.simulator.simgrid.errors import KilledError, SimulationError
from faultline.simulator.simgrid.traffic import Traffic
from faultline.strategies.interface.errors import StrategyError, text_of
from faultline.strategies.interface.scheme import Strategy

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_ATTEMPTS = 4
_KILLED = -signal.SIGKILL, 255
"""Exit statuses of a child that was killed, or whose fork server has ended."""

_MOST_ERRORS_BYTES, _LAST_LINES = 4096, 3

_STANDARD_STREAMS = (0, 1, 2)

_SHORT_OF = "SimGrid, a thread for each rank, is {}"


@dataclass(frozen=True, slots=True)
class Call:
    """A call that a process requests of another."""

    function: Callable[..., object]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def run(self) -> tuple[object, Exception | None]:
        """Call the function; return its result and its exception."""
        try:
            return self.function(*self.args, **self.kwargs), None
        except Exception as error:
            return None, error


class _ProcessState:
    """Process-wide state, with connections to other processes."""

    may_be_forked = False  # Whether processes are forked from this one.
    owner: Connection | None = None  # The process that this one works for.


def fork_from_here() -> None:
    """Fork processes of simulations from this single-threaded process from now on.

    Other processes need a fork server, which takes a second to start.
    """
    _ProcessState.may_be_forked = True


class _ErrorFile:
    """The file for the standard error of a process, forked or not, by its descriptor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __reduce__(self) -> tuple[Callable[[Any], _ErrorFile], tuple[object]]:
        return _received_error_file, (DupFd(self.descriptor),)


def _received_error_file(duplicate: Any) -> _ErrorFile:
    return _ErrorFile(duplicate.detach())


def aborted(errors: int = 2, since: int = 0) -> SimulationError:
    """Return the error for a process that SimGrid aborted, with the last lines that it printed.

    `errors` is the descriptor of the file with its standard error, from byte `since` on.
    """
    begin = max(since, os.fstat(errors).st_size - _MOST_ERRORS_BYTES)
    text = os.pread(errors, _MOST_ERRORS_BYTES, begin).decode(errors="replace")
    lines = ["".join(filter(str.isprintable, line)).strip() for line in text.splitlines()]
    output = " | ".join([line for line in lines if line][-_LAST_LINES:])
    return SimulationError("SimGrid aborted the simulation" + (f": {output}" if output else ""))


@dataclass(frozen=True, slots=True)
class SimgridResult:
    """The outcome of a job on the SimGrid engine, with its timeline if requested."""

    progress: Progress
    events: list[Event]


class OwnProcess:
    """Another process, in which one engine may be created; it ends with this object.

    If it is `kept`, this process ends without waiting for it, and it cannot start others. If it is
    `forked` from this process, it also has functions that only exist here.
    """

    def __init__(self, *, kept: bool = False, forked: bool = False) -> None:
        forked = forked or _ProcessState.may_be_forked
        context = multiprocessing.get_context("fork") if forked else worker_context()
        self._calls, calls_of_process = context.Pipe()
        self._errors = TemporaryFile()  # noqa: SIM115 - as long as the process
        errors = _ErrorFile(self._errors.fileno())
        self._process = context.Process(
            target=_serve, args=(calls_of_process, errors, forked), daemon=kept
        )
        try:
            self._process.start()
        except (EOFError, ConnectionError) as error:
            raise KilledError("the process was killed as it began") from error
        finally:
            calls_of_process.close()

    def __enter__(self) -> OwnProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._calls.close()
        self._process.kill()
        self._process.join()
        self._errors.close()

    def call(
        self,
        function: Callable[Arguments, Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        """Call a module-level function in the process and return its result.

        Meanwhile this process runs the calls that the other one requests.

        Raises
        ------
        SimulationError
            If SimGrid aborts, or the process is killed or makes no progress.
        """
        try:
            self._calls.send(Call(function, args, kwargs))
            while isinstance(message := self._received(), Call):
                self._calls.send(message.run())
            result, error = message
        except (EOFError, ConnectionError):
            self._process.join()
            if self._process.exitcode in _KILLED:
                raise KilledError("the process was killed") from None
            raise aborted(self._errors.fileno()) from None
        if isinstance(error, RuntimeError) and (lack := shortage(error)) is not None:
            raise SimulationError(_SHORT_OF.format(lack)) from error
        if isinstance(error, (RuntimeError, TypeError)) and not isinstance(error, SimulationError):
            raise SimulationError(f"SimGrid refused to go on: {error}") from error
        if error is not None:
            raise error
        returned: Result = result
        return returned

    def _received(self) -> Any:
        """Return the next message of the process; raise a SimulationError if it stands still."""
        pid = self._process.pid
        assert pid is not None
        watch = None
        while not self._calls.poll(standstill.LOOK_EVERY_S):
            watch = watch or standstill.Watch(pid)
            if watch.stands_still():
                lines = standstill.lines_of_threads(pid, self._errors.fileno())
                self._process.kill()
                raise SimulationError(
                    f"SimGrid stands still: no processor time in {standstill.LIMIT_S:.0f} s; its "
                    f"threads wait at {lines}"
                )
        return self._calls.recv()


def in_own_process(
    function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """Call a module-level function in a fresh process and return its result.

    The owner of this process, if there is one, starts the new process. The call is repeated if that
    process or its fork server is killed, so the function must return the same result each time.

    Raises
    ------
    SimulationError
        If SimGrid aborts, or the process is killed repeatedly or makes no progress.
    """
    owner = _ProcessState.owner
    if owner is not None:
        result: Result = call_over(owner, in_own_process, function, *args, **kwargs)
        return result

    def call() -> Result:
        with OwnProcess() as process:
            return process.call(function, *args, **kwargs)

    return retry_if_killed(call)


def retry_if_killed(call: Callable[[], Result]) -> Result:
    """Call a function that runs something in its own process; retry if that process is killed."""
    for _ in range(_ATTEMPTS):
        with suppress(KilledError):
            return call()
    raise SimulationError(
        f"the process of the simulation was killed, {_ATTEMPTS} times in a row: perhaps the "
        "machine ran out of memory"
    )


def owner_with_platforms() -> Connection | None:
    """Return the connection to the process that keeps platforms for this one, if there is one."""
    return _ProcessState.owner


def call_over(other: Connection, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a module-level function in the process at the other end of a connection."""
    other.send(Call(function, args, kwargs))
    result, error = other.recv()
    if error is not None:
        raise error
    return result


def _serve(calls: Connection, errors: _ErrorFile, forked: bool) -> None:
    """Run calls until the other end of the connection closes."""
    # SimGrid prints its errors; the owner reports them if SimGrid aborts.
    os.dup2(errors.descriptor, 2)
    os.close(errors.descriptor)
    # The owner requests the stacks of this process's threads if it makes no progress.
    faulthandler.register(signal.SIGUSR1, file=2)
    owner = multiprocessing.parent_process()
    assert owner is not None
    if forked:
        # A connection that is also open in another process would outlast its owner.
        tracker = resource_tracker.getfd()
        kept = {calls.fileno(), owner.sentinel, *([tracker] if tracker else ())}
        _close_all_but({*_STANDARD_STREAMS, *kept})
        _ProcessState.may_be_forked = False
    end_with_parent()
    _ProcessState.owner = calls
    # An interrupt ends this process at once; the owner reports it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    find_simgrid_library()
    while True:
        try:
            call = calls.recv()
        except EOFError:
            return
        calls.send(call.run())


def end_with_parent() -> None:
    """End this process as soon as its parent has ended for any reason: a simulation may take hours.

    The kernel sends the signal when the other end of the pipe closes. A thread that waits for that
    would need the interpreter, which SimGrid's threads hold.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    sentinel = parent.sentinel
    if sys.platform == "linux":  # On other systems the simulation first runs to its end.
        signal.signal(signal.SIGIO, signal.SIG_DFL)
        fcntl.fcntl(sentinel, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(sentinel, fcntl.F_SETFL, fcntl.fcntl(sentinel, fcntl.F_GETFL) | os.O_ASYNC)
        if wait([sentinel], 0):  # The owner ended before the signal was set.
            os.kill(os.getpid(), signal.SIGIO)


def _close_all_but(kept: set[int]) -> None:
    # The similar function of `multiprocessing.util` closes all descriptors if 0 should be kept.
    for before, after in pairwise((*sorted(kept), MAXFD)):
        os.closerange(before + 1, after)


def run_on_simgrid(
    job: Job,
    strategy: Strategy,
    platform: Path,
    traffic: Traffic,
    *,
    events: bool = False,
) -> SimgridResult:
    """Simulate a job and its scheme, at its start, on the SimGrid engine in a process of its own.

    The result has the timeline if `events` is true.
    """
    return in_own_process(simulate_here, job, strategy, platform, traffic, events)


def simulate_here(
    job: Job,
    strategy: Strategy,
    platform: Path,
    traffic: Traffic,
    keep_events: bool,
) -> SimgridResult:
    """Simulate a job on the SimGrid engine in this process, which is possible once."""
    from faultline.platforms.xml_names import CONTROLLER_HOST
    from faultline.simulator.simgrid.loading import actor_on, load_engine, run_controller

    engine = load_engine(platform)
    from faultline.simulator.simgrid.controller import SimgridEngine
    from faultline.simulator.simgrid.links import level_memory_doors

    level_memory_doors(traffic)
    events: list[Event] = []
    training = Training(job, strategy, events.append if keep_events else None)
    simgrid_engine = SimgridEngine(job, traffic, platform)
    simgrid_engine.failure_injector.power_on()
    errors: list[Exception] = []

    def control() -> None:
        try:
            simulate(training, simgrid_engine)
        except Exception as error:
            # An exception that leaves an actor aborts the process without its message.
            errors.append(error)

    actor_on(CONTROLLER_HOST, "failures", simgrid_engine.failure_injector.inject, daemon=True)
    run_controller(engine, "controller", control)
    for error in errors:
        if isinstance(error, SimulationError):
            raise error
        if (lack := shortage(error)) is not None:
            raise SimulationError(_SHORT_OF.format(lack)) from error
        # Some errors of schemes cannot be sent to another process.
        message = str(error) if isinstance(error, StrategyError) else text_of(error)
        raise SimulationError(f"the controller failed: {message}") from error
    return SimgridResult(training.progress, events)
