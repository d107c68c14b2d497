"""The printed numbers of Arfeen et al. 2025 (arXiv 2504.06095), and of the Llama 3 report.

Where the paper prints a bound ("up to 12 %"), the bound stands here.
"""

from __future__ import annotations

AVAILABILITY_TP64 = 0.94
"""Share of the cluster left at 0.1 % failed GPUs, in domains of 64."""

HIGH_TP_LOSS = 0.10
"""Throughput that a high-TP job loses at 0.1 % failed GPUs: "nearly 10 %"."""

MOST_LOSS = {"dp-drop": 0.12, "ntp": 0.03, "ntp-pw": 0.01}
"""Throughput lost at 0.4 % failed GPUs, packed: up to 12 %, up to 3 %, under 1 %."""

TRACE_SHARE_ABOVE = 0.81
"""Share of a 15-day trace with more than 0.1 % failed GPUs."""

TRACE_PEAK_GPUS = 72
"""Most failed GPUs of that trace: about 0.22 %."""

TRIPLE_RATE_PEAK_RATIO = 2.0
"""Peak at three times the failure rate over that at the rate itself."""

TRIPLE_RATE_AVAILABILITY = 0.80
"""To which availability goes down at three times the rate."""

SPARE_DOMAINS = {"dp-drop": 90, "ntp": 16, "ntp-pw": 0}
"""Spare domains that keep the batch through the trace, repair in 5 days."""

BACKWARD_SLOWDOWN = 0.04
"""Resharding slows the backward pass by at most this share."""

PERFORMANCE_PER_WATT_LOSS = {1.1: 0.028, 1.2: 0.065}
"""Performance per watt lost at a power over TDP (TP30)."""

UTILISATION = {32: 0.87, 8: 0.68}
"""Of a GPU at 32K GPUs, by the size of scale-up domains, with sequences of 8K."""

TDP_W = 1200.0
"""Of a GPU of GB200, in watts: a rack is fed for all of its GPUs."""

INTERRUPTIONS = 419
OBSERVED_DAYS = 54
OBSERVED_GPUS = 16_384
"""Unexpected interruptions of Llama 3's pretraining (Grattafiori et al. 2024, table 5)."""
