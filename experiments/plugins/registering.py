"""Registers schemes and protections of a Python program, behind `faultline.register`."""

from __future__ import annotations

from typing import TypeVar

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.keys import schema_keys
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.tables.schemes import ProtectionTable, StrategyTable
from faultline.experiments.config.tables.table import take_in
from faultline.strategies.interface.errors import StrategyError
from faultline.strategies.interface.scheme import Strategy
from faultline.strategies.plugins import registry
from faultline.strategies.protection.base import Protection

Plugin = TypeVar("Plugin", type[Strategy], type[Protection])


def register(cls: Plugin) -> Plugin:
    """Make a scheme or a protection known by its name, here and in worker processes.

    It serves as a decorator too. A class that was registered under the same name is replaced. For
    workers on other machines, install a package with an entry point instead.

    Parameters
    ----------
    cls : type
        A subclass of `Strategy` or `Protection` with a `name` and a `summary`.

    Returns
    -------
    type
        The class.

    Raises
    ------
    UserError
        If the class is incomplete, or its name is taken by a shipped or installed one.
    """
    try:
        registry.register(cls)
    except StrategyError as error:
        raise UserError(str(error)) from error
    take_in(StrategyTable, registry.all_strategies())
    take_in(ProtectionTable, registry.all_protections())
    Scenario.model_rebuild(force=True)
    schema_keys.cache_clear()
    return cls
