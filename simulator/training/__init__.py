"""Training: one loop over steps, and its parts: saver, restarter, machines, interruptions."""

from faultline.simulator.training.loop import Training, TrainingLoop

__all__ = ["Training", "TrainingLoop"]
