"""Nonuniform tensor parallelism (Arfeen et al. 2025, arXiv 2504.06095).

A 480B model on 32,768 B200 in NVLink domains of 32: what single failed GPUs cost if they take
their replica with them (DP-DROP), if it runs at a lower tensor-parallel degree (NTP), and if its
GPUs draw more power instead (NTP-PW). The same schemes in the training loop, through 15 days of
failures, repairs and restarts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import pandas as pd
from faultline.experiments.analysis.printing import Printed
from faultline.experiments.studies.base import Results, Row, Study, Tables
from faultline.experiments.studies.ntp import failures, figures, loop, setting, tables
from faultline.experiments.studies.stage import Stage

_COURSES = (("5 days", 1), ("3 days", 1), ("5 days", 3))


class NtpStudy(Study):
    """Throughput lost to single GPUs, the spares that save it, and both in the training loop."""

    charts: ClassVar = {
        "availability.png": (figures.draw_availability, "availability"),
        "losses.png": (figures.draw_losses, "losses"),
        "trace.png": (figures.draw_courses, "courses"),
        "spares.png": (figures.draw_spares, "traces"),
        "blast-radius.png": (figures.draw_blasts, "blasts"),
        "goodput.png": (figures.draw_loop, "loop"),
        "domains.png": (figures.draw_domains, "domains"),
    }

    def play(self, stage: Stage) -> Results:
        """Place failed GPUs, draw traces, sync gradients, and play the training loop."""
        seeds, job = range(stage.seeds), setting.study_job()
        sets, count = stage.pick(1_000, 10_000), stage.pick(40, 400)
        fractions = failures.FRACTIONS
        results: Results = {
            "plans": tables.plan_table(),
            "resharding": setting.resharding_table(),
            "utilisation": setting.utilisation_table(),
        }
        with stage.step("placements", 6) as advance:
            results["losses"] = failures.loss_table(job, fractions, seeds, sets)
            advance()
            results["availability"] = failures.availability_table(fractions, seeds, sets // 10)
            advance()
            high_tp = {
                degree: failures.loss_table(setting.study_job(degree), [0.001], seeds, sets)
                for degree in (8, 16, 64, 72)
            }
            results["high_tp"] = pd.concat(high_tp, names=["degree"]).reset_index(level=0)
            advance()
            results["paces"] = failures.pace_table(0.004, seeds, sets)
            advance()
            results["pods"] = failures.pod_table(job, (0.001, 0.004), seeds, sets)
            advance()
            results["blasts"] = failures.blast_table(job, seeds, sets)
        with stage.step("traces", 3) as advance:
            results["traces"] = failures.trace_table(seeds, count)
            advance()
            repair = tables.FAILING_REPAIR
            results["failing_spares"] = failures.failing_spares_table(repair, seeds, count)
            advance()
            courses = {course: failures.course_table(*course, 0, count) for course in _COURSES}
            of_courses = pd.concat(courses, names=["repair", "rate_factor"])
            results["courses"] = of_courses.reset_index((0, 1))
        with stage.step("gradient sync"):
            results["checks"] = pd.DataFrame([setting.check_sync(seed) for seed in seeds])
        kept, traces = stage.folder("failures"), stage.pick(1, 10)
        of_loop = loop.loop_points(kept, stage.seeds, traces)
        of_domains = loop.domain_points(kept, stage.seeds, traces)
        return results | {
            "loop": loop.loop_table(stage.runs("training loop", of_loop)),
            "domains": loop.domain_table(stage.runs("domain sizes", of_domains)),
        }

    def tables(self, results: Results) -> Tables:
        """Return all tables but that of the simulated syncs."""
        return {name: table for name, table in results.items() if name != "checks"}

    def rows(self, results: Results) -> Iterator[Row]:
        """Return every result beside its published value, where one is printed."""
        yield from tables.availability_rows(results["availability"])
        yield from tables.loss_rows(results["high_tp"], results["losses"], results["paces"])
        yield from tables.course_rows(results["traces"])
        yield from tables.spare_rows(results["traces"], results["failing_spares"])
        packed = results["blasts"][results["blasts"].packed]
        text = "33 failures of {blast_radius} GPUs, packed"
        yield from tables.lost_rows(packed, ["blast_radius", "scheme"], setting=text)
        yield from tables.power_rows()
        yield from tables.tried_rows()
        yield from tables.utilisation_rows(results["utilisation"])
        yield from tables.charged_rows(results["losses"])
        yield from tables.sync_rows(results["resharding"], results["checks"])
        yield from tables.goodput_rows(results["loop"])
        keys = ["failed_fraction", "pod_replicas", "scheme"]
        text = "{failed_fraction:.3%} failed, packed within pods of {pod_replicas} replicas"
        yield from tables.lost_rows(results["pods"], keys, setting=text)
        yield from tables.domain_rows(results["domains"])

    def shown(self, results: Results, rows: Sequence[Row]) -> Iterator[Printed]:
        """Return plans, losses, traces and spares, the training loop, and all that is published."""
        yield tables.shown_plans(results["plans"])
        yield tables.shown_losses(results["losses"])
        yield tables.shown_pods(results["pods"])
        yield tables.shown_traces(results["traces"])
        yield tables.shown_spares(results["traces"], results["failing_spares"])
        yield tables.shown_loop(results["loop"])
        yield from tables.shown_domains(results["domains"])
        compared = [row.as_dict() for row in rows if row.published is not None]
        columns = ["quantity", "scheme", "setting", "published", "simulated"]
        yield Printed(
            "Published and simulated",
            pd.DataFrame(compared)[columns],
            dict.fromkeys(columns[3:], "{:.4g}"),
        )

    def headline(self, results: Results, rows: Sequence[Row]) -> Sequence[str]:
        """Say what the schemes come to: of throughput and spares, and in the loop."""
        found = results["losses"], results["traces"], results["failing_spares"]
        return tables.placement_sentence(*found), tables.loop_sentence(results["loop"])
