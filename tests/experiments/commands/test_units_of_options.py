"""Numbers of options: times and sizes need a unit, counts may have one."""

from __future__ import annotations

import pytest
from faultline.experiments.cli import parser

PLAN = ("plan", "spare-sound")
SWEEP = ("sweep", "first-look", "-o", "out")


@pytest.mark.parametrize(
    ("words", "option", "value"),
    [
        ((*PLAN, "--mtbf", "5min"), "mtbf", 300.0),
        ((*PLAN, "--gpus", "100k"), "gpus", 100_000),
        ((*PLAN, "--gpus", "1e5"), "gpus", 100_000),
        ((*PLAN, "--steps", "1.5k"), "steps", 1500),
        ((*SWEEP, "--memory-limit", "4GB"), "memory_limit", 4e9),
        (("failures", "draw", "llama3", "--days", "36h"), "days", 1.5),
        (("failures", "draw", "llama3", "--days", "36"), "days", 36.0),
    ],
)
def test_a_number_may_have_a_unit(words: tuple[str, ...], option: str, value: float) -> None:
    assert getattr(parser().parse_args(words), option) == value


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ((*PLAN, "--mtbf", "300"), "like 5min or 1us; 300 seconds are 5min"),
        ((*PLAN, "--mtbf", "90"), "--mtbf: '90' has no unit: a time is written like 5min"),
        ((*PLAN, "--restart", "7200"), "; 7,200 seconds are 2h; see"),
        ((*PLAN, "--mtbf", "soon"), "'soon' is not a time: write a number and a unit, for example"),
        ((*PLAN, "--gpus", "1.5"), "--gpus: '1.5': use a whole number from 1"),
        ((*PLAN, "--gpus", "5min"), "--gpus: '5min': use a whole number from 1"),
        (
            (*SWEEP, "--memory-limit", "4000000000"),
            "is written like 80GB; 4,000,000,000 bytes are 4GB",
        ),
        (
            ("failures", "draw", "llama3", "--days", "2GB"),
            "'2GB' is no duration: use days, such as 54 or 0.5, or a time, such as 36h",
        ),
    ],
)
def test_a_number_without_its_unit_is_refused_with_the_remedy(
    words: tuple[str, ...], printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(words)
    assert ended.value.code == 2
    assert printed in capsys.readouterr().err
