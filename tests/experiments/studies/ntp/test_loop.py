"""The schemes in the training loop: the scenario is the study's job, and losses are alike."""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from time import process_time

import numpy as np
import pandas as pd
import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.config.trace_file import read_trace, write_trace
from faultline.experiments.job.failure_model import job_layout
from faultline.experiments.job.job_shape import job_shape
from faultline.experiments.runs.execution import simulate
from faultline.experiments.runs.single_run import run
from faultline.experiments.studies.ntp.failures import lost_shares, traces
from faultline.experiments.studies.ntp.loop import (
    DOMAIN_SCHEMES,
    REPAIR,
    SCENARIO,
    VARIANTS,
    domain_points,
    domain_table,
    failures_of,
    loop_points,
    loop_table,
    modelled_settings,
    scenario_of,
)
from faultline.experiments.studies.ntp.setting import study_job
from faultline.strategies.schemes.ntp.ntp import Ntp, NtpOptions, NtpPw
from faultline.strategies.schemes.ntp.replica_plan import Scheme

COARSE = ("times.compute_s=33.48", "times.all_reduce_s=1.701")
"""Steps ten times as long: a tenth of them to run, and the same failures."""


def test_the_shipped_scenario_is_the_job_of_the_study() -> None:
    scenario = load_scenario(SCENARIO)
    for key, modelled in modelled_settings().items():
        value: object = scenario
        for part in key.split("."):
            value = getattr(value, part)
        assert value == pytest.approx(modelled, rel=2e-3), key
    layout = job_layout(scenario)
    job = study_job()
    assert (layout.groups, layout.components("domain")) == (job.replicas, job.domains)
    assert job_shape(scenario).sequences == job.rules.local_batch


@pytest.mark.parametrize("scheme", [Ntp, NtpPw])
def test_the_schemes_plan_as_the_study_does(scheme: type[Ntp]) -> None:
    """Up to six broken GPUs in a domain; beyond, messages that a scheme knows nothing of count."""
    options, shape = NtpOptions(), job_shape(load_scenario(SCENARIO))
    plans = scheme(128, 1, options, shape).plans(32, 8)
    known = study_job().plans(scheme.scheme)
    for ours, theirs in zip(plans[:7], known[:7], strict=True):
        assert (ours.degree, ours.sequences) == (theirs.degree, theirs.sequences)
        assert ours.power == pytest.approx(theirs.power, abs=0.08)


def test_traces_are_written_as_they_were_drawn(tmp_path: Path) -> None:
    trace = next(traces(REPAIR, 1, 3, 1))
    write_trace(failures_of(trace, study_job()), tmp_path / "trace.csv")
    scenario = scenario_of(trace, tmp_path / "trace.csv", "ntp")
    written = read_trace(tmp_path / "trace.csv", job_layout(scenario))
    assert written == failures_of(trace, study_job())
    assert len(written) == int((trace.changes == 1).sum())
    times = np.sort([f.time_s + (f.repair_s or 0.0) for f in written])
    back = np.sort(trace.times_s[trace.changes == -1])
    np.testing.assert_allclose(times[: back.size], back)
    assert np.all(times[back.size :] > trace.duration_s)
    shares = np.mean([f.kind == "software" for f in written])
    assert shares == pytest.approx(0.22, abs=4 * sqrt(0.22 * 0.78 / len(written)))


@pytest.mark.parametrize(
    ("variant", "scheme"),
    [
        pytest.param("dp-drop", Scheme.DP_DROP, marks=pytest.mark.slow),
        ("ntp, resharding hidden", Scheme.NTP),
    ],
)
def test_the_loop_loses_what_the_placement_study_finds(
    tmp_path: Path, variant: str, scheme: Scheme
) -> None:
    """The same four traces in both: the mean ratio, within three standard errors over traces.

    Beyond these the loop is to be off by what it does otherwise. Repairs wait for the next restart,
    5,568 s on average and as long as that takes, where a repair takes 75 h: up to 2.5 % more. And
    groups that stay away are spared failures which keep packed domains broken for longer: the loss
    is too small by up to the share of the job that is away, once for hits that are missed and once
    for those that would have been drawn out.
    """
    ratios, away = [], 0.0
    for index, trace in enumerate(traces(REPAIR, 1, 11, 4)):
        path = tmp_path / f"{index}.csv"
        write_trace(failures_of(trace, study_job()), path)
        scenario = scenario_of(trace, path, variant, *COARSE)
        record = run(scenario, 0)
        trained_s = sum(record[f"{cause}_s"] for cause in ("compute", "all_reduce", "degraded"))
        job = study_job()
        shares = lost_shares(trace.domain_counts(job.domains, job.domain_gpus), job, scheme)
        placed = float(shares @ trace.lengths_s / trace.duration_s)
        ratios.append(record["degraded_s"] / trained_s / placed)
        away = max(away, placed if scheme is Scheme.DP_DROP else 0.0)
        assert record["restarts"] > 100
    error = 3 * np.std(ratios, ddof=1) / sqrt(len(ratios))
    assert 1 - 2 * away - error < np.mean(ratios) < 1.025 + error


@pytest.mark.slow
def test_fifteen_days_take_less_than_two_seconds() -> None:
    for scheme in ("dp-drop", "ntp", "ntp-pw"):
        scenario = load_scenario(SCENARIO, [f"strategy.name={scheme}"])
        begun_s = process_time()
        record = run(scenario, 0)
        assert process_time() - begun_s < 2.0
        assert record["time_s"] == pytest.approx(15 * 86_400, rel=1e-3)


@pytest.mark.slow
def test_larger_domains_lose_more_of_themselves_and_train_more(tmp_path: Path) -> None:
    """The same GPUs fail at every size."""
    table = domain_table(pd.DataFrame(simulate(list(domain_points(tmp_path, 1, 1)))))
    by_size = table.pivot_table(index="domain_gpus", columns="strategy", values="degraded")
    assert by_size["dp-drop"].is_monotonic_increasing
    assert (by_size["ntp"] < by_size["dp-drop"])[16:].all()
    batches = table.pivot_table(index="domain_gpus", columns="strategy", values="batches_per_day")
    assert (batches.loc[32] > 1.2 * batches.loc[8]).all()
    assert len(table) == len(batches) * len(DOMAIN_SCHEMES)


@pytest.mark.slow
def test_every_variant_is_simulated(tmp_path: Path) -> None:
    table = loop_table(pd.DataFrame(simulate(list(loop_points(tmp_path, 1, 1)))))
    goodput = table.set_index("variant").goodput
    assert list(goodput.index) == list(VARIANTS)
    assert goodput["dp-drop, not packed"] < goodput["dp-drop"] < goodput["ntp"]
    assert goodput["ntp"] < goodput["ntp-pw"] < goodput["checkpoint"]
    hidden = goodput["ntp-pw, resharding hidden"]
    # Not the same to the last restart: which failures fall into a load differs.
    assert hidden == pytest.approx(goodput["checkpoint"], rel=2e-3)
    assert goodput["ntp-pw, in memory"] > goodput["ntp-pw"] + 0.03
    for scheme in ("dp-drop", "ntp"):
        assert goodput[f"{scheme}, pods of 16"] < goodput[scheme]
    # Less than a second a restart, of ten minutes.
    free = goodput["ntp, in memory, migration free"]
    assert free * (1 - 2e-3) < goodput["ntp, in memory"] < free
