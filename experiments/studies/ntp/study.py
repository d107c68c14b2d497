"""Nonuniform tensor parallelism (Arfeen et al. 2025, arXiv 2504.06095).

A 480B model on 32,768 B200 in NVLink domains of 32: what single failed GPUs cost if they take
their replica with them (DP-DROP), if it runs at a lower tensor-parallel degree (NTP), and if its
GPUs draw more power instead (NTP-PW). The same schemes in the training loop, through 15 days of
failures, repairs and restarts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pandas as pd
from faultline.experiments.studies.base import Results, Row, Study
from faultline.experiments.studies.ntp import failures, figures, loop, setting, tables
from faultline.experiments.studies.stage import Stage


class NtpStudy(Study):
    """Throughput lost to single GPUs, the spares that save it, and both in the training loop."""

    charts: ClassVar = {
        "goodput.png": (figures.draw_loop, "loop"),
        "domains.png": (figures.draw_domains, "domains"),
    }

    def simulate(self, stage: Stage) -> Results:
        """Place failed GPUs, draw traces, and run the training loop."""
        seeds, job = range(stage.seeds), setting.study_job()
        sets, count = stage.pick(1_000, 10_000), stage.pick(40, 400)
        losses = failures.loss_table
        with stage.step("placements"):
            high_tp = {
                degree: losses(setting.study_job(degree), [0.001], seeds, sets)
                for degree in (8, 16, 64, 72)
            }
            results: Results = {
                "plans": tables.plan_table(),
                "resharding": setting.resharding_table(),
                "utilisation": setting.utilisation_table(),
                "availability": tables.availability_table(),
                "power": tables.power_table(),
                "tried": tables.tried_table(),
                "losses": losses(job, failures.FRACTIONS, seeds, sets),
                "high_tp": pd.concat(high_tp, names=["degree"]).reset_index(level=0),
            }
        with stage.step("traces"):
            results["traces"] = failures.trace_table(seeds, count)
            results["spares"] = failures.spares_table(seeds, count)
        asked = stage.folder("failures"), stage.seeds, stage.pick(1, 10)
        runs = stage.runs("training loop", loop.loop_points(*asked))
        of_domains = stage.runs("domain sizes", loop.domain_points(*asked))
        return results | {"loop": loop.loop_table(runs), "domains": loop.domain_table(of_domains)}

    def row_tables(self, results: Results) -> Mapping[str, Any]:
        """Return what rows are made of."""
        return tables.row_tables(results)

    def headline(self, results: Results, rows: Sequence[Row]) -> Sequence[str]:
        """Say what the schemes come to: of throughput and spares, and in the loop."""
        placed = tables.placement_sentence(results["losses"], results["spares"])
        return placed, tables.loop_sentence(results["loop"])
