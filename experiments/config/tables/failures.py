"""When groups fail, what is done about each kind of failure, and how failures depend on others."""

from __future__ import annotations

from datetime import date
from typing import Literal

from faultline.experiments.config.tables.table import SOUND, Table, count, key, seconds, share
from faultline.simulator.failures.clocks import ClockRule
from pydantic import Field, field_validator

STUDY = "SPARe study (Lee et al. 2026, arXiv 2603.00357)"
_INDEPENDENT = {"failures.model": "independent"}
_MIXES = {"failures.model": "mix"}
_TRACES = {"failures.model": "trace"}
_SEQUENCES = {"failures.model": ("mix", "trace")}
LLAMA3 = "Grattafiori et al. 2024 (Llama 3, arXiv 2407.21783)"


class FailureKindsTable(Table):
    """``[failures.kinds]``: failures beside those that stop something at once."""

    slow: Literal["ignore", "redeal", "swap", "restart", "ski-rental", "evict"] = key(
        "ignore",
        "What is done about a slow component.",
        "choice: what needs no detector",
        choices={
            "ignore": "the job goes on at its pace",
            "redeal": "found, micro-batches are dealt anew over the groups, by their speeds",
            "swap": "that, and slow nodes and adapters get the places where they hurt least",
            "restart": "found, the job saves and restarts without it",
            "ski-rental": "each of these, the cheapest first, once as much time is lost as it "
            "costs (Greyhound)",
            "evict": "found, it stops as if it had failed, and is repaired",
        },
        only_with=_SEQUENCES,
    )
    slow_found_s: float = seconds(
        10.6,
        "Time until a slow component is located.",
        "Greyhound (ATC 2025): 3.7 s to notice and 6.9 s to locate, on 256 GPUs",
        only_with={
            **_SEQUENCES,
            "failures.kinds.slow": ("evict", "redeal", "swap", "restart", "ski-rental"),
        },
    )
    retry_s: float = seconds(
        30.0,
        "How long a link may be down before its collective fails; a shorter flap stalls all.",
        "assumption: the time-out of InfiniBand, 7 retries of 4.096 us times 2^20, as NCCL sets it",
        only_with=_SEQUENCES,
    )
    hang: Literal["restart", "abort"] = key(
        "restart",
        "What is done about a hang after its time-out.",
        "choice: what needs no support by the framework",
        choices={"restart": "the job restarts", "abort": "the step is done once more"},
        only_with=_SEQUENCES,
    )
    hang_timeout_s: float = seconds(
        600.0,
        "Time-out of a hang, where the mix or trace does not say how long it lasts.",
        "PyTorch: time-out of NCCL's collectives",
        above=(0, 1e9),
        only_with=_SEQUENCES,
    )
    planned: Literal["drain", "migrate", "wait"] = key(
        "drain",
        "What is done about planned maintenance.",
        "choice: nothing is lost, and who plans is not kept waiting",
        choices={
            "drain": "at the end of the notice the job saves and restarts",
            "migrate": "at the end of the notice another machine, made ready meanwhile, takes over",
            "wait": "it is done with the next restart, at most 24 h later (ByteRobust, arXiv "
            "2509.16293)",
        },
        only_with=_SEQUENCES,
    )
    migrate_s: float = seconds(
        20.0,
        "Time for which all wait while a machine takes over from one that gave notice.",
        "TrainMover (OSDI 2026, arXiv 2412.12636): at most 20 s; 11.5 to 16.6 of planned moves",
        only_with={**_SEQUENCES, "failures.kinds.planned": "migrate"},
    )
    validation_share: float = share(
        0.0,
        "Share of all compute that is done once more to find silent corruption.",
        "choice: nobody looks; Gemini 2.5 (arXiv 2507.06261) replays 0.25 % of steps",
    )
    correlated_excess: float = key(
        1.0,
        "Failures in a burst, on average: each is followed by others that independent components "
        "do not explain.",
        "choice: independent; FT-HSDP (arXiv 2602.00277) saw 2.8 at 98,304 GPUs (derived)",
        "1",
        between=(1, 100),
        only_with=_MIXES,
    )
    excess_within_s: float = seconds(
        600.0,
        "Mean of the exponential time until a failure that follows another.",
        "assumption: minutes, as long as a restart",
        above=(0, 1e9),
        only_with=_MIXES,
    )
    lemon_shape: float | None = key(
        None,
        "Shape of the gamma-distributed factor, of mean 1, on each host's rate; unset: all are "
        "alike. At 0.15 the worst 5 % make half of all failures.",
        "choice: alike",
        "1",
        between=(0.01, 1000),
        only_with=_MIXES,
    )
    lemons_evicted_after: int | None = key(
        None,
        "Failures of a host after which one of the mean rate takes its place for good; unset: none "
        "does.",
        "choice: nobody counts",
        "1",
        between=(1, 10**6),
        only_with=_MIXES,
    )
    recurrence: float = share(
        0.0,
        "Probability that a repair has not found the culprit, and the failure comes again.",
        "choice: repairs help; restart chains of 6 tries (Lablup) mean 0.2 to 0.7",
        only_with=_MIXES,
    )


class FailuresTable(Table):
    """``[failures]``: what fails when."""

    model: Literal["independent", "mix", "trace"] = key(
        "independent",
        "Where failures come from.",
        "choice: the simplest; a mix tells causes apart",
        choices={
            "independent": "every group has a clock of its own",
            "mix": "several causes, each of which strikes GPUs, hosts, scale-up domains or "
            "switches at its own rate, and takes all groups on them down at once",
            "trace": "a list of failures in a file",
        },
    )
    distribution: Literal["weibull", "exponential"] = key(
        "exponential",
        "Distribution of the time between two failures of a group.",
        "Kokolis et al. 2025 (RSC, arXiv 2410.21680): rates that do not depend on the past",
        choices={
            "weibull": "with the stated shape: below 1, the young fail most",
            "exponential": "memoryless",
        },
        only_with=_INDEPENDENT,
    )
    shape: float = key(
        0.78,
        "Shape of the Weibull distribution.",
        f"assumption where weibull is asked for: as the {STUDY}",
        "1",
        between=(0.05, 1000),
        only_with={"failures.model": "independent", "failures.distribution": "weibull"},
    )
    mtbf_s: float | None = key(
        None,
        "Mean time between failures of the whole system, all groups up. A group's own "
        "mean is groups times that. A trace has its own, and so has a mix unless failures.rate is "
        "'mtbf'; unset: by the GPUs of the job.",
        f"derived: {LLAMA3}, 419 interruptions in 54 days on 16,384 GPUs, at the same rate a GPU",
        "s",
        between=(1e-3, 1e15),
        only_with={"failures.model": ("independent", "mix"), "failures.rate": "mtbf"},
    )
    component: Literal["gpu", "host", "group"] = key(
        "host",
        "What breaks of a group that fails: it matters for state that is kept in host "
        "memory, and for schemes that go on with what is left.",
        "choice: servers are what is replaced",
        choices={
            "gpu": "one of its GPUs",
            "host": "one of its hosts",
            "group": "all of it at once",
        },
        only_with=_INDEPENDENT,
    )
    hardware_share: float = share(
        0.78,
        "Share of failures that are of hardware; the others, of software, leave host "
        "memory as it was.",
        f"{LLAMA3}: 78 % of interruptions",
        only_with=_INDEPENDENT,
    )
    clock: ClockRule = key(
        "renewal",
        "When a group's next interval between failures begins.",
        f"{SOUND} from-detection",
        choices={
            "renewal": "when the last failure happened, whatever the job does: all schemes "
            "meet the same failures",
            "from-detection": "when the last failure was noticed; with independent groups only",
        },
        rule="clock",
    )
    mix: str | None = key(
        None,
        "The causes: a shipped mix (llama3, llama3-kinds, rsc-1, rsc-2, rsc-1-kinds) or a TOML "
        "file, relative to the scenario's; unset: llama3.",
        "choice: Grattafiori et al. 2024 (Llama 3, arXiv 2407.21783) tell causes apart",
        only_with=_MIXES,
    )
    rate: Literal["model", "mtbf"] = key(
        "model",
        "How often the causes of a mix strike together.",
        "choice: as observed",
        choices={
            "model": "at the mix's own rates, which grow with the GPUs of the job",
            "mtbf": "all rates scaled by one factor, so that the whole system's mean time "
            "between failures is failures.mtbf_s",
        },
        only_with=_MIXES,
    )
    trace: str | None = key(
        None,
        "A CSV file with the columns time, component, cause, kind, repair, lasts and factor; "
        "relative to the scenario's file.",
        "choice: whose failures is for you to say",
        only_with=_TRACES,
    )
    trace_start: str | None = key(
        None,
        "The moment at which the job starts, where the trace has timestamps, as in "
        "2024-05-01T12:00:00; UTC unless it says otherwise. What failed before is left out.",
        "choice: unset where times are in seconds",
        only_with=_TRACES,
    )
    trace_span_s: float | None = seconds(
        None,
        "How long the trace is; unset: until its last failure, or until that is over.",
        "derived: the last failure of the trace",
        above=(0, 1e15),
        only_with=_TRACES,
    )
    after_end: Literal["none", "repeat"] = key(
        "none",
        "What fails after the end of a trace.",
        "choice: what was not recorded is not made up",
        choices={"none": "nothing", "repeat": "the same again, from its beginning"},
        only_with=_TRACES,
    )
    gpus_per_host: int | None = count(
        None,
        "GPUs of a host, for failures of hosts; unset: the platform's, or 8.",
        "derived: the platform's spec; 8 as in HGX servers where it has no hosts",
        10**9,
    )
    gpus_per_domain: int | None = count(
        None,
        "GPUs of a scale-up domain, for failures of domains; unset: the platform's, or 8.",
        "derived: the platform's spec; 8 as in HGX servers where it has no domains",
        10**9,
        only_with=_SEQUENCES,
    )
    gpus_per_switch: int | None = key(
        None,
        "GPUs that lose the network with a switch, 0 if all have another way, over NVLink and a "
        "neighbour's adapter; unset: by the cables on a platform XML or with a [model]; "
        "else those below one leaf (or one set of rails) of the platform, or 16.",
        "derived: the platform's cables or spec; where it has no domains, two hosts under the "
        "switch of a rack (Grattafiori et al. 2024, Llama 3, arXiv 2407.21783)",
        "1",
        between=(0, 10**9),
        only_with=_SEQUENCES,
    )

    kinds: FailureKindsTable = Field(
        default_factory=FailureKindsTable,
        description="What is done about each kind of failure, and how failures depend on another.",
    )

    @field_validator("trace_start", mode="before")
    @classmethod
    def _timestamp_as_text(cls, value: object) -> object:
        """TOML has timestamps of its own; one without quotes is meant as one with them."""
        return value.isoformat() if isinstance(value, date) else value

    @property
    def process(self) -> str:
        """How failures come, in a word or two: the distribution, the mix, or that it is a trace."""
        if self.model == "independent":
            return self.distribution
        return f"mix {self.mix or 'llama3'}" if self.model == "mix" else "trace"
