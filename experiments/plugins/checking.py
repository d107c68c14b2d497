"""The check of the laws of schemes, behind `faultline.testing`."""

from __future__ import annotations

from faultline.experiments.config.errors import SchemeError
from faultline.experiments.plugins.job_laws import job_laws
from faultline.experiments.plugins.laws import LAWS, Law
from faultline.experiments.plugins.subject import Subject
from faultline.experiments.streams import print_text
from faultline.simulator.loop.contract import ContractError
from faultline.strategies.interface.errors import StrategyError
from faultline.strategies.interface.scheme import Strategy, StrategyOptions

_NAME_WIDTH = 22


def check_scheme(
    scheme: type[Strategy], *, groups: int, options: StrategyOptions | None, engines: bool
) -> None:
    """Check a scheme by each law in turn; see `faultline.testing.check_scheme`."""
    subject = Subject(scheme, groups, scheme.Options() if options is None else options)
    of_jobs = job_laws()
    laws = (*LAWS, *of_jobs) if engines else LAWS
    for law in laws:
        _check(law, subject)
    redundancies = ", ".join(map(str, subject.redundancies()))
    print_text(
        f"{scheme.name} keeps {len(laws)} laws ({groups} groups, redundancy {redundancies}):"
    )
    for law in laws:
        print_text(f"  {law.name:<{_NAME_WIDTH}} {law.sentence}")
    if not engines:
        left_out = ", ".join(law.name for law in of_jobs)
        print_text(f"not checked, because engines=False: {left_out}")


def _check(law: Law, subject: Subject) -> None:
    try:
        law.check(subject)
    except (SchemeError, ContractError, StrategyError) as error:
        fault = str(error)
    except Exception as error:
        fault = f"raised {type(error).__name__}: {error}"
        raise SchemeError(_broken(law, subject, fault)) from error
    else:
        return
    raise SchemeError(_broken(law, subject, fault))


def _broken(law: Law, subject: Subject, fault: str) -> str:
    return f"{subject.scheme.name} breaks the law {law.name!r}: {fault}"
