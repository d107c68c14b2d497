"""``faultline doctor`` and ``bench``: whether this machine is fit for Faultline, and how fast."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby

from faultline.experiments.analysis.printing import text_table
from faultline.experiments.benchmarks.measurement import BenchmarkError, Case, Measurement
from faultline.experiments.commands.output import print_json, progress_of
from faultline.experiments.config.errors import UserError
from faultline.experiments.health import limit_checks, simgrid_checks, version_checks
from faultline.experiments.runs.point import cores
from faultline.experiments.screen import Screen, text_column
from faultline.simulator.cache_folder import cache_directory, clean_cache
from rich.console import RenderableType
from rich.progress import BarColumn, MofNCompleteColumn
from rich.text import Text

_STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red"}


def execute_doctor(arguments: argparse.Namespace) -> int:
    """Run the command; 1 if a check failed."""
    if arguments.clean:
        removed, size_bytes = clean_cache()
        if arguments.json:
            cache = str(cache_directory())
            print_json({"cache": cache, "removed_files": removed, "removed_bytes": size_bytes})
            return 0
        print(f"{cache_directory()}: removed {removed:,} files, {size_bytes / 1e6:.1f} MB")
        return 0
    checks = [*version_checks(), *limit_checks(), *simgrid_checks()]
    failed = sum(check.state == "failed" for check in checks)
    if arguments.json:
        print_json({"ok": failed == 0, "checks": [asdict(check) for check in checks]})
        return 1 if failed else 0
    console = Screen()
    for section, members in groupby(checks, key=lambda check: check.section):
        rows = (
            (one.what, one.value, Text(one.state, _STYLES[one.state]), one.meaning)
            for one in members
        )
        styles = [{"style": style} for style in ("bold", None, None, "dim")]
        console.print(text_table(rows, styles, title=section, show_header=False))
    if failed:
        console.print(f"{failed} check{'s' if failed > 1 else ''} failed.", style="bold red")
    else:
        console.print("All is well.", style="green")
    return 1 if failed else 0


def execute_bench(arguments: argparse.Namespace) -> int:
    """Run the command; 1 if something could not be measured."""
    measurements = _measure(_cases(arguments.quick))
    if arguments.json:
        rows = [{**asdict(row), "met": row.met} for row in measurements]
        machine = {"machine": platform.machine(), "cores": cores(), "quick": arguments.quick}
        print_json({**machine, "rows": rows})
    else:
        columns = (
            {"header": "what"},
            {"header": "measured", "justify": "right"},
            {"header": "target", "justify": "right"},
            {"header": "met?"},
            {"header": "ratio: so many times as fast as"},
        )
        title = f"Faultline on {cores()} cores"
        Screen().print(text_table(_measured_rows(measurements), columns, title=title))
    return 1 if any(row.error for row in measurements) else 0


def _cases(quick: bool) -> list[Case]:
    # What is measured here is half of the program: no other command should have to import it.
    from faultline.experiments.benchmarks import platform_speed, run_speed

    kinds = (
        run_speed.replay_cases,
        run_speed.rare_failure_cases,
        run_speed.matching_cases,
        run_speed.simgrid_cases,
        platform_speed.step_cases,
        platform_speed.platform_cases,
        platform_speed.collective_cases,
        run_speed.sweep_cases,
    )
    return [case for cases in kinds for case in cases(quick)]


def _measure(cases: list[Case]) -> list[Measurement]:
    columns = (BarColumn(), MofNCompleteColumn(), text_column("{task.description}"))
    measurements: list[Measurement] = []
    with progress_of(*columns) as progress:
        task = progress.add_task("", total=len(cases))
        for case in cases:
            progress.update(task, description=f"{case.section}: {case.what}")
            try:
                measurements += case.measure()
            except BenchmarkError as error:
                measurements.append(case.failed(error))
            except OSError as error:
                raise UserError(
                    f"{error}; name a directory that can be written in TMPDIR"
                ) from error
            progress.advance(task)
    return measurements


def _measured_rows(measurements: list[Measurement]) -> Iterator[Sequence[RenderableType] | None]:
    section = title = ""
    for row in measurements:
        if row.section != section:
            section = row.section
            yield None
            yield [Text(section, "bold")]
        same_title = title
        title, _, detail = row.what.partition(": ")
        what = f"  {detail}" if title == same_title else row.what
        yield [what, *_cells(row)]


def _cells(row: Measurement) -> tuple[str, str, str, str]:
    if row.measured is None:
        return "failed", "", "", row.error
    measured = f"{_readable(row.measured)} {row.unit}"
    if row.minimum is not None:
        measured += f" (min {_readable(row.minimum)})"
    target = "" if row.target is None else f"<= {_readable(row.target)} {row.unit}"
    met = "" if row.met is None else "yes" if row.met else "no"
    ratio = "" if row.ratio is None else f"{_readable(row.ratio)} x {row.ratio_to}"
    return measured, target, met, ratio


def _readable(number: float) -> str:
    """Three digits, more before the point."""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"
