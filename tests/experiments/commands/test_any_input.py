"""The whole command line, driven with input that a grammar makes up.

Whatever comes in, a command ends with status 0, or with status 2 and one line; it writes nothing
outside its output folder, and neither time nor memory grow beyond bounds.
"""

from __future__ import annotations

import contextlib
import io
import resource
from pathlib import Path
from time import process_time

import pytest
from faultline.experiments.cli import main
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.experiments.config.test_scenario_fuzz import LEAVES, pieces, words
from tests.platforms.test_fuzz import XML, lines

pytestmark = pytest.mark.system

# What makes any scenario small: the last setting of a key counts.
SMALL = ("job.groups=12", "job.steps=10")
MOST_S = 60.0
MOST_BYTES = 2**30


def toml_text(text: str) -> str:
    letters = (f"\\U{ord(one):08x}" for one in text if not 0xD800 <= ord(one) < 0xE000)
    return f'"{"".join(letters)}"'


texts = st.one_of(
    words, st.sampled_from(["spare", "mix", "llama3", "/dev/zero", "..", "$x$", "5min", "hgx-h100"])
)
values = st.one_of(
    st.integers(-3, 10**6).map(str), st.floats().map(repr), texts.map(toml_text), pieces
)
assignments = st.tuples(st.sampled_from(LEAVES), values).map(" = ".join)
tomls = st.lists(st.one_of(assignments, assignments, pieces), max_size=8).map("\n".join)
times = st.one_of(st.integers(-3, 10**6), st.floats()).map(str)
rows = st.lists(
    st.one_of(
        st.tuples(times, st.sampled_from(["gpu-0", "host-1", "job", "rack-1", "gpu-99999"])),
        st.tuples(texts, texts),
        st.tuples(times),
    ).map(",".join),
    max_size=12,
).map(lambda lines: "\n".join(["time,component", *lines]))
grids = st.tuples(tomls, st.lists(assignments, max_size=2)).map(
    lambda parts: f'scenario = "spare-study"\nseeds = 1\n{parts[0]}\n[grid]\n' + "\n".join(parts[1])
)
plain = texts.map(lambda text: text.replace("\0", ""))
names = st.sampled_from(["--set", "--seed", "--engine", "--json", "-x"])
options = st.lists(st.tuples(names, plain), max_size=2).map(
    lambda pairs: [word for pair in pairs for word in pair]
)

commands = st.one_of(
    st.tuples(st.just(("scenario", "check", "FILE")), tomls),
    st.tuples(st.just(("scenario", "show", "FILE")), tomls),
    st.tuples(st.just(("run", "FILE")), tomls),
    st.tuples(st.just(("failures", "draw", "FILE", "--days", "1", "--gpus", "64")), tomls),
    st.tuples(st.just(("failures", "draw", "FILE.csv", "--gpus", "64")), rows),
    st.tuples(st.just(("sweep", "FILE", "-o", "out/sweep", "--workers", "x")), grids),
    st.tuples(st.just(("platform", "draw", "FILE", "-o", "out/p.png")), lines(XML)),
    st.tuples(st.just(("platform", "generate", "FILE", "-o", "out/p.xml")), tomls),
    st.tuples(st.just(("compare", "FILE")), texts),
    st.tuples(st.just(("run", "spare-study", *(f"--set={each}" for each in SMALL))), texts),
)


def files_in(folder: Path) -> dict[Path, int]:
    return {path: path.lstat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def check_case(folder: Path, words: tuple[str, ...], content: str, more: list[str]) -> None:
    """Run one command, and hold it to what is promised."""
    name = "input.csv" if "FILE.csv" in words else "input"
    (folder / name).write_bytes(content.encode("utf-8", "surrogatepass"))
    arguments = [name if word.startswith("FILE") else word for word in words]
    if words[0] == "run":
        arguments += [word for setting in SMALL for word in ("--set", setting)]
    elif words[0] in ("compare", "sweep"):
        more = []
    before = files_in(folder)
    out, err = io.StringIO(), io.StringIO()
    began_s = process_time()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main([*arguments, *more])
        except SystemExit as stop:
            status = int(stop.code or 0)
    printed = f"{arguments} {more}: {status} {err.getvalue()[:300]!r}"
    assert process_time() - began_s < MOST_S, printed
    assert status in (0, 2), printed
    if status == 2:
        # Before the error, a line may name keys without effect, once a process.
        lines = [line for line in err.getvalue().splitlines() if "has no effect" not in line]
        assert len(lines) == 1 or err.getvalue().count("\n") == 1, printed
        assert len(err.getvalue()) <= 1_001, printed
    shown = (out.getvalue() + err.getvalue()).replace("\n", "").replace("\t", "")
    assert shown.isprintable(), printed
    changed = {path for path, at in files_in(folder).items() if before.get(path) != at}
    assert all(path.is_relative_to(folder / "out") for path in changed), printed


def drive(count: int, start: int, folder: Path) -> None:
    (folder / "out").mkdir()
    # Imports, and what is made once, count for no command.
    check_case(folder, ("run", "spare-study"), "", [])
    check_case(folder, ("platform", "draw", "FILE", "-o", "out/p.png"), XML, [])
    before_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    @seed(start)
    @settings(
        max_examples=count,
        derandomize=False,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=commands, more=options)
    def hold(case: tuple[tuple[str, ...], str], more: list[str]) -> None:
        check_case(folder, *case, more)

    hold()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before_bytes < MOST_BYTES


SHARDS = [pytest.param(1_000, start, marks=pytest.mark.slow) for start in range(1, 21)]


@pytest.mark.parametrize(("count", "start"), [(20, 0), *SHARDS])
def test_any_input_is_taken_or_refused_in_one_line(
    count: int, start: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    drive(count, start, tmp_path)
