"""The time of a recovery, phase by phase."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from faultline.experiments.config.tables.table import ScenarioTable, key, seconds
from faultline.simulator.failures.failure import Transient
from faultline.simulator.job.recovery_times import CommunicatorTime

NCCLX = "NCCLX (arXiv 2510.20171)"
BYTEROBUST = "ByteRobust (arXiv 2509.16293)"
TRAINMOVER = "TrainMover (arXiv 2412.12636)"

Preset = Literal["stock", "scalable", "standby", "in-place", "hot-swap", "published-spare"]
SourceOfMachines = Literal["requeue", "reschedule", "standby", "in-place", "repaired"]

Shortage = Literal["wait", "requeue", "reschedule"]
Detected = Literal["alike", "by-kind"]

DETECTED_S: dict[str, float] = {
    "adapter": 30.0,
    "switch": 60.0,
    "hardware": 10.0,
    "software": 2.0,
    "preemption": 5.6,
}
"""By the level of the failed component if it is listed, else by the kind of the failure."""

_STOCK: dict[str, Any] = {
    "hardware": "requeue",
    "launch_s": 38.6,
    "communicator_s": 5.3,
}
_SCALABLE = {"communicator_s": 0.0}
PRESETS: dict[str, dict[str, Any]] = {
    "stock": _STOCK,
    "scalable": _STOCK | _SCALABLE,
    "standby": _STOCK | {"hardware": "standby", "standbys": 4},
    "in-place": _STOCK | {"hardware": "in-place"},
    "hot-swap": _STOCK
    | {
        "hardware": "standby",
        "standbys": 4,
        "detect_s": 5.6,
        "launch_s": 0.0,
        "communicator_s": 7.0,
    },
    "published-spare": _STOCK | _SCALABLE | {"detect_s": 0.0},
}
"""Values of unset keys by preset; other keys have their own defaults."""

_STOCK_COMMUNICATOR = CommunicatorTime(growth_s=1.01, quadratic_s=0.0177)
_PARALLEL_COMMUNICATOR = CommunicatorTime(growth_s=0.88, exponent=0.72)
_COMMUNICATORS = {
    "scalable": _PARALLEL_COMMUNICATOR,
    "published-spare": _PARALLEL_COMMUNICATOR,
    "hot-swap": CommunicatorTime(),
}
"""Growth of communicators with their ranks under presets without NCCL: NCCLX and TrainMover."""

_PRICE = "by recovery.preset; "


class RecoveryTable(ScenarioTable):
    """``[recovery]``: the times of the phases of a recovery, under any scheme."""

    preset: Preset = key(
        "scalable",
        "Values of the unset keys of this table.",
        "choice: common restarts, with the communicators of the largest operators",
        choices={
            "stock": "the queue replaces evicted machines, all processes restart, and NCCL is "
            "unmodified",
            "scalable": "the same with communicators that are built in parallel (NCCLX)",
            "standby": "standbys replace evicted machines, and all processes restart (ByteRobust)",
            "in-place": "processes restart on the same machines (ByteRobust's hot update)",
            "hot-swap": "a warm standby takes the role of the failed machine; other processes keep "
            "running, and only its connections are rebuilt (TrainMover)",
            "published-spare": "as in SPARe's study: no time for detection and diagnosis, and a "
            "rejoin takes as long as a checkpoint",
        },
    )
    detect_s: float | None = seconds(
        None,
        "Time from the failed all-reduce until the failure is detected. With a watchdog "
        "(detection.mode) it is 0.",
        f"{_PRICE}{BYTEROBUST}: 10 s for a lost GPU",
    )
    detected: Detected = key(
        "alike",
        "Whether all failures are detected in detect_s, or each kind in a time of its own. Of "
        "several failures the last detection counts. It has no effect with a watchdog.",
        "choice: one time; traces and mixes state kinds",
        choices={
            "alike": "detect_s for all",
            "by-kind": f"by inspections: hardware 10 s, an adapter 30, a switch 60, software 2 "
            f"({BYTEROBUST}), a preempted machine 5.6 (Unicron, arXiv 2401.00134); others "
            "detect_s",
        },
    )
    diagnose_s: float = seconds(
        0.0,
        "Time to diagnose which machines must be replaced.",
        "choice: a clear signal; ByteRobust's explicit diagnoses take 120 to 900 s",
    )
    hardware: SourceOfMachines | None = key(
        None,
        "Source of replacement machines in a restart.",
        f"{_PRICE}choice",
        choices={
            "requeue": "the queue, for the whole job: requeue_s; it assigns free_machines",
            "reschedule": "free_machines, for the evicted machines only: reschedule_s",
            "standby": "standbys; if none is left, free_machines: reschedule_s",
            "in-place": "none: the same machines continue",
            "repaired": "the failed machine after its repair, whose time the trace or the mix "
            "states. It is added to the restart, even if that is stated",
        },
    )
    free_machines: int | None = key(
        None,
        "Free machines, in addition to the job's machines and standbys, that replace failed ones. "
        "A repaired machine is free again. Free machines cost nothing. Unset: the machines of the "
        "platform beyond the job's.",
        "derived: the platform's GPUs beyond the job's",
        "1",
        between=(0, 100_000),
        only_with={"recovery.shortage": ["wait"]},
    )
    shortage: Shortage = key(
        "wait",
        "Source of machines if no standby and no free machine is left. A restart whose whole time "
        "is stated has its machines, unless hardware is standby.",
        "choice: no machines appear from nowhere",
        choices={
            "wait": "repairs: the job waits until the missing machines are repaired, after "
            "rejoin.repair_s or as the trace or the mix states",
            "requeue": "the queue of a shared cluster: requeue_s",
            "reschedule": "other machines of a shared cluster: reschedule_s",
        },
    )
    transient: Transient = key(
        "replaced",
        "Restart after software failures alone, under any scheme. A crash of the whole job's "
        "software breaks no machine. It has no effect if times.restart_s is stated.",
        "choice: the cause need not be known",
        choices={
            "replaced": "as after any failure, with replaced machines",
            "in-place": "processes restart on the same machines. If the job fails again before its "
            "next save, the machines are evicted (ByteRobust)",
        },
        rule="transient",
    )
    requeue_s: float = seconds(
        408.0,
        "Time in the queue for a job of 2,048 GPUs. It grows with the GPUs to the power of 0.255.",
        f"derived: {BYTEROBUST}: a requeue takes 454 s there, a hot update in place 46 s of them",
    )
    reschedule_s: float = seconds(
        90.0,
        "Time until other machines have replaced the evicted ones.",
        f"{TRAINMOVER}, table 1: 90 s on 8,192 GPUs",
    )
    standby_s: float = seconds(
        0.0,
        "Time until a standby has replaced a machine.",
        "choice: a standby is loaded and waits at a barrier",
        only_with={"recovery.hardware": ["standby"]},
    )
    standbys: int | None = key(
        None,
        "Standby machines, for restarts and for repairs under schemes that continue without a "
        "restart. The failed machine is a standby once it is repaired. Standbys fail at the rate "
        "of the job's machines.",
        f"{_PRICE}{BYTEROBUST}: 2, 2, 3, 4 for jobs of 128, 256, 512, 1,024",
        "1",
        between=(0, 100_000),
        only_with={"recovery.hardware": ["standby"]},
    )
    replenish_s: float | None = seconds(
        None,
        "Time until another machine replaces a used standby. Unset: the failed machine does, once "
        "it is repaired.",
        f"choice: no machines appear from nowhere; {TRAINMOVER}: as long as a start",
        only_with={"recovery.hardware": ["standby"]},
    )
    launch_s: float | None = seconds(
        None,
        "Time to stop and start processes, to load, and to run the first step.",
        f"{_PRICE}derived: {BYTEROBUST}: hot updates of 46, 51, 54 s on 2,048, 4,096, 8,192 GPUs "
        "less NCCL's communicators (4 % off at most)",
    )
    communicator_s: float | None = seconds(
        None,
        "Time to make a communicator of the fewest ranks. With k thousand ranks it grows by "
        "1.01 k + 0.0177 k^2, or by 0.88 k^0.72 if recovery.preset makes it in parallel; under "
        "hot-swap it does not grow. It takes at most 1.3 s + 0.0875 s per rank (NCCL issue 534).",
        f"{_PRICE}derived: {NCCLX}, figure of 8k, 32k, 96k ranks: NCCL 14.5, 55.7, 265 s, NCCLX "
        "3.97, 11.9, 24.0 s within 9 %",
    )
    warm_up_s: float = seconds(
        0.0,
        "Delay of the first step after processes have started.",
        "choice: included in launch_s; TrainMover measures 66 s on 1,024 and 108 s on 8,192 GPUs",
    )
    time_factor: float = key(
        1.0,
        "Factor on all derived times of recoveries, for the error of the model itself. Whole times "
        "under [times] do not change.",
        "choice: the model as it is; 22 published recoveries over their prediction have a median "
        "error of 12 % and a root mean square of 0.64 in the logarithm",
        "1",
        above=(0, 100),
    )
    spread: float = key(
        0.0,
        "Standard deviation of the logarithm of a random factor, with mean 1, on each recovery.",
        "choice: none; OLMo Hybrid's restarts have a median of 222 s and a mean of 2,334 s, a "
        "spread of 2.2",
        "1",
        between=(0, 4),
    )

    def communicator(self) -> CommunicatorTime:
        """Return the time to make a communicator, by its ranks."""
        growth = _COMMUNICATORS.get(self.preset, _STOCK_COMMUNICATOR)
        return replace(growth, base_s=self.price("communicator_s"))

    def price(self, name: str) -> Any:
        """Return a value: stated, else of the preset, else of `OPEN_PRICES`."""
        stated = getattr(self, name)
        return PRESETS[self.preset].get(name, OPEN_PRICES[name]) if stated is None else stated


OPEN_PRICES: dict[str, float | str] = {
    "detect_s": 10.0,
    "hardware": "requeue",
    "standbys": 0,
    "launch_s": 0.0,
    "communicator_s": 0.0,
}
"""Values of keys that neither the table nor its preset states."""
