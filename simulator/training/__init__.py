"""Training: one loop over steps, and the parts that save, restart, count machines and react."""

from faultline.simulator.training.loop import Training, TrainingLoop

__all__ = ["Training", "TrainingLoop"]
