"""A plan from its points to its tables, going on where it was interrupted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from faultline.experiments.config.errors import UserError
from faultline.experiments.runs.manifest import Manifest, name_point
from faultline.experiments.runs.player import NO_LIMITS, tell_on
from faultline.experiments.runs.point import Executor, Limits, Request
from faultline.experiments.runs.progress import Display
from faultline.experiments.runs.provenance import code_digest
from faultline.experiments.runs.store import Store, StoredRun, open_store, set_aside
from faultline.experiments.runs.table import damaged_tables, remove_tables, write_tables
from rich.console import Console


class Plan(Protocol):
    """A plan, of which any part can be asked for."""

    @property
    def manifest(self) -> Manifest: ...

    def requests(self, wanted: Collection[str]) -> Iterator[Request]:
        """Yield the requests of the wanted runs."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a plan.

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


def play_plan(
    plan: Plan,
    directory: Path,
    executor: Callable[[], Executor],
    console: Console,
    limits: Limits = NO_LIMITS,
    *,
    retry_failed: bool = False,
    accept_other_code: bool = False,
) -> Outcome:
    """Play what is missing of a plan, keep every result as it comes, and write the tables.

    Parameters
    ----------
    plan : Plan
        What is asked; a run that fails becomes a row with its error.
    directory : Path
        Where results are kept; it may have some.
    executor : callable
        Makes the place where runs are played; called only if there is something to play.
    console : Console
        Shows progress, and a line for everything that was found out of place.
    limits : Limits
        What a single run may use.
    retry_failed : bool
        Whether runs that failed before are played again.
    accept_other_code : bool
        Whether results that other source made may stay.

    Raises
    ------
    UserError
        If the directory belongs to something else, its results were made by other source, or it
        cannot be written to. What was kept by then stays, and the same call goes on from there.
    """
    tell = tell_on(console)
    code = code_digest()
    manifest = plan.manifest
    with open_store(directory, manifest, tell) as store:
        for found in damaged_tables(directory):
            set_aside(directory, found, tell)
        missing = store.missing(retry_failed=retry_failed)
        staying = store.staying(missing)
        if not accept_other_code:
            _check_code(store, staying, code)
        if missing:
            with store.writing():
                remove_tables(directory)
        store.begin()
        if missing:
            done, failed = len(staying), sum(run.failed for run in staying)
            results = executor().play(plan.requests(missing), limits)
            name, total = manifest.grid["name"], len(manifest.run_ids)
            with closing(results), Display(console, name, total, done, failed) as display:
                for result in results:
                    value, error = result.played.value, result.played.error
                    store.save(StoredRun(result.run_id, value, error, code, result.wall_s))
                    done += 1
                    failed += error is not None
                    display.update(done, failed)
            if code_digest() != code:
                tell(
                    f"{directory}: the simulation's source has changed while this sweep ran, and "
                    "results may be of both; choose another -o DIR to play them all with the new"
                )
        finish(store, manifest)
        return Outcome(
            played=len(missing),
            already_there=len(manifest.run_ids) - len(missing),
            failed=sum(run.failed for run in store.runs.values()),
            first_error=_first_error(manifest, store.runs),
        )


def finish(store: Store, manifest: Manifest) -> None:
    """Write the tables of a plan; all runs must be there.

    Raises
    ------
    UserError
        If some are missing, or the tables cannot be written.
    """
    missing = store.missing()
    if missing:
        raise UserError(
            f"{store.directory}: {len(missing)} runs came to no result; the same command again "
            "plays them"
        )
    with store.writing():
        write_tables(store.directory, manifest, store.runs)


def _check_code(store: Store, staying: list[StoredRun], code: str) -> None:
    other = sum(run.code != code for run in staying)
    if other:
        raise UserError(
            f"{store.directory}: {other} of its results were made by other code than this: a "
            "scheme, the simulator or a platform has changed; choose another -o DIR, or keep them "
            "with --accept-other-code"
        )


def _first_error(manifest: Manifest, runs: dict[str, StoredRun]) -> str | None:
    for run_id, values, seed in manifest.rows():
        if runs[run_id].failed:
            point = ", ".join(filter(None, [name_point(manifest.keys, values), f"seed {seed}"]))
            return f"{point}: {runs[run_id].error}"
    return None
