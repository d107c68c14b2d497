"""What stands beside the work: ``list``, ``new-scheme``, ``certificates``, ``doctor`` and such."""

from __future__ import annotations

from pathlib import Path

from faultline.experiments.commands.declarations import shared
from faultline.experiments.commands.declarations.parsing import Commands, add_command


def declare(commands: Commands) -> None:
    """Declare what is needed before and beside simulations."""
    listing = add_command(
        commands,
        "list",
        "list the scenarios, clusters, mixes of causes and studies that there are",
        "listing:execute",
        description="List what comes with Faultline, and the mixes of plug-ins.",
    )
    listing.add_argument(
        "kind",
        nargs="?",
        choices=("scenarios", "clusters", "mixes", "studies"),
        help="only these; default: all",
    )
    listing.add_argument(
        "--gpus",
        metavar="N",
        type=shared.gpus,
        help=f"GPUs of the job that mixes strike (default: {shared.DRAWN_GPUS})",
    )

    scheme = add_command(
        commands,
        "new-scheme",
        "write a package with a scheme, its test and its entry point",
        "preparing:execute_new_scheme",
        description="Write a package that Faultline finds once it is installed. "
        "docs/adding-a-scheme.md says what a scheme answers.",
        epilog="example: faultline new-scheme buddies",
    )
    scheme.add_argument("name", metavar="NAME", help="what the scheme is called in scenarios")
    shared.add_output(scheme, "DIR", "a new folder; default: NAME")

    certificates = add_command(
        commands,
        "certificates",
        "make the certificates by which machines of a cluster know one another",
        "preparing:execute_certificates",
        description="Make an authority, and one certificate with its key for all machines of a "
        "cluster. The authority's key is not kept. See docs/many-machines.md.",
    )
    certificates.add_argument(
        "dir", metavar="DIR", type=Path, help="a new folder, to be copied to every machine"
    )

    add_command(
        commands,
        "doctor",
        "print versions, limits of this machine, and a self-test of the fabric",
        "machine:execute_doctor",
        description="Print versions, the limits of this machine and what they mean, and let "
        "SimGrid play single flows. Exit status 1 if a check failed.",
    )

    completion = add_command(
        commands,
        "completion",
        "print what makes a shell complete commands and options",
        "preparing:execute_completion",
        has_json=False,
        description="Print a script by which a shell completes commands, options and files.",
        epilog="example: faultline completion bash > "
        "~/.local/share/bash-completion/completions/faultline",
    )
    completion.add_argument("shell", metavar="SHELL", help="one of: bash, zsh, tcsh")
