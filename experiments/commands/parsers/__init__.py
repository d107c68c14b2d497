"""What ``faultline`` can be asked, without importing what answers it: ``--help`` is quick."""

from __future__ import annotations

from typing import Any

from faultline.experiments.commands.parsers import many, single
from faultline.experiments.commands.parsers.platform import platform


def add_parsers(commands: Any) -> None:
    """Declare all commands, in the order in which ``--help`` lists them."""
    for add in (
        single.run,
        single.plan,
        many.sweep,
        many.compare,
        many.plot,
        many.report,
        many.reproduce,
        many.head_to_head,
        single.scenario,
        platform,
        single.failures,
        single.doctor,
        single.bench,
    ):
        add(commands)
