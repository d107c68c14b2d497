"""What the code of Oobleck's artifact prints: effective time and throughput by model and rate.

Jang et al. 2023 (Oobleck, SOSP 2023), branch sosp23-artifact, commit 5dfe0bb. BERT-large at 10 min
is in its README too, with the same values.
"""

from __future__ import annotations

INTERVALS = {"6 h": 21_600.0, "3 h": 10_800.0, "1 h": 3_600.0, "30 min": 1_800.0, "10 min": 601.2}
"""Seconds from one loss of a node to the next. Fifteen nodes are lost, one at a time."""

MODELS = ("BERT-large", "GPT-2", "medium", "2.7B", "6.7B")

EFFECTIVE_PERCENT: dict[tuple[str, str], tuple[float | None, ...]] = {
    ("oobleck", "BERT-large"): (99.9, 99.7, 99.2, 98.4, 95.5),
    ("oobleck", "GPT-2"): (99.9, 99.9, 99.6, 99.3, 97.9),
    ("oobleck", "medium"): (99.9, 99.7, 99.2, 98.4, 95.4),
    ("oobleck", "2.7B"): (99.7, 99.3, 98.1, 96.2, 89.8),
    ("oobleck", "6.7B"): (98.9, 97.9, 94.1, 89.3, 75.9),
    ("varuna", "BERT-large"): (93.6, 91.0, 84.4, 76.8, 54.4),
    ("varuna", "GPT-2"): (87.3, 86.4, 83.7, 80.2, 67.0),
    ("varuna", "medium"): (92.3, 91.6, 85.0, 83.8, 57.3),
    ("varuna", "2.7B"): (82.7, 78.1, 67.1, 56.6, 28.5),
    ("varuna", "6.7B"): (80.0, 73.9, 49.9, 35.3, 27.4),
    ("bamboo", "BERT-large"): (19.6, None, None, None, 15.0),
    ("bamboo", "GPT-2"): (19.6, None, None, None, 16.0),
}
"""Effective time by system and model, in per cent, in the order of `INTERVALS`."""

SAMPLES_PER_S: dict[tuple[str, str], tuple[float | None, ...]] = {
    ("oobleck", "BERT-large"): (287, 287, 286, 285, 282),
    ("oobleck", "GPT-2"): (85.6, 85.6, 85.4, 85.2, 84.8),
    ("oobleck", "medium"): (29.3, 29.3, 29.2, 29.1, 28.7),
    ("oobleck", "2.7B"): (7.29, 7.28, 7.23, 7.18, 6.89),
    ("oobleck", "6.7B"): (4.33, 4.31, 4.22, 4.11, 3.55),
    ("varuna", "BERT-large"): (260, 256, 246, 233, 174),
    ("varuna", "GPT-2"): (86.5, 86.2, 85.2, 83.4, 76.4),
    ("varuna", "medium"): (29.5, 29.4, 28.5, 27.9, 20.2),
    ("varuna", "2.7B"): (7.27, 7.12, 6.54, 5.83, 1.76),
    ("varuna", "6.7B"): (4.14, 3.96, 2.69, 1.06, 0.26),
    ("bamboo", "BERT-large"): (77, None, None, None, 70),
    ("bamboo", "GPT-2"): (17.5, None, None, None, 16.0),
}
"""Mean throughput, likewise. Bamboo runs out of memory with the other models."""

WHOLE_STEPS_67B = (1_369, 681, 222, 108, 31)
"""Steps of 6.7B that Oobleck completes, by interval."""
