"""When groups fail, the mitigation of each kind of failure, and dependence among failures."""

from __future__ import annotations

from datetime import date
from typing import Literal

from faultline.experiments.config.tables.table import (
    SOUND,
    ScenarioTable,
    count,
    key,
    seconds,
    share,
)
from faultline.simulator.failures.clocks import ClockRule
from pydantic import Field, field_validator

STUDY = "SPARe study (Lee et al. 2026, arXiv 2603.00357)"
_INDEPENDENT = {"failures.model": "independent"}
_MIXES = {"failures.model": "mix"}
_TRACES = {"failures.model": "trace"}
_SEQUENCES = {"failures.model": ("mix", "trace")}
LLAMA3 = "Grattafiori et al. 2024 (Llama 3, arXiv 2407.21783)"


class FailureKindsTable(ScenarioTable):
    """``[failures.kinds]``: stragglers, hangs, planned work, and dependence among failures."""

    slow: Literal["ignore", "redeal", "swap", "restart", "ski-rental", "evict"] = key(
        "ignore",
        "Mitigation of stragglers.",
        "choice: no detector needed",
        choices={
            "ignore": "the job continues at the straggler's pace",
            "redeal": "micro-batches are redistributed over the groups by their speeds",
            "swap": "the same, and slow nodes and adapters move to where they cost least",
            "restart": "the job saves and restarts without the straggler",
            "ski-rental": "each of these, the cheapest first, once the time lost equals its cost "
            "(Greyhound)",
            "evict": "the straggler is stopped like a failed component and repaired",
        },
        only_with=_SEQUENCES,
    )
    slow_found_s: float = seconds(
        10.6,
        "Time to locate a straggler.",
        "Greyhound (ATC 2025): 3.7 s to notice and 6.9 s to locate, on 256 GPUs",
        only_with={
            **_SEQUENCES,
            "failures.kinds.slow": ("evict", "redeal", "swap", "restart", "ski-rental"),
        },
    )
    retry_s: float = seconds(
        30.0,
        "Downtime of a link after which its collective fails. A shorter flap stalls all groups.",
        "assumption: the time-out of InfiniBand, 7 retries of 4.096 us times 2^20, as NCCL sets it",
        only_with=_SEQUENCES,
    )
    hang: Literal["restart", "abort"] = key(
        "restart",
        "Mitigation of a hang after its time-out.",
        "choice: no support by the framework needed",
        choices={"restart": "the job restarts", "abort": "the step is repeated"},
        only_with=_SEQUENCES,
    )
    hang_timeout_s: float = seconds(
        600.0,
        "Time-out of a hang, if the mix or trace does not state its duration.",
        "PyTorch: time-out of NCCL's collectives",
        above=(0, 1e9),
        only_with=_SEQUENCES,
    )
    planned: Literal["drain", "migrate", "wait"] = key(
        "drain",
        "Reaction to planned maintenance.",
        "choice: no work is lost and maintenance starts on time",
        choices={
            "drain": "at the end of the notice the job saves and restarts",
            "migrate": "at the end of the notice a machine prepared meanwhile takes over",
            "wait": "maintenance happens at the next restart, at most 24 h later (ByteRobust, "
            "arXiv 2509.16293)",
        },
        only_with=_SEQUENCES,
    )
    migrate_s: float = seconds(
        20.0,
        "Time for which all groups wait while a machine replaces one under notice.",
        "TrainMover (OSDI 2026, arXiv 2412.12636): at most 20 s; 11.5 to 16.6 of planned moves",
        only_with={**_SEQUENCES, "failures.kinds.planned": "migrate"},
    )
    validation_share: float = share(
        0.0,
        "Share of all compute that is repeated to detect silent corruption.",
        "choice: no validation; Gemini 2.5 (arXiv 2507.06261) replays 0.25 % of steps",
    )
    correlated_excess: float = key(
        1.0,
        "Mean number of failures in a burst: the first, and those that follow it beyond what "
        "independent components explain.",
        "choice: independent; FT-HSDP (arXiv 2602.00277) saw 2.8 at 98,304 GPUs (derived)",
        "1",
        between=(1, 100),
        only_with=_MIXES,
    )
    excess_within_s: float = seconds(
        600.0,
        "Mean of the exponential time from a failure to the next one of its burst.",
        "assumption: minutes, as long as a restart",
        above=(0, 1e9),
        only_with=_MIXES,
    )
    lemon_shape: float | None = key(
        None,
        "Shape of the gamma-distributed factor, with mean 1, on the failure rate of each host. At "
        "0.15 the worst 5 % of hosts cause half of all failures. Unset: all rates are equal.",
        "choice: equal rates",
        "1",
        between=(0.01, 1000),
        only_with=_MIXES,
    )
    recurrence: float = share(
        0.0,
        "Probability that a repair misses the cause, so that the failure recurs.",
        "choice: repairs succeed; restart chains of 6 tries (Lablup) mean 0.2 to 0.7",
        only_with=_MIXES,
    )


class FailuresTable(ScenarioTable):
    """``[failures]``: which components fail, and when."""

    model: Literal["independent", "mix", "trace"] = key(
        "independent",
        "Source of the failures.",
        "choice: the simplest; a mix distinguishes causes",
        choices={
            "independent": "each group has its own failure clock",
            "mix": "several causes; each has a rate, strikes GPUs, hosts, scale-up domains or "
            "switches, and stops all groups on them at once",
            "trace": "a list of failures in a file",
        },
    )
    distribution: Literal["weibull", "exponential"] = key(
        "exponential",
        "Distribution of the time between two failures of a group.",
        "Kokolis et al. 2025 (RSC, arXiv 2410.21680): rates that do not depend on the past",
        choices={
            "weibull": "with the stated shape; below 1, the rate falls with age",
            "exponential": "memoryless",
        },
        only_with=_INDEPENDENT,
    )
    shape: float = key(
        0.78,
        "Shape of the Weibull distribution.",
        f"assumption for weibull: as in the {STUDY}",
        "1",
        between=(0.05, 1000),
        only_with={"failures.model": "independent", "failures.distribution": "weibull"},
    )
    mtbf_s: float | None = key(
        None,
        "Mean time between failures of the whole system with all groups up; that of one group "
        "is job.groups times as long. A trace has its own rate, and so does a mix unless "
        "failures.rate is 'mtbf'. Unset: from the number of GPUs.",
        f"derived: {LLAMA3}, 419 interruptions in 54 days on 16,384 GPUs, at the same rate per GPU",
        "s",
        between=(1e-3, 1e15),
        only_with={"failures.model": ("independent", "mix"), "failures.rate": "mtbf"},
    )
    component: Literal["gpu", "host", "group"] = key(
        "host",
        "Component that breaks when a group fails. It decides which state in host memory is "
        "lost, and which hardware schemes can still use.",
        "choice: servers are replaced as a whole",
        choices={
            "gpu": "one of its GPUs",
            "host": "one of its hosts",
            "group": "all of it at once",
        },
        only_with=_INDEPENDENT,
    )
    hardware_share: float = share(
        0.78,
        "Share of failures that are hardware failures. Software failures leave host memory intact.",
        f"{LLAMA3}: 78 % of interruptions",
        only_with=_INDEPENDENT,
    )
    clock: ClockRule = key(
        "renewal",
        "Start of a group's next interval between failures.",
        f"{SOUND} from-detection",
        choices={
            "renewal": "the last failure, whatever the job does: all schemes have the same "
            "failures",
            "from-detection": "the detection of the last failure; for independent groups only",
        },
        rule="clock",
    )
    mix: str | None = key(
        None,
        "Causes of failures: a shipped mix (llama3, llama3-kinds, rsc-1, rsc-2, rsc-1-kinds) or "
        "a TOML file, relative to the scenario's file. Unset: llama3.",
        "choice: Grattafiori et al. 2024 (Llama 3, arXiv 2407.21783) count failures by cause",
        only_with=_MIXES,
    )
    rate: Literal["model", "mtbf"] = key(
        "model",
        "Rate of all causes of a mix together.",
        "choice: the observed rates",
        choices={
            "model": "the rates of the mix, which grow with the GPUs of the job",
            "mtbf": "all rates are scaled by one factor, so that the mean time between failures "
            "of the whole system is failures.mtbf_s",
        },
        only_with=_MIXES,
    )
    trace: str | None = key(
        None,
        "CSV file with the columns time, component, cause, kind, repair, lasts and factor, "
        "relative to the scenario's file.",
        "choice: none shipped; state yours",
        only_with=_TRACES,
    )
    trace_start: str | None = key(
        None,
        "Start of the job in a trace with timestamps, as in 2024-05-01T12:00:00; UTC unless a "
        "time zone is stated. Earlier failures are ignored.",
        "choice: unset if times are in seconds",
        only_with=_TRACES,
    )
    trace_span_s: float | None = seconds(
        None,
        "Length of the trace. Unset: until its last failure ends.",
        "derived: the last failure of the trace",
        above=(0, 1e15),
        only_with=_TRACES,
    )
    after_end: Literal["none", "repeat"] = key(
        "none",
        "Failures after the end of a trace.",
        "choice: no failures are invented",
        choices={"none": "none", "repeat": "the trace repeats from its beginning"},
        only_with=_TRACES,
    )
    gpus_per_host: int | None = count(
        None,
        "GPUs of a host, for failures of hosts. Unset: as on the platform, or 8.",
        "derived: the platform's spec; without hosts, 8 as in HGX servers",
        10**9,
    )
    gpus_per_domain: int | None = count(
        None,
        "GPUs of a scale-up domain, for failures of domains. Unset: as on the platform, or 8.",
        "derived: the platform's spec; without domains, 8 as in HGX servers",
        10**9,
        only_with=_SEQUENCES,
    )
    gpus_per_switch: int | None = key(
        None,
        "GPUs that lose the network with a switch; 0 if all have another path over NVLink and a "
        "neighbour's adapter. Unset: by the cables of a platform XML or with a [model], else the "
        "GPUs below one leaf (or one set of rails) of the platform, or 16. To be stated for a "
        "platform XML that Faultline did not write.",
        "derived: the platform's cables or spec; without domains, two hosts below the switch of "
        "a rack (Grattafiori et al. 2024, Llama 3, arXiv 2407.21783)",
        "1",
        between=(0, 10**9),
        only_with=_SEQUENCES,
    )

    kinds: FailureKindsTable = Field(
        default_factory=FailureKindsTable,
        description="Mitigation of each kind of failure, and dependence among failures.",
    )

    @field_validator("trace_start", mode="before")
    @classmethod
    def _timestamp_as_text(cls, value: object) -> object:
        """Accept TOML timestamps without quotes."""
        return value.isoformat() if isinstance(value, date) else value

    @property
    def process(self) -> str:
        """Name of the failure process: the distribution, the mix, or "trace"."""
        if self.model == "independent":
            return self.distribution
        return f"mix {self.mix or 'llama3'}" if self.model == "mix" else "trace"
