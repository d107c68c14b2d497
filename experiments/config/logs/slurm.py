"""Jobs in Slurm's accounting: ``sacct --parsable2`` with State, Start, End and NodeList.

A job that ended in a state of `FAILED` is a failure at its end. It is a failure of one node if the
log names that node (FailedNode, or a job on one node). Otherwise a failure of hardware is one of
an unknown node, and a failure of software is one of the whole job. A failure of software on a
small job, such as a burn-in of one node, does not count, since it is no evidence about large jobs.
A preemption is no failure. The log shows failures only where jobs run, so the node-seconds are
those of jobs. A failed node is up again at the latest when the next job starts on it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.logs.failure_log import FailureLog, JobFailures, LogFile, Logged
from faultline.experiments.config.logs.slurm_rows import (
    CALL,
    FAILED,
    HIDDEN,
    PREEMPTED,
    Job,
    Jobs,
    read_jobs,
)
from faultline.simulator.failures.failure import Kind

_SMALLEST_JOB = 2
"""Nodes of the smallest job whose failures of software count; 1 if no job has more."""


def read_sacct(file: LogFile) -> FailureLog:
    """Read jobs of ``sacct --parsable2``.

    Jobs that are not selected, preemptions and failures of software on small jobs do not count.

    Raises UserError if no job is selected or has failed, or if most rows cannot be read.
    """
    return _as_log(read_jobs(file), file)


def _as_log(jobs: Jobs, file: LogFile) -> FailureLog:
    begin = min(job.start for job in jobs.ran)
    last = max(job.end or job.start for job in jobs.ran)
    span_s = max((last - begin).total_seconds(), file.span_s or 0.0)
    runaway = _ends_of_runaway_jobs(jobs.ran)

    def end_s(job: Job) -> float:
        end = runaway.get(id(job), job.end)
        return span_s if end is None else (end - begin).total_seconds()

    def run_s(job: Job) -> float:
        return end_s(job) - (job.start - begin).total_seconds()

    ran, others = _selected(jobs, file, run_s)
    # Jobs with the same node list share it.
    lists = {id(job.nodes): job.nodes for job in ran}
    named = {name for names in lists.values() for name in names}
    nodes = file.all_nodes(named)
    smallest_job = min(_SMALLEST_JOB, max(len(job.nodes) for job in ran))
    starts = _starts_on_failed_nodes(jobs, nodes, begin)
    failures, counted = [], Counter[tuple[str, Kind]]()
    unknown = small = strange = 0
    for job in ran:
        if job.state not in FAILED or job.end is None:
            continue
        strange += bool(job.failed_node) and job.failed_node not in nodes
        cause, kind = FAILED[job.state]
        if kind == "software" and len(job.nodes) < smallest_job:
            small += 1
            continue
        counted[job.group, kind] += 1
        time_s, culprit = end_s(job), job.culprit(nodes)
        if culprit is not None:
            after = starts[culprit]
            place = bisect_left(after, time_s)
            repair_s = after[place] - time_s if kind == "hardware" and place < len(after) else None
            failures.append(Logged(time_s, "host", nodes[culprit], cause, kind, repair_s))
        elif kind == "software":
            failures.append(Logged(time_s, "job", 0, cause, kind, None))
        else:
            unknown += 1
            failures.append(Logged(time_s, "host", None, cause, kind, None))
    if not failures:
        selected = " of the selected jobs" if file.selection.options else ""
        raise UserError(f"{file.path}: no run{selected} has failed; {HIDDEN}: {CALL}")
    notes = jobs.tally.notes("runs of jobs")
    others_failed = sum(job.state in FAILED for job in others)
    counts = {
        f"runs of other jobs ({others_failed:,} failed) do not count": len(others),
        f"failures of software on jobs of fewer than {smallest_job} nodes do not count": small,
        "preemptions do not count": sum(job.state == PREEMPTED for job in ran),
        "jobs still run by the log, though later jobs had their nodes: each is taken to have ended "
        "when the first of these began": len(runaway),
        "runs end before they start, as in a night in which clocks go back: an hour was added; "
        "TZ=UTC sacct prints no such times": jobs.back_in_time,
        "failures of hardware are each of one unknown node of a job, with an unknown repair; ask "
        "sacct for FailedNode": unknown,
        "runs have a FailedNode that no NodeList has": strange,
    }
    notes += [f"{count:,} {what}" for what, count in counts.items() if count]
    if any(failure.repair_s is not None for failure in failures):
        notes.append("repair: until the next job starts on the node, which is an upper bound")
    if not _shows_requeued(jobs) and not any(kind == "hardware" for _, kind in counted):
        notes.append(f"no run ended because a node failed; {HIDDEN}: {CALL}")
    failures.sort(key=lambda failure: failure.time_s)
    form = " ".join(["Slurm's sacct", file.selection.options]).strip()
    by_job = _by_job(ran, run_s, smallest_job, counted)
    node_s = sum(job.node_s for job in by_job)
    log = file.log(form, failures, nodes, span_s, node_s, notes)
    return replace(
        log,
        without_software_s=sum(job.without_software_s for job in by_job),
        jobs=by_job,
        idle_nodes=len(nodes) - len(named),
    )


def _shows_requeued(jobs: Jobs) -> bool:
    """Return whether runs share an identity, as those of a job that was requeued."""
    identities = [job.identity for job in jobs.ran if job.identity]
    return len(identities) > len(set(identities))


def _ends_of_runaway_jobs(ran: Sequence[Job]) -> dict[int, datetime]:
    """Return when jobs without an end must have ended, by their identity as objects.

    A row may stay in Slurm's database as RUNNING for months after its job has gone. A later job on
    one of its nodes shows that.
    """
    open_jobs = [job for job in ran if job.end is None and job.state == "RUNNING"]
    waiting = {node for job in open_jobs for node in job.nodes}
    starts: dict[str, list[datetime]] = defaultdict(list)
    for job in ran:
        for node in waiting.intersection(job.nodes):
            starts[node].append(job.start)
    for times in starts.values():
        times.sort()
    ends = dict[int, datetime]()
    for job in open_jobs:
        later = []
        for node in job.nodes:
            place = bisect_right(starts[node], job.start)
            later += starts[node][place : place + 1]
        if later:
            ends[id(job)] = min(later)
    return ends


def _by_job(
    ran: Collection[Job],
    run_s: Callable[[Job], float],
    smallest_job: int,
    counted: Mapping[tuple[str, Kind], int],
) -> tuple[JobFailures, ...]:
    """Return the runs and the failures by job, most node-seconds first."""
    groups: dict[str, list[Job]] = defaultdict(list)
    for job in ran:
        groups[job.group].append(job)
    by_job = [
        JobFailures(
            name,
            len(mine),
            max(len(job.nodes) for job in mine),
            sum(len(job.nodes) * run_s(job) for job in mine),
            sum(len(job.nodes) * run_s(job) for job in mine if len(job.nodes) < smallest_job),
            counted.get((name, "hardware"), 0),
            counted.get((name, "software"), 0),
        )
        for name, mine in groups.items()
    ]
    return tuple(sorted(by_job, key=lambda job: -job.node_s))


def _selected(
    jobs: Jobs, file: LogFile, run_s: Callable[[Job], float]
) -> tuple[list[Job], list[Job]]:
    """Return the runs of the selected jobs, and those of other jobs.

    Raises UserError if there are none, or if the log lacks a column for the selection.
    """
    selection = file.selection
    for option, column, stated in (
        ("--job", "JobName", selection.name),
        ("--partition", "Partition", selection.partition),
    ):
        if stated is not None and column not in jobs.columns:
            raise UserError(f"{option} {stated}: {file.path} has no column {column}; {CALL}")
    # Runs without an identity are jobs of their own.
    keys = [job.identity or number for number, job in enumerate(jobs.ran)]
    duration_s: dict[str | int, float] = defaultdict(float)
    for key, job in zip(keys, jobs.ran, strict=True):
        duration_s[key] += run_s(job)
    ran, others = list[Job](), list[Job]()
    for key, job in zip(keys, jobs.ran, strict=True):
        counts = selection.has(job.name, job.partition, len(job.nodes), duration_s[key])
        (ran if counts else others).append(job)
    if not ran:
        node_s = Counter[str]()
        for job in jobs.ran:
            node_s[job.group] += round(len(job.nodes) * run_s(job))
        most = ", ".join(name for name, _ in node_s.most_common(3))
        raise UserError(
            f"{selection.options}: selects no job of {file.path}; the jobs with the most node-days "
            f"are {most}"
        )
    return ran, others


def _starts_on_failed_nodes(
    jobs: Jobs, nodes: Collection[str], begin: datetime
) -> dict[str, list[float]]:
    """Return when jobs started on each node that failed, in seconds after `begin`, ascending."""
    starts: dict[str, list[float]] = {
        culprit: []
        for job in jobs.ran
        if job.state in FAILED and (culprit := job.culprit(nodes)) is not None
    }
    # Each shared list is filtered once.
    failing: dict[int, list[str]] = {}
    for job in jobs.ran:
        if id(job.nodes) not in failing:
            failing[id(job.nodes)] = [name for name in job.nodes if name in starts]
        for name in failing[id(job.nodes)]:
            starts[name].append((job.start - begin).total_seconds())
    for times in starts.values():
        times.sort()
    return starts
