"""Recoveries that were measured, and what of their phases is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["fitted", "stated", "predicted"]


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured recovery.

    Attributes
    ----------
    system, event : str
        Who measured it, and what happened.
    gpus : int
        GPUs of the job.
    seconds : float or (float, float)
        How long it took, or between what.
    recovery : {"restart", "communicators"}
        What it is in the model.
    prices : mapping of str to value
        Keys of ``[recovery]`` that its source says, or a preset.
    role : {"fitted", "predicted"}
        Whether a price was derived from this very number.
    """

    system: str
    event: str
    gpus: int
    seconds: float | tuple[float, float]
    recovery: Literal["restart", "communicators"] = "restart"
    prices: Mapping[str, Any] = field(default_factory=dict)
    role: Role = "predicted"

    @property
    def band_s(self) -> tuple[float, float]:
        """Least and greatest published value, in seconds."""
        return self.seconds if isinstance(self.seconds, tuple) else (self.seconds, self.seconds)


# Requests to resumed jobs: what is detected before does not count (arXiv 2509.16293).
_REQUEST = {"detect_s": 0.0}
# Table 1 of TrainMover (arXiv 2412.12636): cleaning up 31 s, other machines 90 s. Loading takes
# 104 s and the communicators of all groups 51 s on 1,024 GPUs, where the first step is 66 s longer,
# 44 s on 64 GPUs: 22 s more in four doublings.
_MEGATRON: dict[str, Any] = {
    "preset": "stock",
    "detect_s": 0.0,
    "abort_s": 31.0,
    "hardware": "reschedule",
    "reschedule_s": 90.0,
    "launch_s": 104.0,
    "communicator_s": 50.0,
    "communicator_growth_s": 1.01,
}
_WARM_UP_S, _WARM_UP_A_DOUBLING_S = 66.0, 5.5
# Detection of a lost node (Unicron, arXiv 2401.00134), communicators as a delta, and the copy of
# one machine's state, 6 to 9 s at any size (TrainMover).
_TRAINMOVER = {"preset": "hot-swap", "launch_s": 7.5}
# AWS checkpointless training: all that is neither queue nor communicator, from 16 GPUs.
_AWS_RESTART = {"preset": "in-place", "detect_s": 0.0, "launch_s": 310.0 - 2.7}
_AWS_IN_PROCESS = {"preset": "in-place", "detect_s": 0.0, "launch_s": 50.0 - 2.7}


def _byterobust() -> list[Measured]:
    sizes = (2048, 4096, 8192, 16_384)
    cases = []
    for event, preset, seconds in (
        ("requeue", "stock", (454.0, 545.0, 635.0, 768.0)),
        ("hot update", "in-place", (46.0, 51.0, 54.0, 65.0)),
    ):
        for gpus, taken_s in zip(sizes, seconds, strict=True):
            prices = {"preset": preset, **_REQUEST}
            role: Role = "predicted" if gpus == sizes[-1] else "fitted"
            cases.append(Measured("ByteRobust", event, gpus, taken_s, "restart", prices, role))
    standby = {"preset": "standby", **_REQUEST}
    rescheduled = {"preset": "stock", "hardware": "reschedule", **_REQUEST}
    # 10.87 and 5.36 times faster than the requeue of 768 s says its figure.
    return [
        *cases,
        Measured("ByteRobust", "standby", sizes[-1], 768 / 10.87, prices=standby),
        Measured("ByteRobust", "reschedule", sizes[-1], 768 / 10.87 * 5.36, prices=rescheduled),
    ]


def _megatron(gpus: int, doublings: int, seconds: float) -> Measured:
    warm_up_s = _WARM_UP_S + _WARM_UP_A_DOUBLING_S * doublings
    prices = _MEGATRON | {"warm_up_s": warm_up_s}
    return Measured("TrainMover", "restart of Megatron-LM", gpus, seconds, prices=prices)


MEASURED: tuple[Measured, ...] = (
    *_byterobust(),
    _megatron(8192, 3, 388.0),
    *(
        Measured("TrainMover", "standby takes the role", gpus, seconds, prices=_TRAINMOVER)
        for gpus, seconds in ((32, 19.6), (128, 20.2), (256, 20.4), (512, 20.4), (1024, 21.1))
    ),
    Measured("AWS", "restart", 16, 310.0, prices=_AWS_RESTART, role="fitted"),
    Measured("AWS", "restart", 256, 292.0, prices=_AWS_RESTART),
    Measured("AWS", "restart", 2304, (900.0, 1800.0), prices=_AWS_RESTART),
    Measured("AWS", "in process", 16, 50.0, prices=_AWS_IN_PROCESS, role="fitted"),
    Measured("AWS", "in process", 256, 47.0, prices=_AWS_IN_PROCESS),
    Measured("AWS", "in process", 2304, (0.0, 120.0), prices=_AWS_IN_PROCESS),
    *(
        Measured("NCCLX", "NCCL's communicator", gpus, s, "communicators", role="fitted")
        for gpus, s in ((8000, 14.5), (32_000, 55.7), (96_000, 265.0))
    ),
    *(
        Measured(
            "NCCLX", "its communicator", g, s, "communicators", {"preset": "scalable"}, "fitted"
        )
        for g, s in ((8000, 3.97), (32_000, 11.9), (96_000, 24.0))
    ),
    *(
        Measured("FT-HSDP", "communicators", gpus, seconds, "communicators")
        for gpus, seconds in ((16_000, 17.0), (22_000, 30.0), (64_000, 100.0), (98_000, 200.0))
    ),
    Measured("FT-HSDP", "cold restart", 64_000, 600.0),
    Measured("SPARe", "restart", 600_000, 3600.0, prices={"preset": "scalable"}),
)
"""All of them, in the order in which they are shown. FT-HSDP is arXiv 2602.00277, its cold restart
read off a figure; SPARe's (arXiv 2603.00357) is what its authors assume."""

OOBLECK_LOSES_S, OOBLECK_GAINS_S = 57.0, 100.0
"""Oobleck, 6.7B on 32 GPUs, measured by TrainMover: to lose a machine, and at least to gain one."""
