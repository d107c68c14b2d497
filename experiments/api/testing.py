"""For the tests of schemes that are no part of Faultline.

::

    from faultline.testing import check_scheme

    def test_it_is_a_scheme():
        check_scheme(MyScheme)
"""

from faultline.experiments.plugins.checking import SchemeError, check_scheme

__all__ = ["SchemeError", "check_scheme"]
