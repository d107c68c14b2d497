"""The schema of a scenario: every field with its unit, its default and where that comes from.

A scenario says what is trained, under which failures, by which scheme, and which of the named
choices hold that decide how a simulator treats a failure. Fields are in SI units.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from strategies.base import StrategyOptions
from strategies.registry import all_strategies


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)


class JobTable(_Table):
    """``[job]``: what is trained."""

    groups: int = Field(
        200, ge=1, le=100_000, description="Data-parallel groups N; each holds one replica."
    )
    gpus: int = Field(600_000, ge=1, description="GPUs of the whole job.")
    gpus_per_group: int | None = Field(
        None, ge=1, description="GPUs of a group; default: gpus / groups."
    )
    steps: int = Field(10_000, ge=1, le=10**9, description="Training steps to complete.")
    compute_s: float = Field(
        64.0, gt=0, le=1e9, description="Seconds a group computes one shard type (one stack)."
    )
    compute_jitter: float = Field(
        0.05,
        ge=0,
        le=10,
        description="Standard deviation of the factor N(1, jitter^2) on compute_s.",
    )
    minimum_compute_factor: float = Field(
        0.1, ge=0, lt=1, description="The factor is never below this."
    )
    parameter_bytes: float = Field(
        2e13,
        gt=0,
        le=1e18,
        description="Bytes of a model replica: gradients reduced, checkpoint written.",
    )
    time_limit_s: float | None = Field(
        None, gt=0, description="Give up after this many simulated seconds."
    )
    give_up_after_restarts: int = Field(
        1000, ge=1, description="Give up after this many restarts without a new checkpoint."
    )

    @property
    def gpus_of_group(self) -> int:
        """GPUs of one group, stated or derived; at least 1."""
        return self.gpus_per_group or max(1, self.gpus // self.groups)


class FailuresTable(_Table):
    """``[failures]``: when groups fail."""

    distribution: Literal["weibull", "exponential"] = Field(
        "weibull", description="Distribution of the time between two failures of a group."
    )
    shape: float = Field(0.78, ge=0.05, le=1000, description="Shape of the Weibull distribution.")
    mtbf_s: float = Field(
        300.0,
        ge=1e-3,
        le=1e15,
        description="Mean seconds between failures of the whole system, all groups up; a group's "
        "own mean is groups times that.",
    )
    clock: Literal["from-detection", "renewal"] = Field(
        "renewal",
        description="'renewal': failures come at the sums of the drawn intervals, whatever the job "
        "does. 'from-detection': the next interval begins when the last failure was noticed.",
    )


class DetectionTable(_Table):
    """``[detection]``: how the job learns that a group is down."""

    mode: Literal["all-reduce", "watchdog"] = Field(
        "all-reduce",
        description="'all-reduce': an all-reduce that lacks a member fails after failed_fraction "
        "of its time. 'watchdog': it hangs until watchdog_s after its start.",
    )
    watchdog_s: float = Field(
        600.0, gt=0, le=1e9, description="Time-out of the watchdog, in seconds."
    )
    failure_in_all_reduce: Literal["next-step", "fails-it"] = Field(
        "fails-it",
        description="Whether a group that dies after its compute makes this all-reduce fail, or is "
        "missed in the next step only.",
    )


class AllReduceTable(_Table):
    """``[all_reduce]``: the gradient all-reduce at the end of a step."""

    time: Literal["stated", "measured"] = Field(
        "stated",
        description="'stated': time_s (or time_per_group_s). 'measured': messages on the platform; "
        "the replay engine takes what SimGrid measured.",
    )
    time_s: float | None = Field(
        None,
        ge=0,
        le=1e9,
        description="Seconds of an all-reduce; default: time_per_group_s * groups.",
    )
    time_per_group_s: float = Field(
        0.01, ge=0, le=1e6, description="Seconds a group: 2, 6, 10 s for 200, 600, 1000 groups."
    )
    failed_fraction: float = Field(
        1.0, ge=0, le=1, description="Cost of an all-reduce that lacked a member, as a fraction."
    )
    fixed_step: Literal["commits", "retries"] = Field(
        "retries",
        description="What a step does that lost nothing by its failures (phase 0): commit without "
        "an all-reduce of the survivors, or repeat it.",
    )
    fidelity: Literal["flow", "chunk"] = Field(
        "flow", description="One steady flow an edge of the ring, or every single message."
    )


class CheckpointTable(_Table):
    """``[checkpoint]``: saving the state to storage."""

    interval_steps: int | None = Field(
        None, ge=1, description="Steps between checkpoints; default: the closed form's best."
    )
    write: Literal["stated", "measured"] = Field(
        "stated", description="'stated': write_s. 'measured': a flow to the platform's storage."
    )
    write_s: float = Field(58.8, gt=0, le=1e9, description="Seconds to write: 2e13 B at 340 GB/s.")
    failed_writer: Literal["skips", "replaced"] = Field(
        "replaced",
        description="Whether a checkpoint whose writer is down is left out, or the next member "
        "writes it.",
    )


class RestartTable(_Table):
    """``[restart]``: bringing the whole job back after a wipe-out."""

    time: Literal["stated", "modelled"] = Field(
        "stated",
        description="'stated': duration_s. 'modelled': scheduling_s + initialisation_s * "
        "(GPUs / initialisation_gpus) ^ initialisation_exponent.",
    )
    duration_s: float = Field(
        3600.0, gt=0, le=1e9, description="Seconds until a group is up again."
    )
    scheduling_s: float = Field(
        0.0, ge=0, le=1e9, description="Seconds until the job has its machines again."
    )
    initialisation_s: float = Field(
        454.0,
        ge=0,
        le=1e9,
        description="Seconds to start processes and communicators on initialisation_gpus GPUs; "
        "454 s on 2,048 GPUs as ByteRobust (arXiv 2509.16293) measured restarts by requeue.",
    )
    initialisation_gpus: int = Field(2048, ge=1, description="GPUs that initialisation_s is of.")
    initialisation_exponent: float = Field(
        0.25,
        ge=0,
        le=4,
        description="How initialisation grows with GPUs: 454, 545, 635, 768 s on 2,048 to 16,384 "
        "GPUs (ByteRobust) grow by 2^0.25 a doubling.",
    )
    failure_during: Literal["begins-anew", "absorbed"] = Field(
        "absorbed",
        description="'begins-anew': a group that fails during its restart starts over, and all "
        "wait for the slowest. 'absorbed': the restart repairs it in passing.",
    )
    failure_while_waiting: Literal["surfaces", "absorbed"] = Field(
        "absorbed",
        description="'surfaces': a group that fails while it waits for slower ones is found down "
        "by the first step. 'absorbed': the restart repairs it in passing.",
    )
    resume: Literal["redo", "after"] = Field(
        "after",
        description="Whether the step that was checkpointed is done (and saved) once more.",
    )
    load: Literal["included", "measured"] = Field(
        "included",
        description="Whether loading the checkpoint is part of duration_s, or comes on top as "
        "measured on the platform.",
    )
    load_by: Literal["one-group", "every-group"] = Field(
        "one-group",
        description="Measured loads: 'one-group' reads from storage and passes the checkpoint on; "
        "'every-group' reads at once, and all share the storage's bandwidth.",
    )
    controller_s: float = Field(
        0.1,
        ge=0,
        le=1e9,
        description="Seconds of the controller's decision and the shrinking of the communicator.",
    )
    shrink_per_member_s: float = Field(
        0.0,
        ge=0,
        le=1e6,
        description="What the shrinking takes on top for each member that is left.",
    )


class PlatformTable(_Table):
    """``[platform]``: where the job runs."""

    file: str = Field("spare-600k", description="A platform XML, or the name of a shipped cluster.")


class _StrategyTable(_Table):
    """``[strategy]``: the scheme, and a table of named choices for each scheme that has any."""

    name: str = "spare"
    redundancy: int | None = Field(
        None, ge=1, description="Redundancy r; default: the closed form's best."
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
        Field("spare", description="The fault-tolerance scheme."),
    )
    return create_model("StrategyTable", __base__=_StrategyTable, __module__=__name__, **fields)


if TYPE_CHECKING:
    StrategyTable = _StrategyTable
else:
    StrategyTable = _strategy_table()


class Scenario(_Table):
    """One question: a job, its failures, a scheme, and the rules of the game."""

    version: Literal[1] = Field(1, description="Version of this schema.")
    name: str = Field("unnamed", description="Name of the scenario.")
    description: str = Field("", description="What it is for, and where its numbers come from.")
    job: JobTable = Field(default_factory=JobTable)
    strategy: StrategyTable = Field(default_factory=StrategyTable)
    failures: FailuresTable = Field(default_factory=FailuresTable)
    detection: DetectionTable = Field(default_factory=DetectionTable)
    all_reduce: AllReduceTable = Field(default_factory=AllReduceTable)
    checkpoint: CheckpointTable = Field(default_factory=CheckpointTable)
    restart: RestartTable = Field(default_factory=RestartTable)
    platform: PlatformTable = Field(default_factory=PlatformTable)
