"""How a run of a sweep is played: from a request to a record, or to the line that says why not."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path

from experiments.errors import UserError
from experiments.platform_files import check_platform
from experiments.resolve import resolve
from experiments.scenario import Scenario
from experiments.scenario_file import scenario_from
from experiments.single_run import Record, run_question
from experiments.sweeps.runs import RunRequest
from platforms.errors import PlatformError
from simulator.failures.distributions import DistributionError
from simulator.job import Durations
from simulator.simgrid_engine.process import SimulationError
from strategies.errors import StrategyError

# These say all there is to say; of any other error its kind is worth knowing too.
_EXPLAINED = (UserError, PlatformError, StrategyError, DistributionError, SimulationError)


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a run.

    Attributes
    ----------
    record : dict or None
        Its record.
    error : str or None
        One line: why there is none.
    learned : tuple of Scenario and Durations, or None
        Durations that were looked up on the way, and the scenario that they are of.
    """

    record: Record | None
    error: str | None
    learned: tuple[Scenario, Durations] | None = None


class KnownDurations:
    """Durations of earlier runs: to look them up may take longer than a run does.

    Parameters
    ----------
    size : int
        How many are kept, those that were used last.
    """

    # What in a scenario its durations do not depend on.
    WITHOUT = frozenset({"name", "description", "strategy", "failures", "detection"})

    def __init__(self, size: int = 64) -> None:
        self._size = size
        self._known: OrderedDict[Hashable, Durations] = OrderedDict()

    def of(self, scenario: Scenario) -> Durations | None:
        """Return the durations of a scenario, or None if they are not known."""
        return self._known.get(_durations_key(scenario))

    def learn(self, scenario: Scenario, durations: Durations) -> None:
        """Remember the durations of a scenario, and its platform.

        The platform is read here once more, so that processes that are forked later have it.
        """
        check_platform(scenario)
        self._known[_durations_key(scenario)] = durations
        while len(self._known) > self._size:
            self._known.popitem(last=False)


def _durations_key(scenario: Scenario) -> Hashable:
    """Everything that durations depend on; an edited platform file is another platform."""
    tables = scenario.model_dump_json(exclude=set(KnownDurations.WITHOUT))
    try:
        path = Path(scenario.platform.file).resolve()
        status = path.stat()
    except OSError:
        return tables
    return tables, path, status.st_mtime_ns, status.st_size


def play(request: RunRequest, known: KnownDurations) -> Played:
    """Play a run in this process; whatever it raises becomes the line of its error."""
    try:
        scenario = scenario_from(request.scenario, "the scenario of this run")
        durations = known.of(scenario)
        question = resolve(scenario, durations)
        record = run_question(question, request.seed, request.engine)
    except BaseException as error:  # SystemExit too: nothing may end a run without a reason.
        return Played(None, explain(error))
    return Played(record, None, (scenario, question.durations) if durations is None else None)


def explain(error: BaseException) -> str:
    """Return an error as one line that is the same whenever it happens."""
    text = str(error) if isinstance(error, _EXPLAINED) else f"{type(error).__name__}: {error}"
    # Where in memory an object was is of no use to anybody, and another place every time.
    text = re.sub(r" at 0x[0-9a-fA-F]+", "", text)
    return " ".join(text.split()).removesuffix(":")
