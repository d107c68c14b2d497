"""Clusters: their specs, and the SimGrid platforms that are written from them and read back.

This package does not import SimGrid: `simgrid_check` runs it in a separate process.
"""
