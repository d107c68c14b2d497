"""What is done about each kind of failure, and how failures depend on each other."""

from __future__ import annotations

from typing import Literal

from faultline.experiments.config.tables.table import Table, key, seconds

_MIXES = {"failures.model": "mix"}
_SEQUENCES = {"failures.model": ("mix", "trace")}


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
    redeal_s: float = seconds(
        0.1,
        "Time for which all wait while micro-batches are dealt anew.",
        "Greyhound (ATC 2025): its solver takes 0.01 s for 64 replicas, 0.1 for 128, 6.8 for 256",
        only_with={**_SEQUENCES, "failures.kinds.slow": ("redeal", "swap", "ski-rental")},
    )
    swap_s: float = seconds(
        60.0,
        "Time for which all wait while nodes change places.",
        "Greyhound (ATC 2025): less than 60 s, by the memory of a GPU, not by their number",
        only_with={**_SEQUENCES, "failures.kinds.slow": ("swap", "ski-rental")},
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
            "wait": "it is done with the next restart",
        },
        only_with=_SEQUENCES,
    )
    migrate_s: float = seconds(
        20.0,
        "Time for which all wait while a machine takes over from one that gave notice.",
        "TrainMover (OSDI 2026, arXiv 2412.12636): at most 20 s; 11.5 to 16.6 of planned moves",
        only_with={**_SEQUENCES, "failures.kinds.planned": "migrate"},
    )
    planned_limit_s: float = seconds(
        86_400.0,
        "How long after the notice maintenance waits for a restart at most.",
        "ByteRobust (arXiv 2509.16293): code changes wait for a failure, at most 24 h",
        above=(0, 1e9),
        only_with={**_SEQUENCES, "failures.kinds.planned": "wait"},
    )
    validation_share: float = key(
        0.0,
        "Share of all compute that is done once more to find silent corruption.",
        "choice: nobody looks; Gemini 2.5 (arXiv 2507.06261) replays 0.25 % of steps",
        "1",
        between=(0, 1),
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
    recurrence: float = key(
        0.0,
        "Probability that a repair has not found the culprit, and the failure comes again.",
        "choice: repairs help; restart chains of 6 tries (Lablup) mean 0.2 to 0.7",
        "1",
        between=(0, 1),
        only_with=_MIXES,
    )
    recurs_after_s: float = seconds(
        660.0,
        "Mean of the exponential time from where the component is up until it fails again.",
        "Lablup (504 B200): an automatic restart every 11 min",
        above=(0, 1e9),
        only_with=_MIXES,
    )
    recurs_at_most: int = key(
        6,
        "Times in a row that it comes again; then all around it is replaced.",
        "Lablup (504 B200): 73 tries in 12 chains",
        "1",
        between=(1, 1000),
        only_with=_MIXES,
    )
