"""Snapshots in host memory (REFT, Wang et al. 2023, arXiv 2310.12670), and beneath other schemes.

What is published: how long state in memory survives, what a snapshot costs an iteration, how fast
it is saved; and what FT-HSDP's shorter stalls are worth. What is not: REFT and its relatives
beneath SPARe, replication and plain checkpoints, and where restarted jobs find their state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from faultline.experiments.studies.base import Results, Row, Study
from faultline.experiments.studies.reft import combinations, failures, figures, snapshots
from faultline.experiments.studies.stage import Stage


class ReftStudy(Study):
    """Measurements of REFT's authors and of FT-HSDP's, and REFT beneath other schemes."""

    charts: ClassVar = {
        "loss.png": (figures.draw_loss_over_time,),
        "saving.png": (figures.draw_saving, "saving"),
        "stalls.png": (figures.draw_stalls, "stalls"),
        "combinations.png": (figures.draw_combinations, "combinations"),
        "redundancies.png": (figures.draw_scan, "redundancies"),
    }

    def simulate(self, stage: Stage) -> Results:
        """Measure snapshots, count recoveries, and run the combinations."""
        pick, seeds = stage.pick, stage.seeds
        with stage.step(f"probes on {snapshots.PLATFORM}"):
            results: Results = {
                "iterations": snapshots.iteration_table(),
                "snapshots": snapshots.sharded_table(),
                "optimizer": snapshots.optimizer_table(),
                "saving": snapshots.saving_table(),
            }
        results["stalls"] = failures.stall_table(stage, pick(40_000, 400_000))
        results["recoveries"] = failures.recovery_table(stage, pick(3_000, 30_000))
        cells = {
            "combinations": combinations.main_points(pick(2_000, 10_000), seeds),
            "redundancies": combinations.scan_points(pick(3_000, 10_000), seeds),
            "placements": combinations.placement_points(pick(500, 2_000), seeds),
        }
        for name, points in cells.items():
            results[name] = stage.runs(name, points).assign(status="ok")
        return results

    def row_tables(self, results: Results) -> Results:
        """Return the results as ``data/rows.csv`` names them."""
        placements = results["placements"]
        iterations, saving = results["iterations"], results["saving"]
        kept = placements.restarts_from_memory + placements.restarts_from_peers
        return {
            "reliability": failures.reliability_table(),
            "iterations": iterations.assign(
                calibrated=iterations.calibration.map({True: ", calibration", False: ""})
            ),
            "sharded": snapshots.copies_of_shards(results["snapshots"]),
            "saving": saving.assign(
                fit=np.floor(saving.storage_s / saving.reft_s.clip(lower=snapshots.LAUNCH_S))
            ),
            "loading": snapshots.loading_table(),
            "sharding": snapshots.changes_by_sharding(results["snapshots"]),
            "optimizer": snapshots.sent_at_a_save(results["optimizer"]),
            "effective": failures.effective_times(results["stalls"]),
            "combinations": combinations.with_minutes(results["combinations"]),
            "redundancies": combinations.with_minutes(results["redundancies"]),
            "placements": placements.assign(**{"restarts from memory": kept / placements.restarts}),
            "recoveries": results["recoveries"],
        }

    def headline(self, results: Results, rows: Sequence[Row]) -> Sequence[str]:
        """Return the effect of cheaper checkpoints."""
        best = combinations.best_redundancies(results["redundancies"])
        return [combinations.combination_sentence(results["combinations"], best)]
