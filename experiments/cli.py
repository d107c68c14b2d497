"""The command line ``faultline``."""

from __future__ import annotations

import argparse
import errno
import logging
import os
import select
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from traceback import format_exception
from types import TracebackType

from faultline.experiments.commands.declarations import parser
from faultline.experiments.streams import safe_streams, shown

_SIGPIPE_STATUS = 141
"""What a shell reports of a program that a closed pipe has ended: 128 + SIGPIPE."""

_OF_STREAMS = {
    errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC, errno.ENXIO, errno.EPIPE,
}  # fmt: skip
"""How writing to a stream fails; an error of it has no name of a file."""

_LINES_AT_AN_END, _LONGEST_LINE = 100, 1_000
"""Lines of a traceback that are printed of its beginning and its end, and letters of a line."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Returns
    -------
    int
        The exit status: the command's own, 2 for bad input, told in one line, 130 after an
        interrupt, 141 where the reader of the standard output has gone.
    """
    sys.excepthook = _show
    if not sys.warnoptions:
        # What a library warns of is for those who write programs with it.
        warnings.simplefilter("ignore")
        logging.getLogger().addHandler(logging.NullHandler())
    try:
        with safe_streams():
            status = _run(arguments)
            sys.stdout.flush()
            return status
    except BrokenPipeError:
        status = _SIGPIPE_STATUS
    except OSError as error:
        _complain(_told(error))
        status = 2
    # What still stands in the buffers goes nowhere, without a complaint.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
    return status


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of an error, escaped and cut: a scheme may have raised it."""
    lines = "".join(format_exception(kind, error, trace)).splitlines()
    if len(lines) > 2 * _LINES_AT_AN_END:
        left_out = f"... {len(lines) - 2 * _LINES_AT_AN_END:,} lines ..."
        lines = [*lines[:_LINES_AT_AN_END], left_out, *lines[-_LINES_AT_AN_END:]]
    sys.stderr.writelines(f"{shown(line[:_LONGEST_LINE])}\n" for line in lines)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        return execute(parser().parse_args(arguments))
    except KeyboardInterrupt:
        print("faultline: interrupted", file=sys.stderr)
        return 130
    except SystemExit as stop:
        # Rich answers a closed pipe with status 1; argparse says nothing of what it cannot print.
        if isinstance(stop.__context__, BrokenPipeError) or not (stop.code or _is_read()):
            raise BrokenPipeError from stop
        sys.stdout.flush()
        raise
    except Exception as error:
        from faultline.platforms.errors import shortage

        if (lack := shortage(error)) is not None:
            _complain(lack)
            return 2
        if not _is_for_users(error) or (isinstance(error, OSError) and not error.filename):
            # What has no name is a stream that cannot be written: told where that is looked at.
            raise
        _complain(_told(error))
        return 2


def _complain(line: str) -> None:
    """Print a line on the standard error; where that cannot be written, the status says it."""
    with suppress(OSError):
        print(f"faultline: {line}", file=sys.stderr, flush=True)


def _told(error: Exception) -> str:
    """Return an error as one line; an error of the system with the file that it is about."""
    from faultline.platforms.errors import one_line

    if not (isinstance(error, OSError) and error.strerror):
        return one_line(str(error))
    where, what = error.filename, error.strerror
    if not where and error.errno in _OF_STREAMS:
        where = "standard output"
    elif not where and what == os.strerror(errno.ENOENT):
        where, what = "the working folder", f"{what}; go to one that is there"
    return one_line(f"{where}: {what}" if where else what)


def execute(parsed: argparse.Namespace) -> int:
    """Import the command that was asked for, and run it."""
    _plug_in(parsed.scheme_file)
    if parsed.quiet:
        os.environ["FAULTLINE_QUIET"] = "1"
    from faultline.strategies.protection.registry import broken_protections
    from faultline.strategies.registry import broken_strategies

    for line in dict.fromkeys((*broken_strategies(), *broken_protections())):
        print(f"faultline: {line}", file=sys.stderr)
    module, _, function = parsed.execute.partition(":")
    command = import_module(f"faultline.experiments.commands.{module}")
    # Most commands have nothing to say but that they are through.
    status: int = getattr(command, function or "execute")(parsed) or 0
    return status


def _plug_in(files: Sequence[str]) -> None:
    """Name files with schemes to this process and all that it starts."""
    from faultline.experiments.config.errors import UserError

    for file in files:
        if not os.path.isfile(file):  # noqa: PTH113 (pathlib takes its time to be imported)
            raise UserError(f"--scheme-file {file}: no such file; name a Python file with a scheme")
        if os.pathsep in os.path.abspath(file):  # noqa: PTH100 - likewise
            # Processes are given the files in one variable, in which it would be another file.
            raise UserError(
                f"--scheme-file {file}: has {os.pathsep!r} in its whole path; rename or move it"
            )
    known = os.environ.get("FAULTLINE_SCHEME_FILES", "")
    paths = [*filter(None, known.split(os.pathsep)), *map(os.path.abspath, files)]
    if paths:
        os.environ["FAULTLINE_SCHEME_FILES"] = os.pathsep.join(dict.fromkeys(paths))


def _is_for_users(error: Exception) -> bool:
    """Whether an error says all there is to say; a mistake of the program shows its traceback."""
    if isinstance(error, OSError):
        return not isinstance(error, BrokenPipeError) or _is_read()
    from faultline.experiments.config.errors import EXPLAINED

    return isinstance(error, EXPLAINED)


def _is_read() -> bool:
    """Whether the standard output is no pipe whose reader has gone: no other's end is quiet."""
    poll = select.poll()
    try:
        poll.register(sys.stdout, 0)
    except (OSError, ValueError):
        return True
    return not any(event & select.POLLERR for _, event in poll.poll(0))


if __name__ == "__main__":
    sys.exit(main())
