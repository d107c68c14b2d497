"""``faultline list``, ``new-scheme`` and ``doctor``."""

from __future__ import annotations

from faultline.experiments.commands.declarations import shared
from faultline.experiments.commands.declarations.parsing import Commands, add_command


def declare(commands: Commands) -> None:
    """Declare the commands that simulate no job."""
    listing = add_command(
        commands,
        "list",
        "list scenarios, schemes, protections, platforms, mixes of causes, grids, studies",
        "listing:execute",
        description="List what comes with Faultline, and the mixes of plug-ins.",
    )
    listing.add_argument(
        "kind",
        metavar="KIND",
        nargs="?",
        choices=shared.KINDS,
        help=f"one of: {', '.join(shared.KINDS)}; default: all",
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
        "docs/adding-a-scheme.md describes what a scheme must define.",
        epilog="example: faultline new-scheme buddies",
    )
    scheme.add_argument("name", metavar="NAME", help="name of the scheme in scenarios")
    shared.add_output(scheme, "a new folder; default: NAME")

    add_command(
        commands,
        "doctor",
        "print versions, limits of this machine, and a self-test of the fabric",
        "preparing:execute_doctor",
        description="Print versions, the limits of this machine and what they mean, and let "
        "SimGrid run single flows. Exit status 1 if a check failed.",
    )
