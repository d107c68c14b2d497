"""What operators and other simulators report: a value where it is given, and how near to come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Test = Literal["point", "band", "at least", "calibrated", "unknown", "ours"]


@dataclass(frozen=True, slots=True)
class Output:
    """A published output.

    Attributes
    ----------
    setting, quantity : str
        Which one: a row of the study has the same.
    published : float or None
        Its value; None where it was not given to whoever wrote this.
    within : float
        How far off a simulated value may be, in the quantity's unit.
    test : str
        "point": within `within`; "band": between the ends of what is swept; "at least": the
        published value is a bound; "calibrated": something was chosen by this very value;
        "unknown": an input is missing; "ours": nothing is published.
    note : str
        What is not stated, or why it is missed.
    unit : str
        Its unit; "1" for shares.
    """

    setting: str
    quantity: str
    published: float | None
    within: float = 0.03
    test: Test = "point"
    note: str = ""
    unit: str = "1"


_EXPONENTIAL = "gaps at random: failures while the job is down cost nothing more"
_RATES = (
    "a job of a shared cluster: some nodes fail again and again, and restarted jobs meet them "
    "again; independent nodes at the fleet's mean rate cannot show that"
)
_QUORUM = "swept: join timeout, part of the step that averages, first heartbeat"
_LOOP = "the loop's replica drop: no quorum; who is killed while it starts is away no longer"
_READING = (
    "stated probabilities of a repair fixed a bad server in the other order: by these three rows"
)
_T = "the step's length is from this cell"


def _torchft() -> Iterator[Output]:
    values: Mapping[str, tuple[float, float, str]] = {
        "commits": (0.823, 0.03, "1"),
        "mean step": (10.9, 1.0, "s"),
        "mean groups": (29.6, 0.3, "groups"),
        "efficiency": (0.812, 0.03, "1"),
    }
    for quantity, (value, within, unit) in values.items():
        kind: Test = "band" if quantity == "mean step" else "point"
        yield Output("B1", quantity, value, within, kind, _QUORUM, unit)
        yield Output("B2", quantity, None, within, note=_QUORUM, unit=unit)
    for row in ("B1", "B2"):
        for quantity, published in (("commits", 0.823), ("mean groups", 29.6)):
            value, within, unit = values[quantity]
            known = published if row == "B1" else None
            yield Output(f"{row} loop", quantity, known, within, note=_LOOP, unit=unit)
    yield Output("B3", "tokens/s", None, test="band", note="swept: averaging, gap of kills")


def _blocked() -> Iterator[Output]:
    kept: Mapping[str, float | None] = {
        "D3 Megatron 128": 0.3984,
        "D3 Megatron 256": 0.3911,
        "D3 memory 128": 0.7005,
        "D3 memory 256": 0.7236,
        "D3 ByteRobust 128": 0.9923,
        "D3 ByteRobust 256": 0.9912,
        "D4 Megatron 512": 0.4307,
        "D4 Megatron 1,024": None,
        "D4 memory 512": None,
        "D4 memory 1,024": None,
        "D4 ByteRobust 512": None,
        "D4 ByteRobust 1,024": None,
    }
    for setting, share in kept.items():
        fitted = setting in {"D3 Megatron 128", "D4 Megatron 512"}
        kind: Test = "calibrated" if fitted else "point"
        yield Output(setting, "share", share, 0.015, kind, _T if fitted else "")


def _moves() -> Iterator[Output]:
    unplanned = {32: 19.6, 128: 20.2, 256: 20.4, 512: 20.4, 1024: None}
    planned = {32: 11.5, 128: 14.5, 256: 15.5, 512: 14.2, 1024: None}
    restart = {32: 80.0, 128: 190.0, 256: 230.0, 512: 260.0, 1024: None}
    for gpus, known_s in unplanned.items():
        setting = f"{gpus:,} GPUs"
        yield Output(f"F1 unplanned {setting}", "seconds", known_s, 3.0, unit="s")
        yield Output(
            f"F1 planned {setting}",
            "seconds",
            planned[gpus],
            3.0,
            note="an unplanned move less its detection",
            unit="s",
        )
        yield Output(
            f"F1 Megatron restart {setting}",
            "seconds",
            restart[gpus],
            test="unknown",
            note="which model is not said: without loading it",
            unit="s",
        )
    yield Output("F2", "ETTR", None)


def _pools() -> Iterator[Output]:
    yield Output("G1", "ETR", 0.6228, 0.005)
    yield Output("G1", "failures", 11_146, 223, unit="failures")
    yield Output("G1", "selections", 42.9, 4.3, unit="selections")
    yield Output(
        "G1",
        "spares pulled",
        13.9,
        4.0,
        note="17 whenever the pool runs short: in all of our runs, in four of five of theirs",
        unit="servers",
    )
    yield Output("G1 10 min", "ETR", None, 0.005)
    yield Output("G1 pool 4,132 without spares", "ETR", None, 0.005)
    hours = {"G2": 2215.0, "G2 factor 1": 1572.0, "G2 recovery 5 min": 487.0}
    for setting, value in hours.items():
        yield Output(setting, "hours", value, 0.02 * value, "calibrated", _READING, unit="h")
    for setting in ("G2 factor 10", "G2 recovery 20 min", "G2 bad 20 %"):
        yield Output(setting, "hours", None, unit="h")


def _spare_nodes() -> Iterator[Output]:
    known = {"G3 30": 0.796, "G3 10": 0.627, "G3 90": 0.849, "G3 240": 0.803}
    for setting, goodput in known.items():
        yield Output(setting, "goodput", goodput, 0.015)
    withheld = ("15", "60", "300", "no spares", "saves of 0.5 min every 29.5", "32 nodes at 600 h")
    for setting in withheld:
        yield Output(f"G3 {setting}", "goodput", None, 0.015)


def _artifact() -> Iterator[Output]:
    for gap, steps in (("6 h", 1369), ("3 h", 681), ("1 h", 222), ("30 min", 108), ("601.2 s", 31)):
        yield Output(f"G4 {gap}", "steps", steps, 1.0, unit="steps")


def outputs() -> tuple[Output, ...]:
    """Return all of them, in the order in which they are shown."""
    band: Test = "band"
    return (
        Output("A1", "ETTR", 0.70),
        Output("A2", "ETTR", None),
        Output("A3", "ETTR", 0.90, 0.02),
        Output("A4", "ETTR", None),
        Output("A5", "ETTR", 0.90, test="at least", note="swept: GPUs, queue 0 to 10 min"),
        Output("A6 16,384 GPUs", "hours", 1.8, 0.1, unit="h"),
        Output("A6 131,072 GPUs", "hours", 0.23, 0.012, unit="h"),
        Output("A6 1,024 GPUs", "hours", 7.9, 0.24, note=_RATES, unit="h"),
        *_torchft(),
        Output("C1", "ETTR", 8 / 18, 0.01),
        Output("C2", "ETTR", (8 + 7 * 11 / 12) / 18, 0.01),
        Output("C1 exponential gaps", "ETTR", None, test="ours", note=_EXPONENTIAL),
        Output("C2 exponential gaps", "ETTR", None, test="ours", note=_EXPONENTIAL),
        Output("D1", "ETTR", 0.97, test="at least", note="swept: locating, standbys, rollback"),
        Output(
            "D2",
            "ETTR",
            0.91,
            test=band,
            note="published second-hand; 31 changes of code and 14 rollbacks cost their restart "
            "here, and not the hours in which people look for what is wrong",
        ),
        *_blocked(),
        Output("E1", "ETTR", 0.90, test=band, note="more than; swept: restart, interval, write"),
        Output("E2", "ETTR", 0.90, test=band, note="more than; swept: weeks, restarts, tail"),
        Output("E3", "share", 0.033, test=band, note="half of what is not computing"),
        Output("E4", "share", 0.924, test=band, note="swept: restart, deaths, hangs unseen"),
        Output("E5", "share", None, 0.04),
        Output("E6", "share", None, 0.04),
        Output("E7", "share", None, 0.04),
        Output("E8", "share", 0.61, test=band, note="swept: 1 to 12 h a restart, interval"),
        Output("E9", "share", 0.97, test=band, note="swept: 4 to 9 stops"),
        *_moves(),
        *_pools(),
        *_spare_nodes(),
        *_artifact(),
    )
