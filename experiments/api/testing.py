"""For the tests of schemes that are no part of Faultline.

::

    from faultline.testing import check_scheme

    def test_it_is_a_scheme():
        check_scheme(MyScheme)
"""

from faultline.experiments.plugins.checking import check_scheme
from faultline.experiments.plugins.engines import SchemeError

__all__ = ["SchemeError", "check_scheme"]
