"""The failures that all candidates meet, what they have broken before, and the spares for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt

from faultline.simulator.failures.distributions import Constant, Uniform
from faultline.simulator.failures.failure import Failure, JobLayout
from faultline.simulator.failures.mix import Cause, CauseMix
from faultline.simulator.failures.models import SharedFailures

DAY_S = 86_400.0
# 78 % of the interruptions of Llama 3 were of hardware (Grattafiori et al. 2024); repair times as
# in Arfeen et al. 2025 (NTP, arXiv 2504.06095): 3 to 5 days for hardware, 3 h for software.
HARDWARE_SHARE = 0.78
HARDWARE_REPAIR = Uniform(3 * DAY_S, 5 * DAY_S)
SOFTWARE_REPAIR = Constant(3 * 3600.0)
_LONGEST_REPAIR_S = 5 * DAY_S

_PAST_FAILURES = 100
_MOST_PAST_FAILURES = 400
# Seeds of the past are none of those that are played.
_PAST = 1_000_003
# One-sided 95 % quantile of the normal distribution.
_QUANTILE_95 = 1.645


@dataclass(frozen=True, slots=True)
class Process:
    """Failures of single GPUs and of whole scale-up domains, memoryless.

    Attributes
    ----------
    layout : JobLayout
        Which GPUs share a host and a domain.
    mtbf_s : float
        Mean time between failures of the whole job, in seconds.
    domain_share : float
        Share of failures that break a whole scale-up domain; of the others 78 % break one GPU's
        hardware, and the rest is software on one GPU.
    """

    layout: JobLayout
    mtbf_s: float
    domain_share: float = 0.0

    @property
    def model(self) -> SharedFailures:
        """The process as the engines know it."""
        rate = 1.0 / (self.mtbf_s * self.layout.gpus)
        single = rate * (1.0 - self.domain_share)
        causes = [
            Cause("hardware", "gpu", "hardware", single * HARDWARE_SHARE, HARDWARE_REPAIR),
            Cause("software", "gpu", "software", single * (1 - HARDWARE_SHARE), SOFTWARE_REPAIR),
            Cause("domain", "domain", "hardware", rate * self.domain_share, HARDWARE_REPAIR),
        ]
        return SharedFailures(
            CauseMix(tuple(cause for cause in causes if cause.rate_per_gpu_s > 0.0), self.layout)
        )

    def past(self, seed: int) -> list[Failure]:
        """Return failures before the start, at negative times, in their order.

        They reach back as far as the longest repair, and over a hundred failures at least.
        """
        span_s = max(_LONGEST_REPAIR_S, _PAST_FAILURES * self.mtbf_s)
        failures = self.model.failures_until(span_s, _PAST + seed)
        return [one._replace(time_s=one.time_s - span_s) for one in failures]

    def spare_gpus(self) -> int:
        """Return GPUs that have to stand by so that a restart finds new hardware, 95 times of 100.

        Where hardware is replaced at once, that under repair is a Poisson number with mean rate
        times mean repair time (Little's law; Palm 1943): servers for single GPUs, and domains. Of
        each kind its mean and 1.645 standard deviations stand by.
        """
        host, domain = self.layout.gpus_per_host, self.layout.gpus_per_domain
        repair_s, rate = HARDWARE_REPAIR.mean_s, 1.0 / self.mtbf_s
        hosts = rate * (1.0 - self.domain_share) * HARDWARE_SHARE * repair_s
        domains = rate * self.domain_share * repair_s
        return _upper(hosts) * host + _upper(domains) * domain


def recent(failures: Sequence[Failure]) -> Sequence[Failure]:
    """Return the last few hundred: a scheme that restarts with new hardware forgets the others."""
    return failures[-_MOST_PAST_FAILURES:]


def still_broken(failures: Sequence[Failure]) -> list[Failure]:
    """Return those whose repair is not over at time 0."""
    return [one for one in failures if one.time_s + (one.repair_s or 0.0) > 0.0]


def _upper(mean: float) -> int:
    return ceil(mean + _QUANTILE_95 * sqrt(mean))
