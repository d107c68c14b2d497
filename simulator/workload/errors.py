"""The error for a model, a layout or a machine that is impossible."""

from __future__ import annotations


class WorkloadError(ValueError):
    """A model, layout or machine is impossible; one line says what would be right."""


def require_positive(where: str, **values: float) -> None:
    """Check that values are above zero.

    Raises
    ------
    WorkloadError
        One is not.
    """
    for name, value in values.items():
        if not value > 0:
            raise WorkloadError(f"{where}: {name} is {value}: it must be above 0")
