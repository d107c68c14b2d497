"""What operators and other simulators report of long runs, beside what Faultline makes of it.

Inputs are as they are stated; what is not stated is swept over the range that is left, and gives a
band. Outputs that were withheld from whoever wrote the study have no published value here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import pandas as pd
from faultline.experiments.analysis.printing import Printed
from faultline.experiments.studies.base import Results, Row, Study, Verdicts
from faultline.experiments.studies.operators import figures, loop, models, scale
from faultline.experiments.studies.operators.bloom import bloom_jobs, bloom_rows
from faultline.experiments.studies.operators.jobs import loop_jobs
from faultline.experiments.studies.operators.verdicts import Judgement, outputs, verdicts
from faultline.experiments.studies.stage import Stage

_SECTIONS = {
    "A": "RSC's closed form",
    "B": "torchft's stress test",
    "C": "FT-HSDP",
    "D": "ByteRobust",
    "E": "long runs",
    "F": "TrainMover",
    "G": "other simulators",
}


class OperatorsStudy(Study):
    """What operators and other simulators report, played."""

    default_seeds = 3
    charts: ClassVar = {
        "operators.png": (figures.draw_agreement, "verdicts"),
        "operators-scale.png": (figures.draw_scale, "scale"),
    }

    def play(self, stage: Stage) -> Results:
        """Play every row."""
        played = bloom_rows(loop.play(stage, [*loop_jobs(), *bloom_jobs()]))
        samples = pd.concat([played, models.play(stage)], ignore_index=True)
        judged = list(verdicts(outputs(), samples))
        table = pd.DataFrame([one.as_dict() for one in judged])
        return {
            "verdicts": table,
            "samples": samples,
            "scale": scale.play(stage),
            "rows": [one.row for one in judged],
        }

    def rows(self, results: Results) -> Iterator[Row]:
        """Return every output, and the goodput of every scheme at scale."""
        yield from results["rows"]
        yield from scale.rows(results["scale"])

    def verdicts(self, results: Results) -> Verdicts:
        """Return the verdict of every output."""
        table = results["verdicts"]
        keys = zip(table.quantity, table.scheme, table.setting, strict=True)
        return dict(zip(keys, table.verdict, strict=True))

    def records(self, results: Results, rows: Sequence[Row]) -> list[dict[str, Any]]:
        """Return every output with its verdict; what is not there is null."""
        table = results["verdicts"].astype(object)
        judged = list(table.where(table.notna(), None).to_dict(orient="records"))
        ours = (Judgement(row, "not published", None) for row in scale.rows(results["scale"]))
        return [*judged, *(one.as_dict() for one in ours)]

    def shown(self, results: Results, rows: Sequence[Row]) -> Iterable[Printed]:
        """Show a table a section."""
        table = results["verdicts"]
        for letter, title in _SECTIONS.items():
            mine = table[table.setting.str.startswith(letter)]
            columns = ["setting", "quantity", "scheme", "published", "simulated", "low", "high"]
            yield Printed(
                f"{letter}: {title}",
                mine[[*columns, "unit", "verdict", "off"]],
                dict.fromkeys(("published", "simulated", "low", "high", "off"), "{:,.4g}"),
                {"unit": ""},
                "; ".join(dict.fromkeys(note for note in mine.note if note)),
            )
        yield from scale.printed(results["scale"])

    def headline(self, results: Results, rows: Sequence[Row]) -> Sequence[str]:
        """Say how many are met, and which are not."""
        table = results["verdicts"]
        counts = table.verdict.value_counts()
        missed = table[table.verdict == "outside"]
        told = "; ".join(
            f"{one.setting} {one.quantity} ({one.scheme})" for one in missed.itertuples()
        )
        judged = sum(int(counts.get(name, 0)) for name in ("inside", "partly", "outside"))
        met = int(counts.get("inside", 0))
        return [
            f"{met} of {judged} comparisons with published values are met, "
            f"{counts.get('partly', 0)} for part of what is swept; "
            f"{counts.get('calibrated', 0)} more have chosen something, "
            f"{counts.get('withheld', 0)} are predicted. Missed: {told or 'none'}."
        ]
