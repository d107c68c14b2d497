"""When groups fail."""

from __future__ import annotations

from datetime import date
from typing import Literal

from faultline.experiments.config.tables.failure_kinds import FailureKindsTable
from faultline.experiments.config.tables.table import SOUND, Table, count, key, seconds, share
from faultline.simulator.failures.clocks import ClockRule
from pydantic import Field, field_validator

STUDY = "SPARe study (Lee et al. 2026, arXiv 2603.00357)"
LLAMA3 = "Grattafiori et al. 2024 (Llama 3, arXiv 2407.21783)"


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
        only_with={"failures.model": "independent"},
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
        only_with={"failures.model": ("independent", "mix")},
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
        only_with={"failures.model": "independent"},
    )
    hardware_share: float = share(
        0.78,
        "Share of failures that are of hardware; the others, of software, leave host "
        "memory as it was.",
        f"{LLAMA3}: 78 % of interruptions",
        only_with={"failures.model": "independent"},
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
        only_with={"failures.model": "mix"},
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
        only_with={"failures.model": "mix"},
    )
    trace: str | None = key(
        None,
        "A CSV file with the columns time, component, cause, kind, repair, lasts and factor; "
        "relative to the scenario's file.",
        "choice: whose failures is for you to say",
        only_with={"failures.model": "trace"},
    )
    trace_start: str | None = key(
        None,
        "The moment at which the job starts, where the trace has timestamps, as in "
        "2024-05-01T12:00:00; UTC unless it says otherwise. What failed before is left out.",
        "choice: unset where times are in seconds",
        only_with={"failures.model": "trace"},
    )
    trace_span_s: float | None = seconds(
        None,
        "How long the trace is; unset: until its last failure, or until that is over.",
        "derived: the last failure of the trace",
        above=(0, 1e15),
        only_with={"failures.model": "trace"},
    )
    after_end: Literal["none", "repeat"] = key(
        "none",
        "What fails after the end of a trace.",
        "choice: what was not recorded is not made up",
        choices={"none": "nothing", "repeat": "the same again, from its beginning"},
        only_with={"failures.model": "trace"},
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
        only_with={"failures.model": ("mix", "trace")},
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
        only_with={"failures.model": ("mix", "trace")},
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
