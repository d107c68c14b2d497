"""When groups fail."""

from __future__ import annotations

from datetime import date
from typing import Literal

from faultline.experiments.config.field_documentation import about
from faultline.experiments.config.tables.sources import LLAMA3, SOUND, STUDY
from faultline.experiments.config.tables.table import Table
from pydantic import Field, field_validator


class FailuresTable(Table):
    """``[failures]``: what fails when."""

    model: Literal["independent", "mix", "trace"] = Field(
        "independent",
        description="Where failures come from.",
        json_schema_extra=about(
            "choice: the simplest; a mix tells causes apart",
            choices={
                "independent": "every group has a clock of its own",
                "mix": "several causes, each of which strikes GPUs, hosts, scale-up domains or "
                "switches at its own rate, and takes all groups on them down at once",
                "trace": "a list of failures in a file",
            },
        ),
    )
    distribution: Literal["weibull", "exponential"] = Field(
        "exponential",
        description="Distribution of the time between two failures of a group.",
        json_schema_extra=about(
            "Kokolis et al. 2025 (RSC, arXiv 2410.21680): rates that do not depend on the past",
            choices={
                "weibull": "with the stated shape: below 1, the young fail most",
                "exponential": "memoryless",
            },
            only_with={"failures.model": "independent"},
        ),
    )
    shape: float = Field(
        0.78,
        ge=0.05,
        le=1000,
        description="Shape of the Weibull distribution.",
        json_schema_extra=about(
            f"assumption where weibull is asked for: as the {STUDY}",
            unit="1",
            only_with={"failures.model": "independent", "failures.distribution": "weibull"},
        ),
    )
    mtbf_s: float | None = Field(
        None,
        ge=1e-3,
        le=1e15,
        description="Mean time between failures of the whole system, all groups up. A group's own "
        "mean is groups times that. A trace has its own, and so has a mix unless failures.rate is "
        "'mtbf'; unset: by the GPUs of the job.",
        json_schema_extra=about(
            f"derived: {LLAMA3}, 419 interruptions in 54 days on 16,384 GPUs, at the same rate a "
            "GPU",
            unit="s",
            only_with={"failures.model": ("independent", "mix")},
        ),
    )
    component: Literal["gpu", "host", "group"] = Field(
        "host",
        description="What breaks of a group that fails: it matters for state that is kept in host "
        "memory, and for schemes that go on with what is left.",
        json_schema_extra=about(
            "choice: servers are what is replaced",
            choices={
                "gpu": "one of its GPUs",
                "host": "one of its hosts",
                "group": "all of it at once",
            },
            only_with={"failures.model": "independent"},
        ),
    )
    hardware_share: float = Field(
        0.78,
        ge=0,
        le=1,
        description="Share of failures that are of hardware; the others, of software, leave host "
        "memory as it was.",
        json_schema_extra=about(
            f"{LLAMA3}: 78 % of interruptions",
            unit="1",
            only_with={"failures.model": "independent"},
        ),
    )
    clock: Literal["from-detection", "renewal"] = Field(
        "renewal",
        description="When a group's next interval between failures begins.",
        json_schema_extra=about(
            f"{SOUND} from-detection",
            choices={
                "renewal": "when the last failure happened, whatever the job does: all schemes "
                "meet the same failures",
                "from-detection": "when the last failure was noticed; with independent groups only",
            },
        ),
    )
    mix: str | None = Field(
        None,
        description="The causes: a shipped mix (llama3, rsc-1, rsc-2) or a TOML file, relative to "
        "the scenario's; unset: llama3.",
        json_schema_extra=about(
            "choice: Grattafiori et al. 2024 (Llama 3, arXiv 2407.21783) tell causes apart",
            only_with={"failures.model": "mix"},
        ),
    )
    rate: Literal["model", "mtbf"] = Field(
        "model",
        description="How often the causes of a mix strike together.",
        json_schema_extra=about(
            "choice: as observed",
            choices={
                "model": "at the mix's own rates, which grow with the GPUs of the job",
                "mtbf": "all rates scaled by one factor, so that the whole system's mean time "
                "between failures is failures.mtbf_s",
            },
            only_with={"failures.model": "mix"},
        ),
    )
    trace: str | None = Field(
        None,
        description="A CSV file with the columns time, component, cause, kind and repair; relative "
        "to the scenario's file.",
        json_schema_extra=about(
            "choice: whose failures is for you to say", only_with={"failures.model": "trace"}
        ),
    )
    trace_start: str | None = Field(
        None,
        description="The moment at which the job starts, where the trace has timestamps, as in "
        "2024-05-01T12:00:00; UTC unless it says otherwise. What failed before is left out.",
        json_schema_extra=about(
            "choice: unset where times are in seconds", only_with={"failures.model": "trace"}
        ),
    )
    trace_span_s: float | None = Field(
        None,
        gt=0,
        le=1e15,
        description="How long the trace is; unset: until its last failure.",
        json_schema_extra=about(
            "derived: the last failure of the trace",
            unit="s",
            only_with={"failures.model": "trace"},
        ),
    )
    after_end: Literal["none", "repeat"] = Field(
        "none",
        description="What fails after the end of a trace.",
        json_schema_extra=about(
            "choice: what was not recorded is not made up",
            choices={"none": "nothing", "repeat": "the same again, from its beginning"},
            only_with={"failures.model": "trace"},
        ),
    )
    gpus_per_host: int | None = Field(
        None,
        ge=1,
        le=10**9,
        description="GPUs of a host, for failures of hosts; unset: the platform's, or 8.",
        json_schema_extra=about(
            "derived: the platform's spec; 8 as in HGX servers where it has no hosts",
            unit="1",
        ),
    )
    gpus_per_domain: int | None = Field(
        None,
        ge=1,
        le=10**9,
        description="GPUs of a scale-up domain, for failures of domains; unset: the platform's, "
        "or 8.",
        json_schema_extra=about(
            "derived: the platform's spec; 8 as in HGX servers where it has no domains",
            unit="1",
            only_with={"failures.model": ("mix", "trace")},
        ),
    )
    gpus_per_switch: int | None = Field(
        None,
        ge=1,
        le=10**9,
        description="GPUs that lose the network with a switch; unset: those below one leaf (or "
        "one set of rails) of the platform, or 16.",
        json_schema_extra=about(
            "derived: the platform's spec; where it has no domains, two hosts under the switch of "
            "a rack (Grattafiori et al. 2024, Llama 3, arXiv 2407.21783)",
            unit="1",
            only_with={"failures.model": ("mix", "trace")},
        ),
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
