"""What ``faultline platform`` can be asked."""

from __future__ import annotations

from pathlib import Path

from faultline.experiments.commands.arguments import (
    Command,
    json_option,
    option,
    output_option,
    set_option,
    shipped,
)

_PRESETS = shipped("presets", "faultline.platforms")


_COLLECTIVE = (
    option("FILE", f"a platform XML, or a shipped cluster: {_PRESETS}"),
    option("--collective NAME", "default: all-reduce", default="all-reduce"),
    option("--algorithm NAME", "default: the first one of the collective"),
    option(
        "--bytes SIZE",
        "what a rank reduces, sends or gets in all, like 1GB or 64MiB (default: 1GB)",
        dest="size",
        default="1GB",
    ),
    option("--ranks N", "how many GPUs take part (default: all)", int),
    option(
        "--fidelity",
        "one flow an edge of the algorithm (default), or every message",
        choices=("flow", "chunk"),
        default="flow",
    ),
    option(
        "--placement",
        "ranks on the first GPUs (default), or on one GPU of each scale-up domain",
        choices=("packed", "spread"),
        default="packed",
    ),
    json_option("print one JSON object; times in seconds, bandwidths in bytes/s"),
)

PLATFORM = Command(
    "platform",
    "generate, check, draw, probe and list platforms",
    "Platforms are SimGrid XML files, generated from a cluster spec and made to be edited. "
    "docs/modelling-a-cluster.md goes through it step by step.",
    parts=(
        Command(
            "generate",
            "write the XML of a cluster spec",
            epilog="example: faultline platform generate hgx-h100 --set domains=4 "
            "--set nic.bandwidth=800Gbps -o four-servers.xml",
            options=(
                option("SPEC", f"a TOML file, or one of: {_PRESETS}"),
                output_option("FILE", required=True),
                set_option(
                    "change one key of the spec, dotted or short; may be given more than once"
                ),
                option("--plane", "only one rail plane, which stands for the cluster"),
            ),
        ),
        Command(
            "check",
            "load a platform in SimGrid and say what it is, or what is broken in it",
            options=(option("FILE", None, Path), json_option("print one JSON object, in SI units")),
        ),
        Command(
            "draw",
            "draw the topology of a platform",
            options=(option("FILE", None, Path), output_option("PNG", required=True)),
        ),
        Command("list", "list the clusters that come with Faultline"),
        Command(
            "probe",
            "measure a collective on a platform",
            "Measure one collective on an idle platform in SimGrid: its time, its bandwidths as "
            "nccl-tests counts them, and which links limit it. Beside it stands the alpha-beta "
            "time of the algorithm, as if all edges were like the one between the first and the "
            "last rank.",
            "example: faultline platform probe hgx-h100 --collective all-reduce "
            "--algorithm ring --bytes 1GB --ranks 64. Algorithms: {algorithms}",
            _COLLECTIVE,
            execute="collective:execute_probe",
        ),
        Command(
            "break",
            "let a component fail in the middle of a collective",
            "Play one collective in SimGrid while a GPU, host, scale-up domain, rack, switch or "
            "link fails, and tell which ranks die, which hang until their watchdog fires, and "
            "which got through before.",
            "example: faultline platform break hgx-h100 --component leaf-00000-03 --at 5ms "
            "--watchdog 30s --algorithm ring --bytes 1GB --ranks 64",
            (
                *_COLLECTIVE,
                option(
                    "--component NAME",
                    "what fails: gpu-000003, host-00001, domain-00000, rack-00000, a switch or a "
                    "link",
                    required=True,
                ),
                option("--at TIME", "when it fails (default: 1ms)", default="1ms"),
                option(
                    "--watchdog TIME", "when ranks give up waiting (default: 600s)", default="600s"
                ),
            ),
            "collective:execute_break",
        ),
    ),
)
