"""What ``faultline`` can be asked, without importing what answers it: ``--help`` is quick."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from faultline.experiments.commands.arguments import (
    Command,
    Reader,
    above_zero,
    declare,
    shipped,
    whole,
)

PLOT_FORMATS = ("png", "svg", "pdf")

DRAWN_GPUS = 16_384
"""GPUs of the job, where a failure model is drawn by itself: those of Llama 3's pretraining."""

DRAWN_GPUS_PER_GROUP = 128
"""About as many make a group then: tensor parallelism 8 times pipeline parallelism 16."""

_LIMIT = "nothing runs within nothing; use more"
_GPUS = {"--gpus": whole(" is no number of GPUs: use 1 to 1000000000", most=10**9)}
_COLLECTIVE: dict[str, Reader] = {"FILE": str, "--ranks": int}
_LOG: dict[str, Reader] = {
    "LOG": Path,
    "--nodes": whole(" is no number of nodes: use 1 to 1000000", 1, 10**6),
    "--gpus-per-node": whole(" is no number of GPUs: use 1 to 1000", 1, 1000),
}
_READ: Mapping[str, Mapping[str, Reader]] = {
    "sweep": {
        "--time-limit": above_zero("time", _LIMIT),
        "--memory-limit": above_zero("size", _LIMIT),
    },
    "plot": {"--window": float},
    "scenario check": {"FILE": str},
    "platform diff": {"A": str, "B": str},
    "platform import": {"FILE": Path},
    "platform probe": _COLLECTIVE,
    "platform break": {**_COLLECTIVE, "TIME": str},
    "failures list": _GPUS,
    "failures draw": _GPUS,
    "failures import": _LOG,
    "failures fit": _LOG,
}
"""What makes values of the texts, where it is not the usual; by command."""


_PLAIN = {"scenario reference", "scenario schema", "completion", "schema"}


def all_commands() -> list[Command]:
    """Return all commands in the order of ``--help``, as ``commands.txt`` declares them."""
    text = files("faultline.experiments.commands").joinpath("commands.txt").read_text("utf-8")
    shared = {
        "presets": shipped("presets", "faultline.platforms"),
        **{name: shipped(name) for name in ("scenarios", "grids", "mixes")},
        "formats": "|".join(PLOT_FORMATS),
        "default_gpus": str(DRAWN_GPUS),
        "drawn_gpus": f"{DRAWN_GPUS:,}",
        "drawn_gpus_per_group": str(DRAWN_GPUS_PER_GROUP),
    }
    commands: list[Command] = []
    for section in text.split("\n== ")[1:]:
        title, _, said = section.partition("\n")
        for name, part in shared.items():
            said = said.replace(f"{{{name}}}", part)
        if title.startswith("{"):
            shared[title.strip("{}")] = said.strip("\n")
            continue
        command = _command(title, said.strip("\n"))
        above, _, name = command.name.rpartition(" ")
        if above:
            whole_one = commands.pop()
            parts = (*whole_one.parts, command._replace(name=name))
            command = whole_one._replace(parts=parts)
        commands.append(command)
    return commands


def _command(title: str, said: str) -> Command:
    name, _, execute = title.partition(" -> ")
    about, *blocks = said.split("\n\n")
    summary, *description = about.splitlines()
    epilog = blocks.pop(0).split("\n") if blocks and re.match("examples?:", blocks[0]) else []
    return Command(
        name,
        summary,
        " ".join(description) or None,
        " ".join(epilog) or None,
        "\n\n".join(blocks),
        _READ.get(name, {}),
        execute,
        plain=name in _PLAIN,
    )


def add_parsers(commands: Any) -> None:
    """Declare all commands."""
    declare(commands, all_commands())
