"""What a recovery takes: prices of its phases, and recoveries whose time is stated whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from faultline.experiments.config.tables.table import Table, key, seconds
from faultline.simulator.job import Transient
from faultline.simulator.recovery_times import CommunicatorTime

NCCLX = "NCCLX (arXiv 2510.20171)"
BYTEROBUST = "ByteRobust (arXiv 2509.16293)"
TRAINMOVER = "TrainMover (arXiv 2412.12636)"

Preset = Literal["stock", "scalable", "standby", "in-place", "hot-swap", "published-spare"]
Hardware = Literal["requeue", "reschedule", "standby", "in-place", "repaired"]

Shortage = Literal["wait", "requeue", "reschedule"]
Detected = Literal["alike", "by-kind"]

DETECTED_S: dict[str, float] = {
    "adapter": 30.0,
    "switch": 60.0,
    "hardware": 10.0,
    "software": 2.0,
    "preemption": 5.6,
}
"""By what has failed: its level where that is named, else its kind."""

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
"""What a preset says of the keys that are left open; the rest have their own defaults."""

_STOCK_COMMUNICATOR = CommunicatorTime(growth_s=1.01, quadratic_s=0.0177)
_PARALLEL_COMMUNICATOR = CommunicatorTime(growth_s=0.88, exponent=0.72)
_COMMUNICATORS = {
    "scalable": _PARALLEL_COMMUNICATOR,
    "published-spare": _PARALLEL_COMMUNICATOR,
    "hot-swap": CommunicatorTime(),
}
"""How communicators grow with their ranks where that is not as of NCCL: NCCLX, and TrainMover."""

_PRICE = "by recovery.preset; "


class RecoveryTable(Table):
    """``[recovery]``: what the phases of a recovery take, whichever scheme needs them."""

    preset: Preset = key(
        "scalable",
        "What holds for the keys of this table that are left open.",
        "choice: restarts as most operate them, communicators as those make them who run at scale",
        choices={
            "stock": "the evicted are replaced by the queue, all processes start anew, NCCL as it "
            "comes",
            "scalable": "the same with communicators that are made in parallel (NCCLX)",
            "standby": "standbys take the places, all processes start anew (ByteRobust)",
            "in-place": "processes start anew on the same machines (ByteRobust's hot update)",
            "hot-swap": "a warm standby takes the place and role of what failed, processes live "
            "on, and only its connections are made anew (TrainMover)",
            "published-spare": "as in SPARe's study: nothing is detected or diagnosed, and groups "
            "come back as long as a checkpoint is written",
        },
    )
    detect_s: float | None = seconds(
        None,
        "Time from a failure to where the job knows of it, beyond the all-reduce in which it "
        "shows; none where a watchdog waits for it (detection.mode).",
        f"{_PRICE}{BYTEROBUST}: 10 s for a lost GPU",
    )
    detected: Detected = key(
        "alike",
        "Whether every failure is detected in detect_s, or sooner or later by what has failed. Of "
        "several at once the last counts. None is detected where a watchdog waits.",
        "choice: one price; traces and mixes say what has failed",
        choices={
            "alike": "detect_s, whatever it is",
            "by-kind": f"by inspections: hardware 10 s, an adapter 30, a switch 60, software 2 "
            f"({BYTEROBUST}), a machine taken away 5.6 (Unicron, arXiv 2401.00134); the rest "
            "detect_s",
        },
    )
    diagnose_s: float = seconds(
        0.0,
        "Time until it is known what has to go.",
        "choice: a clear signal; ByteRobust's explicit diagnoses take 120 to 900 s",
    )
    hardware: Hardware | None = key(
        None,
        "Where other machines come from in a restart.",
        f"{_PRICE}choice",
        choices={
            "requeue": "the whole job goes through the queue, which gives free_machines: requeue_s",
            "reschedule": "free_machines for the evicted only: reschedule_s",
            "standby": "standbys, as long as there are any; then free_machines: reschedule_s",
            "in-place": "the same machines go on",
            "repaired": "what failed itself, once it is repaired, as the trace or the mix says of "
            "that failure: on top of the restart, even where its time is stated",
        },
    )
    free_machines: int | None = key(
        None,
        "Machines, beyond the job's and its standbys, that it gets in the places of failed ones; "
        "each is free again once it is repaired. Nobody pays for them while they are free. Unset: "
        "those of the platform beyond the job's.",
        "derived: the platform's GPUs beyond the job's",
        "1",
        between=(0, 100_000),
        only_with={"recovery.shortage": ["wait"]},
    )
    shortage: Shortage = key(
        "wait",
        "Where machines come from when there is no standby and no free machine left. A restart "
        "whose whole time is stated has its machines, unless hardware is standby.",
        "choice: nothing comes from nowhere",
        choices={
            "wait": "from the repair: the job waits for as many as it lacks, each repaired after "
            "rejoin.repair_s, or as the trace or the mix says of its failure",
            "requeue": "from the queue of a cluster that is shared with others: requeue_s",
            "reschedule": "from a cluster that is shared with others: reschedule_s",
        },
    )
    transient: Transient = key(
        "replaced",
        "What a restart does after failures of software alone; only where its time is modelled.",
        "choice: nobody has to know the cause",
        choices={
            "replaced": "the same as after any other: other machines, by hardware",
            "in-place": "processes start on the same machines; if the job fails again before it "
            "has saved anything, the machines are evicted (ByteRobust)",
        },
        rule="transient",
    )
    requeue_s: float = seconds(
        408.0,
        "Time in the queue of a job of 2,048 GPUs; it grows with the number of GPUs to the 0.255.",
        f"derived: {BYTEROBUST}: a requeue takes 454 s there, a hot update in place 46 s of them",
    )
    reschedule_s: float = seconds(
        90.0,
        "Time until other machines have taken the places of the evicted.",
        f"{TRAINMOVER}, table 1: 90 s on 8,192 GPUs",
    )
    standby_s: float = seconds(
        0.0,
        "Time until a standby is in its place.",
        "choice: it waits at a barrier, loaded",
        only_with={"recovery.hardware": ["standby"]},
    )
    standbys: int | None = key(
        None,
        "Machines that stand by: for restarts, and for every failure where groups come back at "
        "checkpoints or what is broken is worked around. Each is there again after "
        "replenish_s; they fail as often as machines of the job do.",
        f"{_PRICE}{BYTEROBUST}: 2, 2, 3, 4 for jobs of 128, 256, 512, 1,024",
        "1",
        between=(0, 100_000),
        only_with={"recovery.hardware": ["standby"]},
    )
    standbys_quantile: float | None = key(
        None,
        "As many standbys as machines fail on this share of days, or fewer (binomial); unset: "
        "standbys.",
        f"choice: a stated number; {BYTEROBUST}: 0.99",
        "1",
        between=(0, 0.999999),
        only_with={"recovery.hardware": ["standby"]},
    )
    replenish_s: float | None = seconds(
        None,
        "Time until there is another standby in the place of one that was used; unset: "
        "rejoin.repair_s.",
        f"choice: the machine that failed, repaired; {TRAINMOVER}: as long as a start",
        only_with={"recovery.hardware": ["standby"]},
    )
    launch_s: float | None = seconds(
        None,
        "Time to stop and start processes, to load, and of the first step.",
        f"{_PRICE}derived: {BYTEROBUST}: hot updates of 46, 51, 54 s on 2,048, 4,096, 8,192 GPUs "
        "less NCCL's communicators (4 % off at most)",
    )
    communicator_s: float | None = seconds(
        None,
        "Time to make a communicator of the fewest ranks. With k thousand ranks it grows by "
        "1.01 k + 0.0177 k^2, by 0.88 k^0.72 where recovery.preset makes it in parallel, by none "
        "under hot-swap; it takes at most 1.3 s + 0.0875 s a rank (NCCL issue 534).",
        f"{_PRICE}derived: {NCCLX}, figure of 8k, 32k, 96k ranks: NCCL 14.5, 55.7, 265 s, theirs "
        "3.97, 11.9, 24.0 s within 9 %",
    )
    warm_up_s: float = seconds(
        0.0,
        "What the first step after processes have started takes longer.",
        "choice: part of launch_s; TrainMover measures 66 s on 1,024 and 108 s on 8,192 GPUs",
    )
    spread: float = key(
        0.0,
        "Standard deviation of the logarithm of a factor on each recovery, of mean 1.",
        "choice: none; OLMo Hybrid's restarts have a median of 222 s and a mean of 2,334 s, "
        "which is 2.2",
        "1",
        between=(0, 4),
    )

    def communicator(self) -> CommunicatorTime:
        """Return the time to make a communicator, by its ranks."""
        growth = _COMMUNICATORS.get(self.preset, _STOCK_COMMUNICATOR)
        return replace(growth, base_s=self.price("communicator_s"))

    def price(self, name: str) -> Any:
        """Return a price: stated, by the preset, or, where that leaves it open, none."""
        stated = getattr(self, name)
        return PRESETS[self.preset].get(name, OPEN_PRICES[name]) if stated is None else stated


OPEN_PRICES: dict[str, float | str] = {
    "detect_s": 10.0,
    "hardware": "requeue",
    "standbys": 0,
    "launch_s": 0.0,
    "communicator_s": 0.0,
}
"""What holds of a key that neither the table nor its preset says anything of."""
