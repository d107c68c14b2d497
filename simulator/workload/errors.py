"""The error for a model, a layout or a machine that is impossible."""

from __future__ import annotations


class WorkloadError(ValueError):
    """A model, layout or machine is impossible; one line says what would be right."""
