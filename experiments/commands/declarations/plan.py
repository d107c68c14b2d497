"""``faultline plan``."""

from __future__ import annotations

from pathlib import Path

from faultline.experiments.commands.declarations import shared
from faultline.experiments.commands.declarations.parsing import Commands, add_command

_least_samples = shared.whole(": use 0, or a whole number from 16", 16)


def _samples(text: str) -> int:
    """Return a number of samples; 0 leaves the priors out."""
    return 0 if text == "0" else _least_samples(text)


def _prices(text: str) -> list[float]:
    return [shared.price(each) for each in text.split(",")]


def declare(commands: Commands) -> None:
    """Declare the planner."""
    plan = add_command(
        commands,
        "plan",
        "recommend a scheme with its redundancy and checkpoint interval",
        "plan:execute",
        description="Find the best redundancy and checkpoint interval of each scheme by closed "
        "forms, verify the best by simulation, and recommend a scheme: at the values of the "
        "scenario, and over the priors of inputs whose exact value is unknown.",
        epilog="example: faultline plan spare-sound --gpus 100000 --mtbf 30min",
    )
    plan.add_argument(
        "scenarios",
        metavar="SCENARIO",
        nargs="+",
        help="a TOML file, or one of: {scenarios}; several are planned one after another and "
        "printed side by side",
    )
    shared.add_settings(plan)

    cluster = plan.add_argument_group("the cluster, instead of the scenario's")
    cluster.add_argument("--gpus", metavar="N", type=shared.count, help="GPUs of the whole job")
    cluster.add_argument(
        "--nodes",
        metavar="N",
        type=shared.count,
        help="machines of a fleet: splits it into groups and standbys, and prints the goodput by "
        "number of standbys",
    )
    cluster.add_argument(
        "--mtbf",
        metavar="TIME",
        type=shared.duration,
        help="mean time between failures of the whole job, for example 5min; default: the "
        "scenario's, scaled with 1 / GPUs",
    )
    cluster.add_argument(
        "--restart", metavar="TIME", type=shared.duration, help="time of a restart"
    )

    method = plan.add_argument_group("the method")
    method.add_argument(
        "--schemes",
        metavar="A,B",
        type=shared.names,
        help="candidate schemes; default: all; those that need the layout of a group (ntp, "
        "mecefo, ...) only if [model] states it",
    )
    method.add_argument(
        "--protections",
        metavar="A,B",
        type=shared.names,
        help="candidate protections of the training state; default: all that fit the job",
    )
    method.add_argument(
        "--seeds",
        metavar="N",
        type=shared.count,
        default=3,
        help="seeds of a verification; default 3, and more for choices that tie",
    )
    method.add_argument(
        "--verify",
        metavar="N",
        type=shared.whole(": use a whole number from 0", 0),
        default=3,
        help="least number of choices to verify; the best of each scheme and protection always "
        "is; 0: closed forms alone; default 3",
    )
    method.add_argument(
        "--steps",
        metavar="N",
        type=shared.count,
        help="steps of simulated jobs; default: enough for 1,000 failures, at most the whole job",
    )
    method.add_argument(
        "--priors",
        metavar="N",
        type=_samples,
        help="samples of the uncertain inputs at which the leading schemes are simulated, to "
        "report how likely each is to be the best (docs/uncertainty.md); 0: none; default 64",
    )
    method.add_argument(
        "--quick",
        action="store_true",
        help="16 samples, so that probabilities are known to about 20 %%, not 10",
    )
    method.add_argument(
        "--optimise",
        action="store_true",
        help="also search for the best redundancy and interval by simulation",
    )

    plan.add_argument(
        "--all",
        action="store_true",
        help="print a row for each choice, not only for the soonest of each scheme",
    )
    plan.add_argument(
        "--price",
        dest="prices",
        metavar="X",
        type=_prices,
        default=(),
        help="price of a GPU-hour, in any currency: prints the cost; X,Y: one for each scenario",
    )
    plan.add_argument(
        "--page",
        metavar="FILE",
        type=Path,
        help="write a page with the answer, its figures and sliders for the inputs (HTML)",
    )
    plan.not_with(
        "--verify",
        "--seeds",
        "--steps",
        "--optimise",
        "--priors",
        "--quick",
        "--page",
        values=("0",),
    )
    plan.not_with("--priors", "--page", values=("0",))
    plan.not_with("--priors", "--quick")
    plan.not_with("--nodes", "--gpus", "--priors", "--quick", "--page", "--optimise")
    plan.not_with("--nodes", "--verify", "--all")
    plan.not_with("--json", "--all")
