"""``faultline explain-recovery``: what a failure costs under each scheme, phase by phase."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import pandas as pd
from faultline.experiments.analysis.printing import Printed, printed
from faultline.experiments.commands.output import print_json
from faultline.experiments.config.errors import UserError, did_you_mean
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.recoveries import ExplainedRecovery, explained_recoveries
from faultline.experiments.screen import Screen
from faultline.strategies.registry import all_strategies


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    scenario = load_scenario(arguments.scenario, arguments.settings)
    found = list(explained_recoveries(scenario, _schemes(arguments.schemes)))
    explained = [one for one in found if isinstance(one, ExplainedRecovery)]
    refused = [one for one in found if isinstance(one, str)]
    if not explained:
        raise UserError(refused[0])
    if arguments.json:
        content = [
            {
                "scheme": one.scheme,
                "event": one.event,
                "recovery": one.recovery,
                "duration_s": one.duration_s,
                "phases": [phase._asdict() for phase in one.phases],
            }
            for one in explained
        ]
        print_json({"scenario": scenario.name, "recoveries": content, "refused": refused})
        return 0
    console = Screen()
    # Sources are sentences: they stand below, each once.
    phases = [phase for one in explained for phase in one.phases]
    sources = list(dict.fromkeys(phase.source for phase in phases if phase.source))
    console.print(printed(_table(scenario.name, explained, sources)))
    for number, source in enumerate(sources, 1):
        console.print(f"{number}: {source}", soft_wrap=True)
    for line in refused:
        console.print(f"left out: {line}", soft_wrap=True)
    return 0


def _schemes(asked: Sequence[str] | None) -> Sequence[str]:
    known = list(all_strategies())
    for name in asked or ():
        if name not in known:
            raise UserError(f"--schemes {name}: no such scheme; {did_you_mean(name, known)}")
    return asked or known


def _table(name: str, explained: Sequence[ExplainedRecovery], sources: Sequence[str]) -> Printed:
    rows = []
    for one in explained:
        who: tuple[str, ...] = (one.scheme, one.event, one.recovery)
        for phase in one.phases:
            rows.append(
                {
                    **dict(zip(("scheme", "event", "recovery"), who, strict=True)),
                    "phase": phase.name,
                    "seconds": phase.duration_s,
                    "ranks": f"{phase.ranks:,}" if phase.ranks else "",
                    "GB": f"{phase.size_bytes / 1e9:,.4g}" if phase.size_bytes else "",
                    "source": str(sources.index(phase.source) + 1) if phase.source else "",
                }
            )
            who = ("", "", "")
        if len(one.phases) > 1:
            rows.append({"phase": "in all", "seconds": one.duration_s})
    frame = pd.DataFrame(rows).fillna({"source": "", "ranks": "", "GB": ""}).fillna("")
    title, names = f"{name}: the failure of one GPU", {"source": "see"}
    return Printed(title, frame, {"seconds": "{:,.3f}"}, names)
