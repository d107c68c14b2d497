"""Parsers of ``faultline platform``."""

from __future__ import annotations

from argparse import ArgumentParser, HelpFormatter
from pathlib import Path
from typing import Any

from faultline.experiments.commands.parsers.arguments import (
    add_json,
    add_output,
    add_settings,
    positive,
    shipped,
    subcommands,
)


def platform(commands: Any) -> None:
    """Declare ``faultline platform``."""
    add = subcommands(
        commands,
        "platform",
        help="generate, check, draw, probe and list platforms",
        description="Platforms are SimGrid XML files, generated from a cluster spec and made to "
        "be edited. docs/modelling-a-cluster.md goes through it step by step.",
    )
    generate = add(
        "generate",
        help="write the XML of a cluster spec",
        epilog="example: faultline platform generate hgx-h100 --set domains=4 "
        "--set nic.bandwidth=800Gbps -o four-servers.xml",
    )
    generate.add_argument("spec", metavar="SPEC", help=f"a TOML file, or one of: {_presets()}")
    add_output(generate, "FILE", required=True)
    add_settings(
        generate, "change one key of the spec, dotted or short; may be given more than once"
    )
    generate.add_argument(
        "--plane", action="store_true", help="only one rail plane, which stands for the cluster"
    )
    check = add(
        "check", help="load a platform in SimGrid and say what it is, or what is broken in it"
    )
    check.add_argument("file", type=Path, metavar="FILE")
    add_json(check, "print one JSON object, in SI units")
    draw = add("draw", help="draw the topology of a platform")
    draw.add_argument("file", type=Path, metavar="FILE")
    add_output(draw, "PNG", required=True)
    add("list", help="list the clusters that come with Faultline")
    _add_probe(add)
    _add_break(add)
    _add_collisions(add)


def _presets() -> str:
    return shipped("presets", "faultline.platforms")


def _add_probe(add: Any) -> None:
    parser: ArgumentParser = add(
        "probe",
        help="measure a collective on a platform",
        description="Measure one collective on an idle platform in SimGrid: its time, its "
        "bandwidths as nccl-tests counts them, and which links limit it. Beside it stands the "
        "alpha-beta time of the algorithm, as if all edges were like the one between the first "
        "and the last rank.",
        epilog="example: faultline platform probe hgx-h100 --collective all-reduce "
        "--algorithm ring --bytes 1GB --ranks 64. Algorithms: {algorithms}",
        formatter_class=_Formatter,
    )
    _add_collective(parser)
    parser.set_defaults(execute="collective:execute_probe")


class _Formatter(HelpFormatter):
    """Fills in the algorithms where the text is shown: to import them takes its time."""

    def add_text(self, text: str | None) -> None:
        if text is not None and "{algorithms}" in text:
            from faultline.simulator.collectives.catalogue import ALGORITHMS

            known = (f"{name}: {', '.join(each)}" for name, each in ALGORITHMS.items())
            text = text.format(algorithms="; ".join(known))
        super().add_text(text)


def _add_break(add: Any) -> None:
    parser: ArgumentParser = add(
        "break",
        help="let a component fail in the middle of a collective",
        description="Play one collective in SimGrid while a GPU, host, scale-up domain, rack, "
        "switch or link fails, and tell which ranks die, which hang until their watchdog fires, "
        "and which got through before.",
        epilog="example: faultline platform break hgx-h100 --component leaf-00000-03 --at 5ms "
        "--watchdog 30s --algorithm ring --bytes 1GB --ranks 64",
    )
    _add_collective(parser)
    parser.add_argument(
        "--component",
        required=True,
        metavar="NAME",
        help="what fails: gpu-000003, host-00001, domain-00000, rack-00000, a switch or a link",
    )
    parser.add_argument("--at", default="1ms", metavar="TIME", help="when it fails (default: 1ms)")
    parser.add_argument(
        "--watchdog",
        default="600s",
        metavar="TIME",
        help="when ranks give up waiting (default: 600s)",
    )
    parser.set_defaults(execute="collective:execute_break")


def _add_collisions(add: Any) -> None:
    parser: ArgumentParser = add(
        "collisions",
        help="tell what hashing flows onto spines costs an all-reduce",
        description="Compare routing by hash (ECMP, over several seeds) and by destination "
        "(D-mod-k) with adaptive routing: how much longer the all-reduce of a job takes. Groups "
        "take GPUs in order, and GPU k of every group sends to GPU k of the next, all at once.",
        epilog="example: faultline platform collisions hgx-h100 --set domains=64 "
        "--set domains_per_leaf=16 --set spines=16 --groups 4",
    )
    parser.add_argument("spec", metavar="SPEC", help=f"a TOML file, or one of: {_presets()}")
    add_settings(parser, "change one key of the spec, dotted or short; may be given more than once")
    parser.add_argument(
        "--groups", type=positive, required=True, metavar="N", help="how many groups the job has"
    )
    parser.add_argument(
        "--seeds", type=positive, default=20, metavar="N", help="seeds of the hash (default: 20)"
    )
    add_json(parser, "print one JSON object")


def _add_collective(parser: ArgumentParser) -> None:
    """Declare which collective is meant, on which platform."""
    parser.add_argument(
        "file",
        metavar="FILE",
        help=f"a platform XML, or a shipped cluster: {_presets()}",
    )
    parser.add_argument(
        "--collective", default="all-reduce", metavar="NAME", help="default: all-reduce"
    )
    parser.add_argument(
        "--algorithm", metavar="NAME", help="default: the first one of the collective"
    )
    parser.add_argument(
        "--bytes",
        dest="size",
        default="1GB",
        metavar="SIZE",
        help="what a rank reduces, sends or gets in all, like 1GB or 64MiB (default: 1GB)",
    )
    parser.add_argument(
        "--ranks", type=int, metavar="N", help="how many GPUs take part (default: all)"
    )
    parser.add_argument(
        "--fidelity",
        choices=("flow", "chunk"),
        default="flow",
        help="one flow an edge of the algorithm (default), or every message",
    )
    parser.add_argument(
        "--placement",
        choices=("packed", "spread"),
        default="packed",
        help="ranks on the first GPUs (default), or on one GPU of each scale-up domain",
    )
    add_json(parser, "print one JSON object; times in seconds, bandwidths in bytes/s")
