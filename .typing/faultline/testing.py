"""A test of schemes that are not part of Faultline.

::

    from faultline.testing import check_scheme

    def test_it_is_a_scheme():
        check_scheme(MyScheme)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from faultline.experiments.config.errors import SchemeError

if TYPE_CHECKING:
    from faultline.strategies.interface.scheme import Strategy, StrategyOptions

__all__ = ["SchemeError", "check_scheme"]


def check_scheme(
    scheme: type[Strategy],
    *,
    groups: int = 24,
    options: StrategyOptions | None = None,
    engines: bool = True,
) -> None:
    """Check the laws of schemes, as scikit-learn's ``check_estimator`` does for estimators.

    The check calls the scheme's methods for thousands of failures, then runs short jobs on both
    engines. It prints the laws that the scheme keeps, each with its name; pytest shows them with
    ``-s``. They are listed in `faultline.experiments.plugins.laws` and `job_laws`.

    Parameters
    ----------
    scheme : type
        The class.
    groups : int
        Data-parallel groups of the jobs.
    options : StrategyOptions, optional
        Options of the scheme; by default the scheme's own defaults.
    engines : bool
        Whether to run jobs too, which takes seconds and needs SimGrid.

    Raises
    ------
    SchemeError
        Names the law that the scheme breaks, and how.
    """
    # The file of a scheme may import this module while Faultline is still looking for schemes.
    from faultline.experiments.plugins.checking import check_scheme as check

    check(scheme, groups=groups, options=options, engines=engines)
