"""What decides whether this machine is fit for Faultline: versions, limits, self-tests."""

from faultline.experiments.health.check import Check
from faultline.experiments.health.limits import limit_checks
from faultline.experiments.health.selftests import simgrid_checks
from faultline.experiments.health.versions import version_checks

__all__ = ["Check", "limit_checks", "simgrid_checks", "version_checks"]
