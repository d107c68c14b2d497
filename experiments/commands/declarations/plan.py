"""``faultline plan``."""

from __future__ import annotations

from faultline.experiments.commands.declarations import shared
from faultline.experiments.commands.declarations.parsing import Commands, add_command

_worlds = shared.whole(": use a whole number from 4", 4)
_seed = shared.whole(": use a whole number from 0", 0)


def _prices(text: str) -> list[float]:
    return [shared.price(each) for each in text.split(",")]


def declare(commands: Commands) -> None:
    """Declare the planner."""
    plan = add_command(
        commands,
        "plan",
        "recommend a scheme with its redundancy and checkpoint interval",
        "plan:execute",
        description="Simulate schemes in the same worlds: inputs that are not known exactly are "
        "drawn from their priors (docs/planning.md), and each world has failures of its own. "
        "Recommend a scheme with its redundancy and checkpoint interval, and say how sure that is.",
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
    shared.add_size(
        cluster,
        "steps of simulated jobs; default: enough for 100 failures, at most the whole job",
    )
    cluster.add_argument(
        "--nodes",
        metavar="N",
        type=shared.count,
        help="machines of a fleet: recommends how many of them stand by while the others train",
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
        "--at-values",
        action="store_true",
        help="take the values of the scenario as exact, instead of drawing from priors",
    )
    method.add_argument(
        "--worlds",
        metavar="N",
        type=_worlds,
        help="most worlds; a plan ends earlier if the leader is decided; default 64",
    )
    method.add_argument("--quick", action="store_true", help="at most 16 worlds")
    method.add_argument(
        "--within",
        metavar="TIME",
        type=shared.duration,
        help="real time after which no more worlds are begun, for example 60s; default: no limit",
    )
    method.add_argument(
        "--seed",
        metavar="N",
        type=_seed,
        default=0,
        help="seed of worlds and failures; default 0",
    )

    shared.add_workers(plan)
    plan.add_argument(
        "--explain",
        action="store_true",
        help="also print the job's times, the assumptions, and what the columns mean",
    )
    plan.add_argument(
        "--price",
        dest="prices",
        metavar="X",
        type=_prices,
        default=(),
        help="price of a GPU-hour, in any currency: prints the cost; X,Y: one for each scenario",
    )
    shared.add_output(
        plan, "a page with the answer, its figures and sliders (.html)", *shared.PAGES
    )
    plan.not_with("--worlds", "--quick")
    plan.not_with("--nodes", "--gpus")
    plan.not_with("--json", "--explain")
