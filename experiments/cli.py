"""The command line ``faultline``."""

from __future__ import annotations

import argparse
import errno
import gc
import logging
import os
import select
import signal
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from traceback import format_exception
from types import FrameType, TracebackType

from faultline.experiments.commands.declarations.whole import parser
from faultline.experiments.streams import let_all_text_be_printed, print_note, shown

_SIGPIPE_STATUS = 141
"""Exit status of a program that a closed pipe ended: 128 + SIGPIPE."""

_OF_STREAMS = {
    errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC, errno.ENXIO, errno.EPIPE,
}  # fmt: skip
"""Errors of writing to a stream; these carry no file name."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Returns
    -------
    int
        The exit status: the command's own, 2 for bad input (with an error of one line), 130 after
        an interrupt, 141 if the reader of the standard output has closed it.
    """
    sys.excepthook = _show
    _interrupts.clear()
    # A process in the background ignores interrupts; a thread cannot set handlers.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        with suppress(ValueError):
            signal.signal(signal.SIGINT, _note_interrupt)
    if arguments is None:
        # The garbage collector would search all imported modules, again and again, although none of
        # them becomes garbage while this command runs. Threads do not pay for matrices this small.
        gc.disable()
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if not sys.warnoptions:
        # Warnings of libraries are for developers, not for users of the command.
        warnings.simplefilter("ignore")
        logging.getLogger().addHandler(logging.NullHandler())
    let_all_text_be_printed()
    try:
        status = _run(arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        status = _SIGPIPE_STATUS
    except OSError as error:
        _print_error(_error_line(error))
        status = 2
    # Discard the contents of the buffers without another error.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
    return status


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print a traceback, escaped: its error may quote a file."""
    sys.stderr.write(shown("".join(format_exception(kind, error, trace))))


def _run(arguments: Sequence[str] | None) -> int:
    try:
        return execute(parser().parse_args(arguments))
    except KeyboardInterrupt:
        return _interrupted()
    except SystemExit as stop:
        # Rich exits with status 1 on a closed pipe; argparse ignores errors of printing.
        if isinstance(stop.__context__, BrokenPipeError) or not (stop.code or _is_read()):
            raise BrokenPipeError from stop
        sys.stdout.flush()
        raise
    except Exception as error:
        from faultline.platforms.errors import shortage

        if (lack := shortage(error)) is not None:
            _print_error(lack)
            return 2
        if _interrupts and not _is_for_users(error):
            return _interrupted()
        if not _is_for_users(error) or (isinstance(error, OSError) and not error.filename):
            # An OSError without a file name concerns a stream: `main` reports it.
            raise
        _print_error(_error_line(error))
        return 2


_interrupts: list[int] = []


def _note_interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, and keep it in mind: a library may turn it into its own error."""
    _interrupts.append(number)
    signal.default_int_handler(number, frame)


def _interrupted() -> int:
    print_note("interrupted")
    return 130


def _print_error(line: str) -> None:
    """Print a line on the standard error; if that fails, only the exit status is left."""
    with suppress(OSError):
        print_note(line)
        sys.stderr.flush()


def _error_line(error: Exception) -> str:
    """Return an error as one line; an error of the system with its file."""
    from faultline.platforms.errors import one_line

    if not (isinstance(error, OSError) and error.strerror):
        return one_line(str(error))
    place, reason = error.filename, error.strerror
    if not place and error.errno in _OF_STREAMS:
        place = "standard output"
    return one_line(f"{place}: {reason}" if place else reason)


def execute(parsed: argparse.Namespace) -> int:
    """Import the requested command and run it."""
    _plug_in(parsed.scheme_file)
    if parsed.quiet:
        os.environ["FAULTLINE_QUIET"] = "1"
    from faultline.strategies.plugins.registry import broken_plugins

    for line in broken_plugins():
        print_note(line)
    module, _, function = parsed.execute.partition(":")
    command = import_module(f"faultline.experiments.commands.{module}")
    if not gc.isenabled():
        gc.freeze()
        gc.set_threshold(100_000)  # Platforms and jobs have no cycles: a search finds little.
        gc.enable()
    # Most commands return None, which is success.
    status: int = getattr(command, function)(parsed) or 0
    return status


def _plug_in(files: Sequence[str]) -> None:
    """Register scheme files for this process and its children."""
    from faultline.experiments.config.errors import UserError

    for file in files:
        if not os.path.isfile(file):  # noqa: PTH113 (importing pathlib is slow)
            raise UserError(f"--scheme-file {file}: no such file; name a Python file with a scheme")
        if os.pathsep in os.path.abspath(file):  # noqa: PTH100 - likewise
            # Children get the files in one environment variable, which this character separates.
            raise UserError(
                f"--scheme-file {file}: has {os.pathsep!r} in its absolute path; rename or move it"
            )
    known = os.environ.get("FAULTLINE_SCHEME_FILES", "")
    paths = [*filter(None, known.split(os.pathsep)), *map(os.path.abspath, files)]
    if paths:
        os.environ["FAULTLINE_SCHEME_FILES"] = os.pathsep.join(dict.fromkeys(paths))


def _is_for_users(error: Exception) -> bool:
    """Whether an error is meant for users; any other is a bug and shows its traceback."""
    if isinstance(error, OSError):
        return not isinstance(error, BrokenPipeError) or _is_read()
    from faultline.experiments.config.errors import EXPLAINED

    return isinstance(error, EXPLAINED)


def _is_read() -> bool:
    """Whether the standard output has a reader: it is not a pipe closed at the other end."""
    poll = select.poll()
    try:
        poll.register(sys.stdout, 0)
    except (OSError, ValueError):
        return True
    return not any(event & select.POLLERR for _, event in poll.poll(0))


if __name__ == "__main__":
    sys.exit(main())
