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
    """Check the contract of a scheme, as scikit-learn's ``check_estimator`` does for estimators.

    The check calls the scheme's methods for thousands of failures, then runs a short job on both
    engines. It checks:

    - the class attributes, the offered redundancies and the first plan;
    - each verdict and plan, by the contract of the training loop;
    - conservation: no plan trains more than its members compute;
    - a verdict depends on the failures alone, changes only its own scheme, and can be pickled;
    - a restart resets all state, and returned groups and repaired components leave none;
    - both engines have the same events.

    It prints what it has checked; pytest shows that with ``-s``.

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
        Names the broken rule and the calls that led to it.
    """
    # The file of a scheme may import this module while Faultline is still looking for schemes.
    from faultline.experiments.plugins.checking import check_scheme as check

    check(scheme, groups=groups, options=options, engines=engines)
