"""Drawings of platforms: what is drawn (`sketch`), where (`layout`), and how (`render`)."""

from experiments.platform_drawing.render import draw_platform

__all__ = ["draw_platform"]
