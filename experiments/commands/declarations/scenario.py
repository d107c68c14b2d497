"""``faultline scenario``."""

from __future__ import annotations

from faultline.experiments.commands.declarations import shared
from faultline.experiments.commands.declarations.parsing import Commands, add_command, add_group


def declare(commands: Commands) -> None:
    """Declare the commands for scenarios."""
    scenario = add_group(
        commands,
        "scenario",
        "show, check and explain scenarios",
        "Scenarios are TOML files that state the training job, its failures and its "
        "scheme. docs/scenario-reference.md documents every key.",
    )

    show = add_command(
        scenario,
        "show",
        "print a scenario with every value filled in, as TOML that can be run",
        "scenario:execute_show",
        description="Print a scenario with every value filled in: defaults, redundancy and "
        "checkpoint interval by the closed forms, times measured on the platform. Saved as a TOML "
        "file in this folder, it gives the same records.",
        epilog="example: faultline scenario show spare-study --set job.groups=600 > mine.toml",
    )
    shared.add_scenario(show)
    show.add_argument(
        "--all", action="store_true", help="also defaults that have no effect in this scenario"
    )
    show.not_with("--json", "--all")

    check = add_command(
        scenario,
        "check",
        "print every mistake of scenario files",
        "scenario:execute_check",
        description="Print every mistake of scenario files, one per line, with its place; the exit "
        "status is 2 if there is any.",
    )
    check.add_argument("file", metavar="FILE", nargs="+", help="a TOML file")

    explain = add_command(
        scenario,
        "explain",
        "explain a key or a table: meaning, unit, default, range, choices, source",
        "scenario:execute_explain",
        description="Explain a key or a table. With --format, print the reference of all keys as "
        "Markdown, or the JSON Schema of scenario files: editors with TOML support use it to "
        "complete keys, show their meaning and underline mistakes. A scenario then begins with the "
        "line '#:schema ./scenario.schema.json'.",
        epilog="example: faultline scenario explain --format json-schema > scenario.schema.json",
    )
    explain.add_argument(
        "key", metavar="KEY", nargs="?", help="a dotted key, or a table; all tables if left out"
    )
    explain.add_argument(
        "--format", choices=("markdown", "json-schema"), help="all keys, in this form"
    )
    explain.not_with("--format", "--json")
