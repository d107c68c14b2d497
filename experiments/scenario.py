"""The schema of a scenario: every field with its unit, its default and where that comes from.

A scenario says what is trained, under which failures, by which scheme, and which of the named
choices hold that decide how a simulator treats a failure. Fields are in SI units.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model, field_validator

from experiments.field_documentation import about
from strategies.base import StrategyOptions
from strategies.registry import all_strategies

_STUDY = "SPARe study (Lee et al. 2026, arXiv 2603.00357)"
_SOUND = "choice: what is sound; the published simulator of SPARe takes"
_BYTEROBUST = "ByteRobust (arXiv 2509.16293), restarts by requeue"


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)


class JobTable(_Table):
    """``[job]``: what is trained."""

    groups: int = Field(
        200,
        ge=1,
        le=100_000,
        description="Data-parallel groups N; each holds one replica.",
        json_schema_extra=about(f"{_STUDY}: 200, 600 and 1000", unit="1"),
    )
    gpus: int = Field(
        600_000,
        ge=1,
        le=10**9,
        description="GPUs of the whole job.",
        json_schema_extra=about(f"{_STUDY}: 600k H100", unit="1"),
    )
    gpus_per_group: int | None = Field(
        None,
        ge=1,
        le=10**9,
        description="GPUs of a group; unset: gpus / groups, rounded down.",
        json_schema_extra=about("derived: gpus / groups, rounded down", unit="1"),
    )
    steps: int = Field(
        10_000,
        ge=1,
        le=10**9,
        description="Training steps to complete.",
        json_schema_extra=about(_STUDY, unit="steps"),
    )
    compute_s: float = Field(
        64.0,
        gt=0,
        le=1e9,
        description="Time a group computes one shard type (one stack).",
        json_schema_extra=about(f"{_STUDY}: 2.56e16 FLOP on a 400 TFLOP/s host", unit="s"),
    )
    compute_jitter: float = Field(
        0.05,
        ge=0,
        le=10,
        description="Standard deviation of the factor N(1, jitter^2) on compute_s.",
        json_schema_extra=about(_STUDY, unit="1"),
    )
    minimum_compute_factor: float = Field(
        0.1,
        ge=0,
        lt=1,
        description="The factor on compute_s is never below this.",
        json_schema_extra=about(_STUDY, unit="1"),
    )
    parameter_bytes: float = Field(
        2e13,
        gt=0,
        le=1e18,
        description="Size of a model replica: gradients reduced, checkpoint written.",
        json_schema_extra=about(f"{_STUDY}: 10T parameters of 16 bits", unit="bytes"),
    )
    time_limit_s: float | None = Field(
        None,
        gt=0,
        description="Give up after this much simulated time; unset: never.",
        json_schema_extra=about("choice: no limit", unit="s"),
    )
    give_up_after_restarts: int = Field(
        1000,
        ge=1,
        le=10**9,
        description="Give up after this many restarts without a new checkpoint.",
        json_schema_extra=about("choice: a job that makes no progress has to end", unit="1"),
    )

    @property
    def gpus_of_group(self) -> int:
        """GPUs of one group, stated or derived; at least 1."""
        return self.gpus_per_group or max(1, self.gpus // self.groups)


class FailuresTable(_Table):
    """``[failures]``: what fails when."""

    model: Literal["independent", "mix", "trace"] = Field(
        "independent",
        description="Where failures come from.",
        json_schema_extra=about(
            f"{_STUDY}: independent",
            choices={
                "independent": "every group has a clock of its own",
                "mix": "several causes, each of which strikes GPUs, hosts, scale-up domains or "
                "switches at its own rate, and takes all groups on them down at once",
                "trace": "a list of failures in a file",
            },
        ),
    )
    distribution: Literal["weibull", "exponential"] = Field(
        "weibull",
        description="Distribution of the time between two failures of a group.",
        json_schema_extra=about(
            f"{_STUDY}: both",
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
            _STUDY,
            unit="1",
            only_with={"failures.model": "independent", "failures.distribution": "weibull"},
        ),
    )
    mtbf_s: float = Field(
        300.0,
        ge=1e-3,
        le=1e15,
        description="Mean time between failures of the whole system, all groups up. A group's own "
        "mean is groups times that. A trace has its own, and so has a mix unless failures.rate is "
        "'mtbf'.",
        json_schema_extra=about(
            f"{_STUDY}: a failure every 5 minutes on 600k GPUs, extrapolated from 3 hours on 16k",
            unit="s",
            only_with={"failures.model": ("independent", "mix")},
        ),
    )
    clock: Literal["from-detection", "renewal"] = Field(
        "renewal",
        description="When a group's next interval between failures begins.",
        json_schema_extra=about(
            f"{_SOUND} from-detection",
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
            only_with={"failures.model": ("mix", "trace")},
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


class DetectionTable(_Table):
    """``[detection]``: how the job learns that a group is down."""

    mode: Literal["all-reduce", "watchdog"] = Field(
        "all-reduce",
        description="What becomes of an all-reduce that lacks a member.",
        json_schema_extra=about(
            f"choice: that of the {_STUDY}",
            choices={
                "all-reduce": "it fails after all_reduce.failed_fraction of its time",
                "watchdog": "it hangs until watchdog_s after its start",
            },
        ),
    )
    watchdog_s: float = Field(
        600.0,
        gt=0,
        le=1e9,
        description="Time-out of the watchdog, from the start of the all-reduce.",
        json_schema_extra=about(
            "PyTorch: default time-out of an NCCL process group, 10 minutes",
            unit="s",
            only_with={"detection.mode": "watchdog"},
        ),
    )
    failure_in_all_reduce: Literal["next-step", "fails-it"] = Field(
        "fails-it",
        description="What a group does that dies after its compute.",
        json_schema_extra=about(
            f"{_SOUND} next-step",
            choices={
                "fails-it": "it makes this all-reduce fail",
                "next-step": "it is missed in the next step only",
            },
        ),
    )


class AllReduceTable(_Table):
    """``[all_reduce]``: the gradient all-reduce at the end of a step."""

    time: Literal["stated", "measured"] = Field(
        "stated",
        description="Where the time of an all-reduce comes from.",
        json_schema_extra=about(
            f"choice: that of the {_STUDY}",
            choices={
                "stated": "time_s, or time_per_group_s times groups",
                "measured": "messages on the platform; the replay engine takes what SimGrid "
                "measured",
            },
        ),
    )
    time_s: float | None = Field(
        None,
        ge=0,
        le=1e11,
        description="Time of an all-reduce; unset: time_per_group_s * groups.",
        json_schema_extra=about(
            "derived: time_per_group_s * groups", unit="s", only_with={"all_reduce.time": "stated"}
        ),
    )
    time_per_group_s: float = Field(
        0.01,
        ge=0,
        le=1e6,
        description="Time of an all-reduce for each group, where time_s is unset.",
        json_schema_extra=about(
            f"{_STUDY}: 2, 6, 10 s for 200, 600, 1000 groups",
            unit="s",
            only_with={"all_reduce.time": "stated"},
        ),
    )
    failed_fraction: float = Field(
        1.0,
        ge=0,
        le=1,
        description="Cost of an all-reduce that lacked a member, as a fraction of its time.",
        json_schema_extra=about(
            f"{_SOUND} 0.5", unit="1", only_with={"detection.mode": "all-reduce"}
        ),
    )
    fixed_step: Literal["commits", "retries"] = Field(
        "retries",
        description="What a step does that lost nothing by its failures (phase 0).",
        json_schema_extra=about(
            f"{_SOUND} commits",
            choices={
                "retries": "the survivors repeat the all-reduce",
                "commits": "it is done, without an all-reduce of the survivors",
            },
        ),
    )
    fidelity: Literal["flow", "chunk"] = Field(
        "flow",
        description="How messages are played.",
        json_schema_extra=about(
            "choice: both take the same time on a ring; flow is much faster to simulate",
            choices={
                "flow": "one steady flow an edge of the ring",
                "chunk": "every single message",
            },
            only_with={"all_reduce.time": "measured"},
        ),
    )


class CheckpointTable(_Table):
    """``[checkpoint]``: saving the state to storage."""

    interval_steps: int | None = Field(
        None,
        ge=1,
        le=10**18,
        description="Steps between checkpoints; unset: the best by the closed form.",
        json_schema_extra=about(
            "derived: the best period T_c*, Saxena et al. 2024",
            unit="steps",
            only_with={"checkpoint.policy": "fixed"},
        ),
    )
    policy: Literal["fixed", "dynamic"] = Field(
        "fixed",
        description="When a checkpoint is due.",
        json_schema_extra=about(
            f"choice: that of the {_STUDY}",
            choices={
                "fixed": "every interval_steps steps",
                "dynamic": "as soon as the unsaved work is worth its price under the hazard of a "
                "restart at that moment, which grows with every group that is down (after Ling et "
                "al. 2001 and Bougeret et al. 2011)",
            },
        ),
    )
    write: Literal["stated", "measured"] = Field(
        "stated",
        description="Where the time to write a checkpoint comes from.",
        json_schema_extra=about(
            f"choice: that of the {_STUDY}",
            choices={"stated": "write_s", "measured": "a flow to the platform's storage"},
        ),
    )
    write_s: float = Field(
        58.8,
        gt=0,
        le=1e9,
        description="Time to write a checkpoint.",
        json_schema_extra=about(
            f"{_STUDY}: 2e13 bytes at 340 GB/s", unit="s", only_with={"checkpoint.write": "stated"}
        ),
    )
    failed_writer: Literal["skips", "replaced"] = Field(
        "replaced",
        description="What becomes of a checkpoint whose writer is down.",
        json_schema_extra=about(
            f"{_SOUND} skips",
            choices={"replaced": "the next member writes it", "skips": "it is left out"},
        ),
    )


class RestartTable(_Table):
    """``[restart]``: bringing the whole job back after a wipe-out."""

    time: Literal["stated", "modelled"] = Field(
        "stated",
        description="Where the time of a restart comes from.",
        json_schema_extra=about(
            f"choice: that of the {_STUDY}",
            choices={
                "stated": "duration_s",
                "modelled": "scheduling_s + initialisation_s * (GPUs / initialisation_gpus) ^ "
                "initialisation_exponent",
            },
        ),
    )
    duration_s: float = Field(
        3600.0,
        gt=0,
        le=1e9,
        description="Time until a group is up again.",
        json_schema_extra=about(
            f"{_STUDY}: 60 minutes on 600k GPUs", unit="s", only_with={"restart.time": "stated"}
        ),
    )
    scheduling_s: float = Field(
        0.0,
        ge=0,
        le=1e9,
        description="Time until the job has its machines again.",
        json_schema_extra=about(
            "assumption: spare machines stand by", unit="s", only_with={"restart.time": "modelled"}
        ),
    )
    initialisation_s: float = Field(
        454.0,
        ge=0,
        le=1e9,
        description="Time to start processes and communicators on initialisation_gpus GPUs.",
        json_schema_extra=about(
            f"{_BYTEROBUST}: 454 s on 2,048 GPUs",
            unit="s",
            only_with={"restart.time": "modelled"},
        ),
    )
    initialisation_gpus: int = Field(
        2048,
        ge=1,
        le=10**9,
        description="GPUs that initialisation_s is of.",
        json_schema_extra=about(
            f"{_BYTEROBUST}: 128 servers of 16 GPUs",
            unit="1",
            only_with={"restart.time": "modelled"},
        ),
    )
    initialisation_exponent: float = Field(
        0.25,
        ge=0,
        le=4,
        description="How initialisation grows with the number of GPUs.",
        json_schema_extra=about(
            f"{_BYTEROBUST}: 454, 545, 635, 768 s on 2,048 to 16,384 GPUs grow by 2^0.25 a "
            "doubling",
            unit="1",
            only_with={"restart.time": "modelled"},
        ),
    )
    failure_during: Literal["begins-anew", "absorbed"] = Field(
        "absorbed",
        description="What becomes of a group that fails during its restart.",
        json_schema_extra=about(
            f"{_SOUND} begins-anew",
            choices={
                "absorbed": "the restart repairs it in passing",
                "begins-anew": "it starts over, and all wait for the slowest",
            },
        ),
    )
    failure_while_waiting: Literal["surfaces", "absorbed"] = Field(
        "absorbed",
        description="What becomes of a restarted group that fails while it waits for slower ones.",
        json_schema_extra=about(
            f"{_SOUND} surfaces",
            choices={
                "absorbed": "the restart repairs it in passing",
                "surfaces": "the first step finds it down",
            },
        ),
    )
    resume: Literal["redo", "after"] = Field(
        "after",
        description="Where training goes on after a restart.",
        json_schema_extra=about(
            f"{_SOUND} redo",
            choices={
                "after": "after the step that was checkpointed",
                "redo": "with the step that was checkpointed, which is done and saved once more",
            },
        ),
    )
    load: Literal["included", "measured"] = Field(
        "included",
        description="Where the time to load the checkpoint comes from.",
        json_schema_extra=about(
            f"choice: that of the {_STUDY}",
            choices={
                "included": "it is part of the restart's time",
                "measured": "it comes on top, as measured on the platform",
            },
        ),
    )
    load_by: Literal["one-group", "every-group"] = Field(
        "one-group",
        description="Who reads the checkpoint from storage.",
        json_schema_extra=about(
            "choice: storage is read once",
            choices={
                "one-group": "one group, which passes it on",
                "every-group": "all at once, sharing the storage's bandwidth",
            },
            only_with={"restart.load": "measured"},
        ),
    )
    controller_s: float = Field(
        0.1,
        ge=0,
        le=1e9,
        description="Time of the controller's decision and the shrinking of the communicator.",
        json_schema_extra=about(_STUDY, unit="s"),
    )
    shrink_per_member_s: float = Field(
        0.0,
        ge=0,
        le=1e6,
        description="What the shrinking takes on top for each member that is left.",
        json_schema_extra=about("assumption: communicators of all sizes shrink alike", unit="s"),
    )


class RejoinTable(_Table):
    """``[rejoin]``: whether groups that were dropped come back before the next restart."""

    when: Literal["at-restart", "at-checkpoint"] = Field(
        "at-restart",
        description="When groups that were dropped come back.",
        json_schema_extra=about(
            f"choice: that of the {_STUDY}",
            choices={
                "at-restart": "with a global restart only",
                "at-checkpoint": "at the first checkpoint at which they are repaired, or a spare "
                "group is free; stacks and replica sets are then as if they had never failed",
            },
        ),
    )
    repair_s: float = Field(
        10_800.0,
        ge=0,
        le=1e9,
        description="Time from the moment a failure is noticed until the group could come back.",
        json_schema_extra=about(
            "NTP (Arfeen et al. 2025, arXiv 2504.06095): 3 h for software",
            unit="s",
            only_with={"rejoin.when": "at-checkpoint"},
        ),
    )
    spare_groups: int = Field(
        0,
        ge=0,
        le=100_000,
        description="Groups that stand by from the beginning, on top of job.groups, to take the "
        "place of failed ones.",
        json_schema_extra=about(
            "choice: none", unit="1", only_with={"rejoin.when": "at-checkpoint"}
        ),
    )
    time_s: float | None = Field(
        None,
        ge=0,
        le=1e11,
        description="Time that all wait for groups that come back: joining, and being sent the "
        "state; unset: as long as writing a checkpoint.",
        json_schema_extra=about(
            "assumption: the state is read as fast as it is written",
            unit="s",
            only_with={"rejoin.when": "at-checkpoint"},
        ),
    )


class PlatformTable(_Table):
    """``[platform]``: where the job runs."""

    file: str = Field(
        "spare-600k",
        max_length=4096,
        description="A shipped cluster, or a platform XML relative to the scenario's file.",
        json_schema_extra=about(f"choice: the cluster of the {_STUDY}"),
    )


class _StrategyTable(_Table):
    """``[strategy]``: the scheme, and a table of named choices for each scheme that has any."""

    name: str = "spare"
    redundancy: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="Redundancy r; unset: the best by the scheme's closed form.",
        json_schema_extra=about(
            "derived: least normalised time to train J(r), Lee et al. 2026 (SPARe)", unit="1"
        ),
    )

    def options(self) -> StrategyOptions:
        """Return the named choices of the chosen scheme."""
        stated = getattr(self, self.name, None)
        return stated if isinstance(stated, StrategyOptions) else StrategyOptions()


def _strategy_table() -> type[_StrategyTable]:
    """Complete ``[strategy]`` from the registry, so that a scheme joins by its own file alone."""
    fields: dict[str, Any] = {
        name: (scheme.Options, Field(default_factory=scheme.Options, description=scheme.summary))
        for name, scheme in all_strategies().items()
        if scheme.Options is not StrategyOptions
    }
    fields["name"] = (
        Literal[tuple(all_strategies())],
        Field(
            "spare",
            description="The fault-tolerance scheme.",
            json_schema_extra=about(
                "choice: the scheme of the shipped study",
                choices={name: scheme.summary for name, scheme in all_strategies().items()},
            ),
        ),
    )
    return create_model("StrategyTable", __base__=_StrategyTable, __module__=__name__, **fields)


if TYPE_CHECKING:
    StrategyTable = _StrategyTable
else:
    StrategyTable = _strategy_table()


class Scenario(_Table):
    """One question: a job, its failures, a scheme, and the rules of the game."""

    version: Literal[1] = Field(
        1,
        description="Version of this schema.",
        json_schema_extra=about("choice: the only one so far", unit="1"),
    )
    name: str = Field(
        "unnamed",
        max_length=200,
        description="Name of the scenario; a file that has none is named after itself.",
        json_schema_extra=about("choice"),
    )
    description: str = Field(
        "",
        max_length=10_000,
        description="What it is for, and where its numbers come from.",
        json_schema_extra=about("choice"),
    )
    job: JobTable = Field(default_factory=JobTable)
    strategy: StrategyTable = Field(default_factory=StrategyTable)
    failures: FailuresTable = Field(default_factory=FailuresTable)
    detection: DetectionTable = Field(default_factory=DetectionTable)
    all_reduce: AllReduceTable = Field(default_factory=AllReduceTable)
    checkpoint: CheckpointTable = Field(default_factory=CheckpointTable)
    restart: RestartTable = Field(default_factory=RestartTable)
    rejoin: RejoinTable = Field(default_factory=RejoinTable)
    platform: PlatformTable = Field(default_factory=PlatformTable)
