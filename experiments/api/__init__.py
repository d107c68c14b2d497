"""Faultline: which fault-tolerance scheme trains this model soonest on this cluster.

The packages below mirror the folders of the project: ``faultline.platforms``,
``faultline.simulator``, ``faultline.strategies`` and ``faultline.experiments``.
"""
