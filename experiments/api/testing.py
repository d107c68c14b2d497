"""For the tests of schemes that are no part of Faultline.

::

    from faultline.testing import check_scheme

    def test_it_is_a_scheme():
        check_scheme(MyScheme)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from faultline.experiments.config.errors import SchemeError

if TYPE_CHECKING:
    from faultline.strategies.base import Strategy, StrategyOptions

__all__ = ["SchemeError", "check_scheme"]


def check_scheme(
    scheme: type[Strategy],
    *,
    groups: int = 24,
    options: StrategyOptions | None = None,
    engines: bool = True,
) -> None:
    """Hold a scheme to what every scheme promises, as scikit-learn's ``check_estimator`` does.

    It is led through thousands of failures by its methods alone, then through a short job on both
    engines. Checked are: what it says of itself; the redundancies it offers; its start; every
    verdict and plan by the contract of the training loop; that no plan trains more than its members
    compute (conservation); that a verdict depends on the failures alone, changes nothing but its
    own scheme, and survives being sent to another process; that a restart forgets everything; that
    groups which return and components that are repaired leave no trace; that both engines tell the
    same story.

    Parameters
    ----------
    scheme : type
        The class.
    groups : int
        Data-parallel groups of the jobs.
    options : StrategyOptions, optional
        Its named choices; those of its defaults.
    engines : bool
        Whether to play jobs too, which takes seconds; SimGrid has to be installed.

    Raises
    ------
    SchemeError
        Says which promise is broken, and what was done to find out.
    """
    # The file of a scheme may import this module while Faultline is still looking for schemes.
    from faultline.experiments.plugins.checking import check_scheme as check

    check(scheme, groups=groups, options=options, engines=engines)
