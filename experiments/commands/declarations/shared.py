"""Arguments that several commands share, and the functions that read their values."""

from __future__ import annotations

from argparse import ArgumentTypeError, _ActionsContainer
from collections.abc import Callable
from pathlib import Path
from sys import float_info
from typing import Any

PLOT_FORMATS = ("png", "svg", "pdf")
FIGURES = tuple(f".{name}" for name in PLOT_FORMATS)
PAGES = (".html", ".htm")
TABLES = (".csv", ".parquet")
"""Endings of files: they decide what is written."""

KINDS = ("scenarios", "schemes", "protections", "platforms", "mixes", "grids", "studies")
"""What can be listed."""

DRAWN_GPUS = 16_384
"""GPUs of the job if a failure model is drawn by itself: those of Llama 3's pretraining."""

DRAWN_GPUS_PER_GROUP = 128
"""GPUs of a group of that job: tensor parallelism 8 times pipeline parallelism 16."""


def whole(wrong: str, least: int = 1, most: float = float("inf")) -> Callable[[str], int]:
    """Return a reader of whole numbers within bounds, also 100k; `wrong` ends its error."""

    def read(text: str) -> int:
        # Python reads whole numbers of 4,300 digits at most.
        if text.isdecimal() and len(text) <= 4_000:
            number: float | None = int(text)
        else:
            number = _quantity(text, "COUNT")
        if number is None or number != int(number) or not least <= number <= most:
            raise ArgumentTypeError(f"{text!r}{wrong}")
        return int(number)

    return read


def _quantity(text: str, kind: str) -> float | None:
    """Return a quantity of a kind, without a unit in SI units; None if the text is none."""
    from faultline.platforms import units
    from faultline.platforms.errors import PlatformError

    try:
        return units.parse_quantity(text, getattr(units, kind), in_si=True)
    except PlatformError:
        return None


def number_to(most: float, wrong: str) -> Callable[[str], float]:
    """Return a reader of numbers above zero, at most `most`; `wrong` ends its error."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0 < number <= most:
            raise ArgumentTypeError(f"{text!r}{wrong}")
        return number

    return read


def above_zero(kind: str, remedy: str, *, in_si: bool = False) -> Callable[[str], float]:
    """Return a reader of quantities with a unit: a time in seconds or a size in bytes, not zero.

    With `in_si`, for an option that names the SI unit, a plain number is in that unit.
    """

    def read(text: str) -> float:
        from faultline.platforms.errors import PlatformError
        from faultline.platforms.units import SIZE, TIME, parse_quantity

        try:
            value = parse_quantity(text, TIME if kind == "time" else SIZE, in_si=in_si)
        except PlatformError as error:
            raise ArgumentTypeError(str(error)) from error
        if value == 0:
            raise ArgumentTypeError(f"{text!r}: {remedy}")
        return value

    return read


def names(text: str) -> list[str]:
    """Read names separated by commas."""
    return [name.strip() for name in text.split(",")]


count = whole(": use a whole number from 1, such as 500 or 100k")
duration = above_zero("time", "use a time above zero, for example 5min")
size_bytes = above_zero("size", "use a size above zero, for example 1GB", in_si=True)
price = number_to(float_info.max, " is no price: use a number above zero, such as 2.5")
gpus = whole(" is no number of GPUs: use 1 to 1000000000", most=10**9)
ranks = whole(": a collective needs at least 2 ranks", 2, 10**9)
nodes = whole(" is no number of nodes: use 1 to 1000000", most=10**6)


def add_settings(
    place: _ActionsContainer,
    meaning: str = "change one dotted key of the scenario, or leave it open by ~KEY",
) -> None:
    """Add ``--set``, which changes a scenario or a spec."""
    place.add_argument(
        "--set",
        dest="settings",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help=f"{meaning}; may be given more than once",
    )


def add_scenario(place: _ActionsContainer) -> None:
    """Add a scenario and ``--set``."""
    place.add_argument("scenario", metavar="SCENARIO", help="a TOML file, or one of: {scenarios}")
    add_settings(place)


def add_seed(place: _ActionsContainer) -> None:
    """Add ``--seed``."""
    seed = whole(" is no seed: use a whole number from 0", 0)
    place.add_argument("--seed", metavar="N", type=seed, default=0, help="default: 0")


def add_workers(place: _ActionsContainer) -> None:
    """Add ``--workers`` and ``--scheduler``, for commands that execute many tasks."""
    either = place.add_mutually_exclusive_group()
    either.add_argument(
        "--workers", metavar="N", type=count, help="processes; default: one per core"
    )
    either.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="use the workers of a Dask scheduler: tls://HOST:PORT with certificates, "
        "tcp://127.0.0.1:PORT without (docs/sweeps.md)",
    )


def add_sweep(place: _ActionsContainer) -> None:
    """Add the file of a sweep."""
    place.add_argument("file", metavar="FILE", type=Path, help="a file that faultline sweep wrote")


def add_price(place: _ActionsContainer) -> None:
    """Add ``--price``."""
    place.add_argument(
        "--price",
        metavar="X",
        type=price,
        help="price of a GPU-hour, in any currency: prints the cost",
    )


def add_schemes(place: _ActionsContainer, meaning: str) -> None:
    """Add ``--schemes``."""
    place.add_argument("--schemes", metavar="A,B", type=names, help=meaning)


def add_size(place: _ActionsContainer, steps: str) -> None:
    """Add the size of a job and how often it fails, in place of what the scenario states."""
    place.add_argument("--gpus", metavar="N", type=gpus, help="GPUs of the whole job")
    place.add_argument(
        "--mtbf",
        metavar="TIME",
        type=duration,
        help="mean time between failures of the whole job, for example 5min; default: the "
        "scenario's, scaled with 1 / GPUs",
    )
    place.add_argument("--restart", metavar="TIME", type=duration, help="time of a restart")
    place.add_argument("--steps", metavar="N", type=count, help=steps)


def file_of(*endings: str) -> Callable[[str], Path]:
    """Return a reader of names of files to write: the ending decides what a file has."""

    def read(text: str) -> Path:
        if not text.lower().endswith(endings):
            *others, last = endings
            known = f"{', '.join(others)} or {last}" if others else last
            raise ArgumentTypeError(f"{text}: name a file that ends in {known}")
        return Path(text)

    return read


def _folder(text: str) -> Path:
    """Read the name of a folder to write into; that of a file is a mistake."""
    if text.lower().endswith((*FIGURES, *PAGES, *TABLES, ".toml", ".xml", ".sqlite")):
        raise ArgumentTypeError(f"{text}: name a folder, without an ending")
    return Path(text)


def add_output(
    place: _ActionsContainer,
    meaning: str,
    *endings: str,
    required: bool = False,
    several: bool = False,
) -> None:
    """Add ``-o``: the file that a command writes, several of them, or a folder if no `endings`."""
    how: dict[str, Any] = {"metavar": "FILE" if endings else "DIR", "required": required}
    if several:
        how |= {"action": "append", "default": []}
        meaning = f"{meaning}; may be given more than once"
    reader = file_of(*endings) if endings else _folder
    place.add_argument("-o", "--output", type=reader, help=meaning, **how)


def add_nodes_of_a_log(parser: _ActionsContainer) -> None:
    """Add facts that a log of failures by node does not state."""
    parser.add_argument(
        "--nodes",
        metavar="N",
        type=nodes,
        help="nodes of the cluster (default: those that the log names)",
    )
    add_gpus_per_node(parser)
    add_days(parser, "observation time of the cluster, if longer than the log covers")
    parser.add_argument(
        "--columns",
        metavar="A=B,C=D",
        type=names,
        help="names of the columns in a CSV file, as NAME=COLUMN, for example "
        "time=timestamp,node=hostname,repair=downtime_min; other columns are ignored",
    )
    parser.add_argument(
        "--merge-within",
        metavar="TIME",
        type=duration,
        default=60.0,
        help="failures of a node that follow another of it within TIME count with it, as messages "
        "of one incident (default: 1min)",
    )
    jobs = parser.add_argument_group("jobs of a Slurm log that count (default: all)")
    jobs.add_argument("--job", metavar="NAME", help="jobs of this name; * and ? match any text")
    jobs.add_argument("--partition", metavar="NAME", help="jobs of this partition; likewise")
    jobs.add_argument("--min-nodes", metavar="N", type=nodes, help="jobs on at least N nodes")
    jobs.add_argument(
        "--min-duration",
        metavar="TIME",
        type=duration,
        help="jobs whose runs together take at least TIME, for example 12h",
    )


def add_gpus_per_node(parser: _ActionsContainer) -> None:
    """Add ``--gpus-per-node``."""
    parser.add_argument(
        "--gpus-per-node",
        metavar="N",
        type=whole(" is no number of GPUs: use 1 to 1000", 1, 1000),
        default=8,
        help="GPUs of a node (default: 8)",
    )


def _days(text: str) -> float:
    """Read a number of days, or a time with its unit, in days."""
    time_s = _quantity(text, "TIME") if text[-1:].isalpha() else None
    read = number_to(1e6, " is no duration: use days, such as 54 or 0.5, or a time, such as 36h")
    return read(text if time_s is None else repr(time_s / 86_400))


def add_days(parser: _ActionsContainer, meaning: str, default: float | None = None) -> None:
    """Add ``--days``."""
    parser.add_argument(
        "--days",
        metavar="D",
        type=_days,
        default=default,
        help=meaning,
    )
