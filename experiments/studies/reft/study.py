"""Snapshots in host memory (REFT, Wang et al. 2023, arXiv 2310.12670), and beneath other schemes.

What is published: how long state in memory survives, what a snapshot costs an iteration, how fast
it is saved; and what FT-HSDP's shorter stalls are worth. What is not: REFT and its relatives
beneath SPARe, replication and plain checkpoints, and where restarted jobs find their state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from faultline.experiments.report.tables import Table, wide_table
from faultline.experiments.studies.base import Results, Row, Study, changes_against
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

    titles: ClassVar = {
        "reliability": "Time until state in memory is lost with 10 %",
        "iterations": f"Iterations and overheads, calibrated on {snapshots.CALIBRATED_ON}",
        "sharded": "Snapshot of 11,471 MiB per rank",
        "effective": "Effective time of 100,000 GPUs, a failure every 17.7 minutes",
        "recoveries": "Where restarts find the state, a failure every 300 s, 78 % of hardware",
    }

    def simulate(self, stage: Stage) -> Results:
        """Measure snapshots, count recoveries, and run the combinations."""
        pick, seeds = stage.pick, stage.seeds
        with stage.step(f"probes on {snapshots.PLATFORM}"):
            results: Results = {
                "iterations": snapshots.iteration_table(),
                "unhidden_s": snapshots.snapshot_delay_s(0.0),
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
        results["changes"] = changes_against(
            results["combinations"],
            "protection",
            combinations.BASELINE,
            ["restart_of_s", "strategy"],
            combinations.METRIC,
        )
        return results

    def row_tables(self, results: Results) -> Results:
        """Return the results as ``data/rows.csv`` names them."""
        changes, placements = results["changes"], results["placements"]
        iterations, saving = results["iterations"], results["saving"]
        kept = placements.restarts_from_memory + placements.restarts_from_peers
        ends = {end: changes[f"change_{end}"].fillna(changes.change) for end in ("low", "high")}
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
            "changes": combinations.with_minutes(changes).assign(**ends),
            "redundancies": combinations.with_minutes(results["redundancies"]),
            "placements": placements.assign(**{"restarts from memory": kept / placements.restarts}),
            "recoveries": results["recoveries"],
        }

    def shown(self, results: Results, rows: Sequence[Row]) -> Iterator[Table | Any]:
        """Return the rows with titles, then the ratios of protections and placements."""
        yield from super().shown(results, rows)
        yield (
            "A hidden copy of all of a rank's state costs nothing, and "
            f"{results['unhidden_s']:.2f} s where all of it meets an all-reduce."
        )
        title = "REFT's saving speed over asynchronous checkpoints, by sharding group"
        heads = {"storage_bandwidth": "file system"}
        yield wide_table(title, results["saving"], heads, "sharding_group", "factor", "{:,.1f}")
        yield combinations.shown_combinations(results["combinations"], results["changes"])
        yield combinations.shown_placements(results["placements"])

    def headline(self, results: Results, rows: Sequence[Row]) -> Sequence[str]:
        """Return the effect of cheaper checkpoints."""
        best = combinations.best_redundancies(results["redundancies"])
        return [combinations.combination_sentence(results["combinations"], best)]
