"""``faultline run`` and ``explain-recovery``."""

from __future__ import annotations

from faultline.experiments.commands.declarations import shared
from faultline.experiments.commands.declarations.parsing import Commands, add_command


def declare(commands: Commands) -> None:
    """Declare the commands that simulate one job."""
    run = add_command(
        commands,
        "run",
        "simulate one scenario and print its result",
        "run:execute",
        description="Simulate one scenario with one seed and print its record.",
        epilog="example: faultline run spare-sound --set strategy.name=replication --mtbf 1h",
    )
    shared.add_scenario(run)
    run.add_argument(
        "--engine",
        choices=("replay", "simgrid"),
        default="replay",
        help="replay jumps from event to event (default); simgrid simulates every rank and message",
    )
    size = run.add_argument_group("the job, instead of the scenario's")
    shared.add_size(size, "steps of the job")
    shared.add_seed(run)
    shared.add_price(run)
    shared.add_output(
        run,
        "the events of the run: a trace for Perfetto and chrome://tracing (.json), a goodput event "
        "log (.jsonl), a table (.csv, .parquet) or a drawing (.png, .svg, .pdf)",
        ".json",
        ".jsonl",
        *shared.TABLES,
        *shared.FIGURES,
    )
    run.not_with("--json", "--price")

    recovery = add_command(
        commands,
        "explain-recovery",
        "print the time after a failure under each scheme, phase by phase",
        "run:execute_explain_recovery",
        description="Print the phases of the recovery from the failure of one GPU under each "
        "scheme, with seconds, ranks, bytes and the source of each number. Times of phases come "
        "from the scenario's [recovery]; state moves over its platform.",
        epilog="example: faultline explain-recovery head-to-head --set recovery.preset=standby",
    )
    shared.add_scenario(recovery)
    shared.add_schemes(recovery, "only these (default: all)")
