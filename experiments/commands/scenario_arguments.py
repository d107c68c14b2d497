"""The arguments of every command that asks a scenario."""

from __future__ import annotations

from typing import Any

from faultline.experiments.config.scenario_file import shipped_scenarios


def add_scenario(parser: Any) -> None:
    """Declare the scenario, and the settings on top of it."""
    parser.add_argument(
        "scenario",
        metavar="SCENARIO",
        help=f"a TOML file, or one of: {', '.join(shipped_scenarios())}",
    )
    add_settings(parser)


def add_settings(parser: Any) -> None:
    """Declare ``--set``, for a parser or a group of its arguments."""
    parser.add_argument(
        "--set",
        dest="settings",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="change one dotted key of the scenario; may be given more than once",
    )
