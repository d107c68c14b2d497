"""Drawings of platforms: what is drawn (`sketch`), where (`layout`), and how (`render`)."""

from faultline.experiments.figures.platform.render import draw_platform

__all__ = ["draw_platform"]
