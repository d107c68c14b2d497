"""A sweep from its plan to its tables, going on where it was interrupted."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from rich.console import Console

from experiments.errors import UserError
from experiments.sweeps.code_digest import code_digest
from experiments.sweeps.manifest import Manifest, name_point
from experiments.sweeps.plan import Plan
from experiments.sweeps.progress import make_display
from experiments.sweeps.run_files import StoredRun
from experiments.sweeps.runs import Executor, Limits, RunResult
from experiments.sweeps.store import Store, open_store


@dataclass(frozen=True, slots=True)
class Choices:
    """How a sweep is to be played.

    Attributes
    ----------
    limits : Limits
        What a single run may use.
    retry_failed : bool
        Whether runs that failed before are played again.
    accept_other_code : bool
        Whether results that other source made may stay.
    """

    limits: Limits
    retry_failed: bool = False
    accept_other_code: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a sweep.

    Attributes
    ----------
    played : int
        Runs played now.
    already_there : int
        Runs that were there before.
    failed : int
        Runs of both kinds that have an error in place of a record.
    first_error : str or None
        Point, seed and error of the first failed run in the order of the plan.
    """

    played: int
    already_there: int
    failed: int
    first_error: str | None


def play_sweep(
    plan: Plan,
    directory: Path,
    executor: Callable[[], Executor],
    choices: Choices,
    console: Console,
) -> Outcome:
    """Play what is missing of a plan, keep every result as it comes, and write the tables.

    Parameters
    ----------
    plan : Plan
        What is asked.
    directory : Path
        Where results are kept; it may have some.
    executor : callable
        Makes the place where runs are played; called only if there is something to play.
    choices : Choices
        How to play it.
    console : Console
        Shows progress, and a line for everything that was found out of place.

    Raises
    ------
    UserError
        If the directory belongs to something else, its results were made by other source, or it
        cannot be written to. What was kept by then stays, and the same call goes on from there.
    """

    def tell(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    with open_store(directory, plan.manifest, code_digest(), tell) as store:
        missing = store.missing(retry_failed=choices.retry_failed)
        if not choices.accept_other_code:
            _check_code(store, missing)
        store.begin(missing)
        if missing:
            _play(plan, store, missing, executor(), choices.limits, console)
            if code_digest() != store.code:
                tell(
                    f"{directory}: the simulation's source has changed while this sweep ran, and "
                    "results may be of both; choose another -o DIR to play them all with the new"
                )
        store.finish()
        total = len(plan.manifest.run_ids)
        return Outcome(
            played=len(missing),
            already_there=total - len(missing),
            failed=sum(run.failed for run in store.runs.values()),
            first_error=_first_error(plan.manifest, store.runs),
        )


def _check_code(store: Store, missing: set[str]) -> None:
    other = sum(run.code != store.code for run in store.staying(missing))
    if other:
        raise UserError(
            f"{store.directory}: {other} of its results were made by other code than this: a "
            "scheme, the simulator or a platform has changed; choose another -o DIR, or keep them "
            "with --accept-other-code"
        )


def _play(
    plan: Plan,
    store: Store,
    missing: set[str],
    executor: Executor,
    limits: Limits,
    console: Console,
) -> None:
    total = len(plan.manifest.run_ids)
    done = total - len(missing)
    failed = sum(run.failed for run in store.staying(missing))
    results = cast("Generator[RunResult]", executor.play(plan.requests(missing), limits))
    with (
        closing(results),
        make_display(console, plan.manifest.grid["name"], total, done, failed) as display,
    ):
        for result in results:
            store.save(
                StoredRun(result.run_id, result.record, result.error, store.code, result.wall_s)
            )
            done += 1
            failed += result.record is None
            display.update(done, failed)


def _first_error(manifest: Manifest, runs: dict[str, StoredRun]) -> str | None:
    for run_id, values, seed in manifest.rows():
        if runs[run_id].failed:
            point = ", ".join(filter(None, [name_point(manifest.keys, values), f"seed {seed}"]))
            return f"{point}: {runs[run_id].error}"
    return None
