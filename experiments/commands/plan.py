"""``faultline plan``: the best scheme, redundancy and checkpoint interval for a cluster."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict

from faultline.experiments.analysis.sensitivity import Swing
from faultline.experiments.commands.output import check_output, print_json, write_output
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario_file import read_source
from faultline.experiments.planner.answer import DECIDING_WORLDS, Answer
from faultline.experiments.planner.answer_data import answer_data
from faultline.experiments.planner.comparison import comparison_texts, print_comparison, summary_of
from faultline.experiments.planner.fleet import fleet_answers, read_fleet
from faultline.experiments.planner.planning import QUICK_WORLDS, WORLDS, Effort, answers
from faultline.experiments.planner.printing import answer_parts, print_answer
from faultline.experiments.planner.sentences import answer_sentences, find_swings, first_text
from faultline.experiments.planner.situation import read_situation
from faultline.experiments.progress import WorkProgress
from faultline.experiments.runs.execution import workers_kept
from faultline.experiments.screen import Screen, message_console, text_column
from faultline.experiments.streams import print_text
from rich.console import RenderableType
from rich.progress import SpinnerColumn, TimeElapsedColumn
from rich.text import Text


def execute(arguments: argparse.Namespace) -> int:
    """Run the command; the status is 1 if no scheme would finish a job."""
    names, prices = arguments.scenarios, arguments.prices
    if arguments.output is not None:
        check_output("-o", arguments.output)
    if len(names) > 1:
        _check_for_several(arguments)
        return _compare(arguments)
    if len(prices) > 1:
        raise UserError(f"--price: {len(prices)} prices for one scenario; state one")
    price = next(iter(prices), None)
    answer, swings = _planned(names[0], arguments)
    if arguments.json:
        print_json(answer_data(answer, swings, price))
    else:
        print_answer(Screen(), answer, swings, price, explain=arguments.explain)
    if arguments.output is not None:
        _write_page(answer, swings, price, arguments)
    return 0 if answer.finishes else 1


def _workers(arguments: argparse.Namespace) -> AbstractContextManager[None]:
    return workers_kept(arguments.workers, arguments.scheduler)


_COLUMNS = (SpinnerColumn(), text_column("{task.description}"), TimeElapsedColumn())


def _planned(name: str, arguments: argparse.Namespace) -> tuple[Answer, list[Swing]]:
    """Return the answer to a scenario, and the effects of its inputs."""
    of_several, began_s = f"{name}: " if len(arguments.scenarios) > 1 else "", time.monotonic()
    price = next(iter(arguments.prices), None)
    answer = None
    with _Display(f"{of_several}reading the job and its platform") as display, _workers(arguments):
        for answer in _stages(name, arguments, began_s, display):
            if answer.rows:
                display.show(answer_parts(answer, (), price))
                display.task(f"{of_several}{answer.worlds} worlds simulated")
            else:
                if answer.first:
                    display.show_first(first_text(answer))
                display.task(f"{of_several}simulating the first worlds")
        assert answer is not None
        display.task(f"{of_several}comparing the inputs")
        return answer, find_swings(answer)


def _stages(
    name: str, arguments: argparse.Namespace, began_s: float, display: _Display
) -> Iterator[Answer]:
    """Yield the answers to a scenario, better and better ones."""
    size = {"mtbf_s": arguments.mtbf, "restart_s": arguments.restart}
    chosen = arguments.schemes, arguments.protections
    options = {"at_values": arguments.at_values, "on_done": display.on_done}
    if arguments.nodes is not None:
        fleet = read_fleet(name, arguments.settings, arguments.nodes, **size)
        effort = _effort(arguments, time.monotonic() - began_s)
        return fleet_answers(fleet, *chosen, effort, **options)
    situation = read_situation(name, arguments.settings, arguments.gpus, **size)
    return answers(situation, *chosen, _effort(arguments, time.monotonic() - began_s), **options)


def _effort(arguments: argparse.Namespace, spent_s: float) -> Effort:
    """Return how much to simulate, after some seconds of the real time."""
    worlds = arguments.worlds or (QUICK_WORLDS if arguments.quick else WORLDS)
    within_s = None if arguments.within is None else max(0.0, arguments.within - spent_s)
    return Effort(worlds, within_s, arguments.steps, arguments.seed)


class _Display(WorkProgress):
    """The answer so far, drawn again in place on a terminal, above the number of runs."""

    def __init__(self, text: str) -> None:
        self._parts: list[RenderableType] = []
        super().__init__(*_COLUMNS, console=message_console(), transient=True)
        self._text = text
        self._task = self.add_task(text, total=None)

    def show(self, parts: Iterable[RenderableType]) -> None:
        """Draw an answer from now on."""
        self._parts = [*parts]
        self.refresh()

    def show_first(self, text: str) -> None:
        """Draw the answer before anything is simulated; in a file or a pipe, print it."""
        if self.console.is_terminal:
            self.show([Text(text)])
        else:
            self.console.print(text, soft_wrap=True)

    def task(self, text: str) -> None:
        """Say what is done from now on."""
        self._text = text
        self.update(self._task, description=text)

    def on_done(self) -> None:
        """Count a run."""
        self.advance(self._task)
        done = int(self.tasks[0].completed)
        self.update(self._task, description=f"{self._text} ({done:,} runs)")

    def get_renderables(self) -> Iterable[RenderableType]:
        """Return the answer, and the bar below it."""
        yield from self._parts
        yield from super().get_renderables()


def _check_for_several(arguments: argparse.Namespace) -> None:
    """Refuse options that apply to one scenario only, and a wrong number of prices."""
    alone = {
        "-o": arguments.output is not None,
        "--nodes": arguments.nodes is not None,
        "--explain": arguments.explain,
    }
    for option, is_stated in alone.items():
        if is_stated:
            raise UserError(f"{option}: applies to one scenario; plan each by itself")
    # A wrong name is refused before the first scenario is planned for minutes.
    for name in arguments.scenarios:
        read_source(name)
    scenarios, prices = len(arguments.scenarios), len(arguments.prices)
    if prices not in (0, 1, scenarios):
        raise UserError(
            f"--price: {prices} prices for {scenarios} scenarios; state one, or one for each"
        )


def _compare(arguments: argparse.Namespace) -> int:
    """Plan several scenarios, and print them side by side."""
    names, prices = arguments.scenarios, arguments.prices
    each_price = prices if len(prices) == len(names) else [next(iter(prices), None)] * len(names)
    planned = [_planned(name, arguments) for name in names]
    summaries = [
        summary_of(answer, price) for (answer, _), price in zip(planned, each_price, strict=True)
    ]
    if arguments.json:
        plans = [
            {"summary": asdict(summary), **answer_data(answer, swings, price)}
            for (answer, swings), summary, price in zip(planned, summaries, each_price, strict=True)
        ]
        print_json({"plans": plans, "sentences": comparison_texts(summaries)})
    else:
        console = Screen()
        for name, (answer, swings) in zip(names, planned, strict=True):
            console.print(f"{name}: {answer_sentences(answer, swings)[0]}", soft_wrap=True)
        print_comparison(console, summaries)
    return 0 if all(answer.finishes for answer, _ in planned) else 1


def _write_page(
    answer: Answer, swings: list[Swing], price: float | None, arguments: argparse.Namespace
) -> None:
    if not answer.finishes:
        raise UserError(f"-o {arguments.output}: no scheme finishes the job, so there is none")
    if answer.worlds < DECIDING_WORLDS:
        raise UserError(
            f"-o {arguments.output}: {answer.worlds} worlds are too few for its figures; use at "
            f"least {DECIDING_WORLDS}, and a longer --within if it is stated"
        )
    # Importing what draws its figures takes a second.
    from faultline.experiments.planner.page import answer_page

    page = answer_page(answer, swings, shlex.join(("faultline", *sys.argv[1:])), price)
    write_output("-o", arguments.output, page)
    print_text(str(arguments.output), as_message=arguments.json)
