"""Numbers of Oobleck's public artifact: throughput by live nodes, and costs of three systems.

Jang et al. 2023 (Oobleck, SOSP 2023), branch sosp23-artifact, commit 5dfe0bb, MIT licence: the
constants of its simulators of Oobleck, Varuna and Bamboo, and the output of its code, for 30 nodes
with one GPU each.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_NODES, LEAST_NODES = 30, 16
SAMPLES_PER_S = (
    5.508, 5.324, 5.141, 4.957, 4.773, 4.809, 4.330, 4.185, 3.947, 4.011, 4.154, 3.712, 3.593,
    3.284, 3.531,
)  # fmt: skip
"""Oobleck, GPT-3 6.7B, with 30 nodes down to 16; 15 are too few to train. The artifact interpolates
the values of 27 and 29 nodes and some others from 25 nodes on."""

START_S = 45.0
"""Time until machines are available at the start, for all three systems."""

VARUNA_INTERVAL_STEPS = 10
BAMBOO_GLOBAL_S = 30.0
BAMBOO_SLOWDOWN = 1.5
BAMBOO_REDUNDANT_SHARE = 0.803
"""Share of Bamboo's time that its simulator counts as redundant, for all models."""


@dataclass(frozen=True, slots=True)
class ArtifactCosts:
    """Costs of a loss under each system, in seconds."""

    oobleck_s: float  # Re-forming pipelines, without the repeated step.
    varuna_save_s: float  # A checkpoint, every 10 steps.
    varuna_restart_s: float  # A restart, including saving.
    bamboo_local_s: float  # A local rendezvous.
    bamboo_own_local_s: float  # The same in the simulator published by Bamboo's authors.


ARTIFACT_COSTS = {
    # Varuna restarts BERT-large in 49 to 112 s; this is the midpoint.
    "BERT-large": ArtifactCosts(2.0, 15.8, 80.5, 76.0, 20.0),
    "GPT-2": ArtifactCosts(2.0, 11.5, 83.0, 80.0, 20.0),
    "medium": ArtifactCosts(3.0, 11.2, 78.7, 100.0, 10.0),
    "2.7B": ArtifactCosts(6.0, 50.0, 515.0, 230.0, 5.0),
    "6.7B": ArtifactCosts(10.0, 120.0, 701.0, 450.0, 5.0),
}
"""The preset ``oobleck-artifact``, by model."""
