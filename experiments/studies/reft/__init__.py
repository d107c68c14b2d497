"""REFT's published numbers, and what no paper has: cheap snapshots beneath schemes that mask."""
