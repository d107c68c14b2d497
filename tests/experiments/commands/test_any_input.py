"""The whole command line, driven with input that a grammar makes up.

Whatever comes in, a command ends with status 0, or with status 2 and one line; it writes nothing
outside its output folder, and neither time nor memory grow beyond bounds.
"""

from __future__ import annotations

import contextlib
import io
import resource
from collections.abc import Iterable
from pathlib import Path
from time import process_time

import pytest
from faultline.experiments.cli import main
from faultline.experiments.config.keys import schema_keys
from faultline.experiments.config.scenario import Scenario
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_writer import xml_text
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

KEYS = sorted(".".join(path) for path in schema_keys(Scenario))
XML = xml_text(load_preset("hgx-h100", domains=1))
# What makes any scenario small: the last setting of a key counts.
SMALL = ("job.groups=12", "job.steps=10")
MOST_S = 60.0
MOST_BYTES = 2**30

numbers = st.one_of(
    st.integers(-3, 10**6),
    st.floats(),
    st.sampled_from([0, -1, 2**63, 10**30, 1e308, 5e-324, 1e9, 3600.0]),
)
texts = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["spare", "checkpoint", "replication", "weibull", "llama3", "measured", "/dev/zero", "..",
         "$x$", "[red]", "a\x1b[31m", "x" * 300, "1e9", "5min", "50GB/s", "hgx-h100"]
    ),
)  # fmt: skip


def toml_text(text: str) -> str:
    escaped = "".join(
        letter if letter.isalnum() else f"\\U{ord(letter):08x}"
        for letter in text
        if not 0xD800 <= ord(letter) < 0xE000
    )
    return f'"{escaped}"'


def toml_number(number: float) -> str:
    return repr(number) if isinstance(number, float) else str(number)


values = st.one_of(
    numbers.map(toml_number),
    texts.map(toml_text),
    st.sampled_from(["true", "false", "[]", "{}", "[1, 2]", "{ a = 1 }", "2024-05-01"]),
)
assignments = st.tuples(st.sampled_from(KEYS), values).map(" = ".join)
noise = st.one_of(
    texts, st.sampled_from(["[job]", "[[x]]", "=", "[", '"""', "a.b.c = 1", "\r", "\0"])
)
tomls = st.lists(st.one_of(assignments, assignments, noise), max_size=8).map("\n".join)


@st.composite
def spliced(draw: st.DrawFn, text: str, pieces: Iterable[str]) -> str:
    """Return a text with some of it left out, doubled, or replaced by one of the pieces."""
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 60)))
        piece = draw(st.one_of(st.sampled_from(list(pieces)), st.just(text[start:end] * 2), texts))
        text = text[:start] + piece + text[end:]
    return text


xmls = spliced(
    XML,
    ["<zone>", "</zone>", "<config/>", "&lt;", "<!--", '<include file="x"/>', '"', "9" * 400, "GPU",
     'routing="Full"', "<host/>", "</platform>", "\x00", "é"],
)  # fmt: skip
rows = st.lists(
    st.one_of(
        st.tuples(
            numbers.map(str), st.sampled_from(["gpu-0", "host-1", "job", "rack-1", "gpu-99999"])
        ),
        st.tuples(texts, texts),
        st.tuples(numbers.map(str)),
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
    st.tuples(st.just(("platform", "draw", "FILE", "-o", "out/p.png")), xmls),
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
