"""``faultline failures``: what models produce, logs, and one line for mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.experiments.config.mix_file import load_mix
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.failure_model import failure_model

from tests.experiments.command_line import Cli

COMMAND = ("failures",)


def test_drawn_counts_are_within_what_a_poisson_process_gives(cli: Cli) -> None:
    """Ten times Llama 3's days: of 18 causes, two outside 95 % are to be expected."""
    drawn = cli.json("draw", "llama3", "--days", "540", "--seed", "1")
    assert (drawn["gpus"], drawn["groups"]) == (16_384, 128)
    assert drawn["mtbf_s"] == pytest.approx(540 * 86_400 / 4190)
    assert drawn["drawn_mtbf_s"] == pytest.approx(drawn["mtbf_s"], rel=4 / 4190**0.5)
    counts = {cause["name"]: cause["failures"] for cause in drawn["causes"]}
    assert sum(counts.values()) == drawn["failures"]
    assert next(iter(counts)) == "faulty-gpu"
    expected = {
        cause.name: cause.rate_per_gpu_s * 16_384 * 540 * 86_400
        for cause in load_mix("llama3").causes()
    }
    outside = [
        name
        for name, mean in expected.items()
        if abs(counts.get(name, 0) - mean) > 1.96 * mean**0.5 + 0.5
    ]
    assert len(outside) <= 3


@pytest.mark.parametrize(
    "settings",
    [
        # Kinds that stop nothing, and bursts.
        ["failures.mix=llama3-kinds", "failures.kinds.correlated_excess=3"],
        # Several components at once, a shape, and a cause that is never drawn.
        ["failures.mix={mix}"],
    ],
)
def test_expected_numbers_are_the_means_of_drawn_ones(
    settings: list[str], tmp_path: Path, cli: Cli
) -> None:
    mix = tmp_path / "ours.toml"
    mix.write_text(
        'source = "x"\n[[cause]]\nname = "power"\nper_1000_node_days = 40\nlevel = "domain"\n'
        'kind = "hardware"\nat_once = 3\n[[cause]]\nname = "young"\nper_1000_node_days = 2\n'
        'level = "host"\nkind = "network"\nshape = 0.5\n'
        '[[cause]]\nname = "never"\nper_1000_node_days = 1e-6\nlevel = "job"\nkind = "software"\n',
        encoding="utf-8",
    )
    scenario = ["spare-sound", "--set", "failures.model=mix", "--set", "job.gpus=1024"]
    words = [word for one in settings for word in ("--set", one.format(mix=mix))]
    drawn = [
        cli.json("draw", *scenario, *words, "--days", "30", "--seed", seed) for seed in range(12)
    ]
    total = sum(one["failures"] for one in drawn)
    expected = 12 * drawn[0]["expected_failures"]
    assert total == pytest.approx(expected, abs=4 * (10 * expected) ** 0.5)
    if "{mix}" in settings[0]:
        assert drawn[0]["mtbf_s"] == pytest.approx(12 * 30 * 86_400 / expected, rel=0.01)
    assert expected == pytest.approx(
        12 * sum(cause["expected_failures"] for cause in drawn[0]["causes"])
    )
    counts = dict[str, int]()
    for cause in (cause for one in drawn for cause in one["causes"]):
        counts[cause["name"]] = counts.get(cause["name"], 0) + cause["failures"]
    for cause in drawn[0]["causes"]:
        mean = 12 * cause["expected_failures"]
        # Bursts and geometric numbers at once have at most ten times a Poisson variance.
        assert counts[cause["name"]] == pytest.approx(mean, abs=4 * (10 * mean) ** 0.5 + 1)


def test_small_groups_share_hosts_and_switches(cli: Cli) -> None:
    words = ["draw", "llama3", "--set", "job.groups=4096", "--set", "failures.gpus_per_switch=64"]
    drawn = cli.json(*words)
    shared = {cause["level"]: 0 for cause in drawn["causes"]}
    for cause in drawn["causes"]:
        shared[cause["level"]] += cause["failures_on_many_groups"]
        on_many = cause["failures"] if cause["level"] in ("host", "switch") else 0
        assert cause["failures_on_many_groups"] == on_many
    assert shared["host"] > 0
    assert drawn["share_on_many_groups"] == sum(shared.values()) / drawn["failures"]


@pytest.mark.parametrize("what", ["llama3", "spare-sound"])
def test_a_drawn_trace_gives_the_same_failures_again(what: str, tmp_path: Path, cli: Cli) -> None:
    """As the command draws them, and as the clocks of a run meet them."""
    path = tmp_path / "again.csv"
    days, job = "4", ["--set", "job.gpus=16384", "--set", "job.groups=1024"]
    first = cli.json("draw", what, "--days", days, *job, "-o", str(path))
    second = cli.json("draw", str(path), "--days", days, *job)
    assert first["failures"] == second["failures"] > 20
    counts = [
        {cause["name"]: cause["failures"] for cause in drawn["causes"] if cause["failures"]}
        for drawn in (first, second)
    ]
    assert counts[0] == counts[1]
    model = [] if what == "spare-sound" else ["failures.model=mix"]
    settings = ["job.gpus=16384", "job.groups=1024"]
    original = failure_model(load_scenario("spare-sound", [*settings, *model]))
    trace = ["failures.model=trace", f'failures.trace="{path}"']
    read_back = failure_model(load_scenario("spare-sound", [*settings, *trace]))
    span_s = 4 * 86_400.0
    assert read_back.failures_until(span_s, 7) == original.failures_until(span_s, 0)
    clocks = original.clocks(0, "renewal"), read_back.clocks(0, "renewal")
    for group in range(1024):
        for one in clocks:
            one.take_while_down(group, span_s)
    assert clocks[0].hits == clocks[1].hits > 20


def test_a_weibull_of_independent_groups_fails_most_when_young(cli: Cli) -> None:
    """Over 2 of the groups' mean of 0.7 days: the renewal function exceeds t/mean by up to 34 %."""
    drawn = cli.json("draw", "spare-study", "--days", "1.4", "--seed", "3")
    assert 1.05 < drawn["failures"] / (1.4 * 86_400 / 300) < 1.35
    assert drawn["failures"] == pytest.approx(drawn["expected_failures"], rel=0.15)


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["draw", "nowhere.csv"], "nowhere.csv"),
        (["draw", "llama3", "--days", "inf"], "--days"),
        (["draw", "llama3", "--days", "1e6", "--gpus", "1000000000"], "draw less than"),
        (["draw", "llama3", "--set", "failures.gpus_per_host=0"], "gpus_per_host"),
        (["draw", "llama3", "--days", "1e-9", "-o", "x.png"], "draw more days"),
        (["draw", "llama3", "-o", "x.xyz"], "x.xyz"),
        (["draw", "llama3", "-o", "no-such-directory/x.csv"], "no-such-directory"),
        ([], "SUBCOMMAND"),
    ],
)
def test_mistakes_are_reported_in_one_line(
    words: list[str],
    printed: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cli: Cli,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert printed in cli.refused(*words)


LOG = "time,node,cause,kind,repair\n" + "".join(
    f"{hour}h,n{hour % 7},{'memory' if hour % 3 else 'bug'},"
    f"{'hardware' if hour % 3 else 'software'},{hour}min\n"
    for hour in range(1, 60)
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(LOG, encoding="utf-8")
    return path


def test_a_log_is_imported_and_simulated(log: Path, tmp_path: Path, cli: Cli) -> None:
    trace = tmp_path / "trace.csv"
    arguments = ("import", log, "--nodes", "16", "-o", trace)
    printed = cli.json(*arguments)
    assert (printed["failures"], printed["nodes"], printed["nodes_in_order"][0]) == (59, 16, "n0")
    assert "--set job.gpus=128" in cli(*arguments)
    drawing = cli.json("draw", trace, "--gpus", "128", "--days", "3")
    assert (drawing["process"], drawing["failures"]) == ("trace", 59)
    assert drawing["expected_failures"] is None


def test_the_printed_settings_run_a_job_that_has_a_mix(log: Path, tmp_path: Path, cli: Cli) -> None:
    job = tmp_path / "job.toml"
    job.write_text(
        'name = "mixed"\n[job]\ngpus = 256\ngroups = 32\nsteps = 3\n'
        '[failures]\nmodel = "mix"\nmix = "llama3"\n',
        encoding="utf-8",
    )
    printed = cli("import", log, "--nodes", "32", "-o", tmp_path / "trace.csv")
    settings = printed.split("run it with ")[1].split()
    loaded = load_scenario(str(job), settings[1::2])
    assert settings[::2] == ["--set"] * (len(settings) // 2)
    assert len(failure_model(loaded).failures_until(3 * 86_400.0, 0)) == 59


def test_columns_are_mapped_on_the_command_line(tmp_path: Path, cli: Cli) -> None:
    theirs, trace = tmp_path / "theirs.csv", tmp_path / "trace.csv"
    theirs.write_text("when,machine,notes\n1h,a,x\n2h,b,y\n", encoding="utf-8")
    words = ["import", theirs, "-o", trace, "--columns"]
    assert "left out: columns 'notes'" in cli.json(*words, "time=when,node=machine")["notes"]
    assert "column node is missing" in cli.refused(*words, "time=when")
    assert "write NAME=COLUMN once for each" in cli.refused(*words, "time=when,node")


def test_a_log_is_fitted(log: Path, tmp_path: Path, cli: Cli) -> None:
    mix, figure = tmp_path / "ours.toml", tmp_path / "fit.png"
    arguments = ("fit", log, "--nodes", "16", "--days", "3")
    assert "59 failures of 16 nodes in 3 d" in cli(*arguments, "-o", mix, "-o", figure)
    assert figure.is_file()
    printed = cli.json(*arguments)
    memory = next(cause for cause in printed["causes"] if cause["name"] == "memory")
    assert memory["failures"] == 40
    assert memory["per_1000_node_days"]["value"] == pytest.approx(40 / (16 * 3) * 1000)
    cli("draw", mix, "--days", "3")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "{log}", "--nodes", "3"], "--nodes 3: "),
        (["fit", "{log}", "-o", "{folder}/fit.nothing"], "-o: "),
        (["fit", "{log}", "-o", "{folder}/no/mix.toml"], "-o "),
        (["import", "{log}", "-o", "{folder}"], "-o: "),
        (["import", "{folder}", "-o", "x.csv"], "a folder, not a regular file; name a log"),
    ],
)
def test_what_cannot_be_done_with_a_log_is_reported_in_a_line(
    arguments: list[str], message: str, log: Path, tmp_path: Path, cli: Cli
) -> None:
    assert message in cli.refused(*(one.format(log=log, folder=tmp_path) for one in arguments))
