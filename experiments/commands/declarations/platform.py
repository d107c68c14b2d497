"""``faultline platform``."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from faultline.experiments.commands.declarations import shared
from faultline.experiments.commands.declarations.parsing import Commands, add_command, add_group


def declare(commands: Commands) -> None:
    """Declare the commands for platforms."""
    platform = add_group(
        commands,
        "platform",
        "generate, check, draw and probe platforms",
        "Platforms are SimGrid XML files, generated from a cluster spec and ready to be edited. "
        "docs/modelling-a-cluster.md describes each step.",
    )

    generate = add_command(
        platform,
        "generate",
        "write the XML of a cluster spec",
        "platform:execute_generate",
        epilog="example: faultline platform generate hgx-h100 --set domains=4 -o four.xml",
    )
    generate.add_argument("spec", metavar="SPEC", help="a TOML file, or one of: {clusters}")
    shared.add_settings(generate, "change one key of the spec, dotted or short")
    shared.add_output(generate, "the platform (.xml)", ".xml", required=True)
    generate.add_argument(
        "--plane", action="store_true", help="only one rail plane, which represents the cluster"
    )

    check = add_command(
        platform,
        "check",
        "load a platform in SimGrid and print its contents or its mistakes",
        "platform:execute_check",
    )
    check.add_argument("file", metavar="FILE", type=Path)
    _add_gpu_hosts(check)

    draw = add_command(platform, "draw", "draw the topology of a platform", "platform:execute_draw")
    draw.add_argument("file", metavar="FILE", type=Path)
    _add_gpu_hosts(draw)
    shared.add_output(draw, "the figure (.png, .svg, .pdf)", *shared.FIGURES, required=True)

    diff = add_command(
        platform,
        "diff",
        "print which phases of a job an edit changes, and by how much",
        "platform:execute_diff",
        description="Time the phases of a job on two platforms: its step and that step's parts, "
        "the all-reduce, writing and loading a checkpoint, snapshots and restarts. Without a "
        "scenario, each scale-up domain is a group of the job.",
        epilog="example: faultline platform diff servers.xml edited.xml mine.toml",
    )
    diff.add_argument("a", metavar="A", help="a platform XML, or a shipped cluster")
    diff.add_argument("b", metavar="B", help="the platform to compare it with")
    diff.add_argument(
        "scenario",
        metavar="SCENARIO",
        nargs="?",
        help="the job: a TOML file, or the name of a shipped scenario",
    )
    shared.add_settings(diff)

    import_ = add_command(
        platform,
        "import",
        "make a spec from a server's topology",
        "platform:execute_import",
        description="Make a cluster spec from the topology of one server (the output of "
        "`nvidia-smi topo -m`, or the XML that NCCL writes to NCCL_TOPO_DUMP_FILE) and a table of "
        "the switches of the adapters. "
        "docs/modelling-a-cluster.md describes these files.",
        epilog="example: faultline platform import topo.txt switches.csv -o ours.toml",
    )
    import_.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        help="the output of nvidia-smi topo -m, or NCCL's topology (.xml)",
    )
    shared.add_output(import_, "a spec (.toml) for platform generate", ".toml", required=True)
    import_.add_argument(
        "switches",
        metavar="SWITCHES",
        nargs="?",
        type=Path,
        help="CSV with the columns node, nic and switch",
    )
    import_.add_argument(
        "--like",
        metavar="SPEC",
        help="a shipped cluster whose GPUs, hosts and storage these servers have (default: by the "
        "GPUs that NCCL's topology names, or hgx-h100): {clusters}",
    )

    probe = add_command(
        platform,
        "probe",
        "measure a collective on a platform",
        "platform:execute_probe",
        description="Measure one collective as NCCL runs it on an idle platform in SimGrid: its "
        "time, its bandwidths as nccl-tests counts them, and which links limit it.",
        epilog="example: faultline platform probe hgx-h100 all-reduce --bytes 1GiB --gpus 64",
    )
    probe.add_argument(
        "file", metavar="FILE", help="a platform XML, or a shipped cluster: {clusters}"
    )
    _add_gpu_hosts(probe)
    probe.add_argument(
        "collective",
        metavar="COLLECTIVE",
        nargs="?",
        default="all-reduce",
        help="one of: {collectives}; default: all-reduce",
    )
    probe.add_argument(
        "algorithm",
        metavar="ALGORITHM",
        nargs="?",
        help="one of: {algorithms} (nvls is NVLSTree between domains); default: the one that NCCL "
        "would choose, the fastest by its busiest link",
    )
    probe.add_argument(
        "--bytes",
        metavar="SIZE",
        type=shared.size_bytes,
        default="1GB",
        help="total bytes that a rank reduces, sends or receives, like 1GB (default: 1GB)",
    )
    probe.add_argument(
        "--gpus", metavar="N", type=shared.ranks, help="number of participating GPUs (default: all)"
    )


def _add_gpu_hosts(command: ArgumentParser) -> None:
    command.add_argument(
        "--gpu-hosts",
        metavar="PATTERN",
        help="the hosts that are GPUs, by a shell pattern of their names, of a platform that "
        "Faultline did not write: 'node-*'",
    )
