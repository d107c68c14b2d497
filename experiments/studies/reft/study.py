"""Snapshots in host memory (REFT, Wang et al. 2023, arXiv 2310.12670), alone and with schemes.

Published: the survival of state in memory, the cost of a snapshot per iteration, the speed of
saving, and the effect of FT-HSDP's shorter stalls. Unpublished: REFT and its relatives with
SPARe, replication and plain checkpoints.
"""

from __future__ import annotations

from typing import ClassVar

from faultline.experiments.studies.base import Results, Study
from faultline.experiments.studies.reft import combinations, failures, snapshots
from faultline.experiments.studies.stage import Stage


class ReftStudy(Study):
    """Measurements of REFT's authors and of FT-HSDP's, and REFT with other schemes."""

    charts: ClassVar = {
        "combinations.png": (combinations.draw_combinations, "combinations"),
        "redundancies.png": (combinations.draw_scan, "redundancies"),
    }
    headline_title = "Snapshots in host memory; times to loss are relative, file systems swept"
    headline_rows: ClassVar = {
        "time to 10 % loss, no loss tolerated": ("time to 10 % loss", "*", "*, 0 losses tolerated"),
        "time to 10 % loss, one in a group": ("time to 10 % loss", "*", "*, 1 losses tolerated"),
        "saving over asynchronous checkpoints": ("saving speed over asynchronous*", "*", "*"),
        "loading over a file system": ("loading from memory over*", "*", "*"),
    }

    def simulate(self, stage: Stage) -> Results:
        """Measure snapshots, and run the stalls and the combinations."""
        pick, seeds = stage.pick, stage.seeds
        with stage.step(f"probes on {snapshots.PLATFORM}"):
            results: Results = {
                "reliability": failures.reliability_table(),
                "iterations": snapshots.iteration_table(),
                "sharded": snapshots.sharded_table(),
                "saving": snapshots.saving_table(),
                "loading": snapshots.loading_table(),
            }
        results["stalls"] = failures.stall_table(stage, pick(40_000, 400_000))
        cells = {
            "combinations": combinations.main_points(pick(2_000, 10_000), seeds),
            "redundancies": combinations.scan_points(pick(3_000, 10_000), seeds),
            "placements": combinations.placement_points(pick(500, 2_000), seeds),
        }
        results |= {name: stage.runs(name, points) for name, points in cells.items()}
        placed = results["placements"]
        kept = placed.restarts_from_memory + placed.restarts_from_peers
        placed["restarts from memory"] = kept / placed.restarts
        return results
