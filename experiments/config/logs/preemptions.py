"""Traces of preemptions: ``milliseconds,add|remove,node``, without a header.

That is how Bamboo (NSDI 2023) and Oobleck (SOSP 2023) record spot instances. A node that is removed
has failed; what is added later under its name has repaired it.
"""

from __future__ import annotations

import re
from pathlib import Path

from faultline.experiments.config.keys import quote
from faultline.experiments.config.logs.failure_log import (
    FailureLog,
    Logged,
    all_nodes,
    first_mistake,
)

CAUSE = "preemption"
LINE = re.compile(r"\s*(\d{1,15})\s*,\s*(add|remove)\s*,\s*([^\s,]{1,100})\s*")


def read_preemptions(
    path: Path, text: str, nodes: int | None, gpus_per_node: int, span_s: float | None
) -> FailureLog:
    """Read a trace of preemptions; it ends with its last line if nobody says when.

    Raises
    ------
    UserError
        Names the first line that does not fit.
    """
    mistakes: list[str] = []
    events: list[tuple[float, str, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        found = LINE.fullmatch(line)
        if found is None:
            mistakes.append(
                f"{path}:{number}: {quote(line)} is no event; write milliseconds,add|remove,node, "
                "such as 3600000,remove,node4"
            )
        else:
            events.append((int(found[1]) / 1000.0, found[2], found[3]))
    first_mistake(mistakes)
    # Of one instant, what goes comes first: its place may be taken at once.
    events.sort(key=lambda event: (event[0], event[1] == "add"))
    names = all_nodes((name for _, _, name in events), nodes, path)
    end_s = max(events[-1][0], span_s or 0.0)
    number_of = {name: place for place, name in enumerate(names)}
    up_since: dict[str, float] = {}
    gone: dict[str, float] = {}
    node_s = 0.0
    failures: list[tuple[float, str, float | None]] = []
    for time_s, what, name in events:
        if what == "add":
            up_since.setdefault(name, time_s)
            if name in gone:
                failures.append((gone.pop(name), name, time_s))
        elif name in up_since:
            node_s += time_s - up_since.pop(name)
            gone[name] = time_s
    failures += [(lost_s, name, None) for name, lost_s in gone.items()]
    node_s += sum(end_s - since_s for since_s in up_since.values())
    logged = sorted(
        Logged(
            lost_s,
            "host",
            number_of[name],
            CAUSE,
            "hardware",
            None if back_s is None else back_s - lost_s,
        )
        for lost_s, name, back_s in failures
    )
    return FailureLog(
        str(path), "preemption trace", tuple(logged), names, gpus_per_node, end_s, node_s
    )
