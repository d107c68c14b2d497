"""What a reader must know of the runs before believing the numbers."""

from __future__ import annotations

from faultline.experiments.analysis.selection import caveats
from faultline.experiments.runs.table import Sweep


def notices(sweep: Sweep) -> tuple[str, ...]:
    """Return a sentence for each of them."""
    sentences = []
    there = len(sweep.frame)
    if there < sweep.planned:
        sentences.append(
            f"This sweep is not finished: {there:,} of {sweep.planned:,} runs are there. The same "
            "faultline sweep command again plays the rest."
        )
    if sweep.problems:
        count = len(sweep.problems)
        what = "1 file was" if count == 1 else f"{count:,} files were"
        sentences.append(f"{what} left out: damaged, or not of this sweep.")
    if sweep.frame["code"].nunique() > 1:
        sentences.append("These runs were played by different states of Faultline's code.")
    return (*sentences, *caveats(sweep.frame))
