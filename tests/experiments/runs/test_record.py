"""Every column of a record is defined, once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from faultline.experiments.config.scenario_file import load_scenario, shipped_scenarios
from faultline.experiments.job.resolving import resolve
from faultline.experiments.runs.record import COLUMNS, Kind, Record, column
from faultline.experiments.runs.single_run import run
from faultline.simulator.accounting.badput import CAUSES

from tests.stated_times import SNAPSHOT_SETTINGS


def mistakes(record: Record) -> Iterator[str]:
    """Yield a line for every column of a record that is not as it is defined."""
    kinds: dict[Kind, tuple[type, ...]] = {"text": (str,), "count": (int,), "number": (int, float)}
    for name, value in record.items():
        defined = column(name)
        if defined is None:
            yield f"{name}: is not defined"
        elif value is None:
            if not defined.optional:
                yield f"{name}: has no value"
        elif isinstance(value, bool) or not isinstance(value, kinds[defined.kind]):
            yield f"{name}: {value!r} is no {defined.kind}"


@pytest.mark.parametrize("name", shipped_scenarios())
def test_a_record_is_as_its_columns_are_defined(name: str) -> None:
    record = run(load_scenario(name, ["job.groups=8", "job.steps=50"]), 0)
    assert list(mistakes(record)) == []
    defined = [known for known in COLUMNS if known in record]
    assert defined == [known for known in record if known in COLUMNS] == list(COLUMNS)


def test_rsc_s_form_stands_beside_the_simulation() -> None:
    """Kokolis et al. 2025: (1 - rate (u0 + dt / 2)) / (1 + w / dt), with stated times, by hand."""
    stated = [
        *("job.groups=8", "job.steps=20000", "strategy.name=checkpoint", "failures.mtbf_s=86400"),
        *("times.compute_s=9", "times.all_reduce_s=1", "job.compute_jitter=0"),
        *("times.restart_s=500", "times.checkpoint_load_s=100", "times.checkpoint_write_s=20"),
        "checkpoint.interval_steps=60",
    ]
    expected = (1 - (500 + 100 + 300) / 86400) / (1 + 20 / 600)
    record = run(load_scenario("spare-sound", stated), 0)
    assert record["closed_form_ettr"] == pytest.approx(expected, rel=1e-9)
    # Two days with a failure or so: what one of them costs is a percent.
    assert record["goodput"] == pytest.approx(expected, abs=0.02)
    often = run(load_scenario("spare-sound", [*stated, "failures.mtbf_s=800", "job.steps=100"]), 0)
    assert often["closed_form_ettr"] is None


def test_rsc_s_form_restarts_from_the_snapshot_in_memory() -> None:
    """A snapshot per step that stops nothing: half a step and the load from memory are lost."""
    stated = [
        *("job.groups=8", "job.steps=20000", "strategy.name=checkpoint", "failures.mtbf_s=86400"),
        *("times.compute_s=9", "times.all_reduce_s=1", "job.compute_jitter=0", "job.gpus=64"),
        *("times.restart_s=500", "times.checkpoint_write_s=20", "protection.name=gemini"),
        *(*SNAPSHOT_SETTINGS, "protection.interval_steps=1", "job.parameter_bytes=1e11"),
    ]
    resolved = resolve(load_scenario("spare-sound", stated))
    load_s = resolved.protected.protection.load_times(resolved.protected.times).local_s
    record = run(load_scenario("spare-sound", stated), 0)
    expected = 1 - (500 + load_s + 10 / 2) / 86400
    assert record["closed_form_ettr"] == pytest.approx(expected, rel=1e-9)
    assert record["goodput"] == pytest.approx(expected, abs=0.02)
    # The storage is written for the few failures that lose both copies, and seldom.
    assert record["checkpoint_interval_s"] > 50 * 20


def test_events_by_cause_are_a_family() -> None:
    record = run(
        load_scenario(
            "spare-study", ["job.steps=50", "failures.model=mix", "failures.clock=renewal"]
        ),
        0,
    )
    causes = [name for name in record if name.startswith("events_by_cause.")]
    assert causes
    assert list(mistakes(record)) == []
    assert column("events_by_cause.gpu") is column(causes[0])


def test_names_units_and_words_agree() -> None:
    for name, defined in COLUMNS.items():
        assert name == defined.name
        assert defined.meaning
        assert not defined.meaning.endswith(".")
        assert name.endswith("_s") == (defined.unit == "s")
    assert {f"{cause}_s" for cause in CAUSES} < set(COLUMNS)
