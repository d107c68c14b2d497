#!/usr/bin/env python3
"""Write the numbers of the pages that come from published tables.

.ci/page_numbers.py

A number or a table of a page stands between ``<!--=NAME-->`` and ``<!--/-->``. This script computes
all of them into ``results/published/numbers.json``, and fills the pages from that file. `make
publish` calls it at its end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import reproductions
import study_numbers
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.figures.palette import title_of
from faultline.experiments.job.recoveries import ExplainedRecovery, explained_recoveries
from faultline.experiments.studies.head_to_head.figures import name_of
from faultline.experiments.studies.head_to_head.grids import JOBS, MAPS_OF
from faultline.experiments.studies.step_time.accuracy import error_of_most
from study_numbers import PUBLISHED, percent, read

ROOT = Path(__file__).resolve().parents[1]
FILE = PUBLISHED / "numbers.json"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
SPAN = re.compile(r"<!--=(\w[\w-]*\.[\w.-]+)-->(.*?)<!--/-->", re.DOTALL)
_LEAST_SHARE = 0.05
"""Of a map's cells: schemes with a smaller share are left out."""


def _minutes(seconds: float) -> str:
    """Return a time in hours and minutes, as ``1 h 45 min``."""
    hours, minutes = divmod(round(seconds / 60), 60)
    parts = [f"{hours} h"] * bool(hours) + [f"{minutes} min"] * bool(minutes)
    return " ".join(parts) or "0 min"


def step_times() -> Iterator[tuple[str, str]]:
    """Yield how well published steps are predicted."""
    table = read("step-time")
    mine = table[~table.fitted & table.error.notna()].drop_duplicates("case")
    yield "rows", f"{len(mine)}"
    for name, errors in (("ours", mine.error.abs()), ("constant", mine.constant.abs())):
        yield f"{name}-mean", f"{100 * errors.mean():.1f} %"
        yield f"{name}-within-10", f"{(errors <= 0.1).sum()}"
    yield "interval", f"{100 * error_of_most(mine.error):.1f} %"
    ranged = mine[mine.low != mine.high]
    yield "ranged", f"{len(ranged)}"
    yield "ranged-held", f"{ranged.published.between(ranged.low, ranged.high).sum()}"
    errors = read("step-time-errors").set_index("worst_case").worst
    yield "worst", f"{errors.idxmax()}, {errors.max():.0f} % off"
    row = table.drop_duplicates("case").set_index("case").loc["A4 8192 Megatron-LM"]
    collided = (row.step_s + row.data_parallel_s) / row.published - 1.0
    yield "collided", f"{100 * row.error:.1f} to {100 * collided:.1f} %"


def crossings() -> Iterator[tuple[str, str]]:
    """Yield at which rate checkpoints alone begin to train sooner than SPARe, by groups."""
    table = read("failure-rates-crossings")
    known = table[(table.seldom == "checkpoint") & (table.rules == "spare-sound")]
    known = known[known.often == "spare"].sort_values("groups")
    for distribution, mine in known.groupby("distribution"):
        *first, last = map(_minutes, mine.mtbf_s)
        yield str(distribution), f"{', '.join(first)} and {last}"


def spare() -> Iterator[tuple[str, str]]:
    """Yield the headline of SPARe against replication, and what its assumptions are worth."""
    headline, savings = read("spare-headline"), read("spare-savings")
    yield "table", _headline_table(headline)
    study, sound = (savings[savings.rules == rules] for rules in ("spare-study", "spare-sound"))
    yield "published-saving", f"{percent(study.published.min(), study.published.max())} %"
    yield "sound-saving", f"{percent(sound.saved.min(), sound.saved.max())} %"
    off = headline.study / headline.published - 1.0
    yield "most-off", f"{100 * off.abs().max():.1f} %"
    sensitivity = read("spare-sound-sensitivity").set_index(["assumption", "scheme"])
    lines = [
        "| assumption | SPARe | replication | SPARe takes less by |",
        "| --- | ---: | ---: | ---: |",
    ]
    shares = []
    for assumption in sensitivity.index.unique("assumption"):
        ours, theirs = (sensitivity.loc[(assumption, name)] for name in ("spare", "replication"))
        shares.append(1.0 - ours.time_to_train_ratio / theirs.time_to_train_ratio)
        cells = [
            f"{one.time_to_train_ratio:.2f} (r = {one.redundancy:.0f})" for one in (ours, theirs)
        ]
        lines.append(
            f"| {assumption} | {' | '.join(cells)} | {shares[-1]:.0%} |".replace("%", " %")
        )
    yield "sensitivity", "\n".join(lines)
    yield "replaced-saving", f"{percent(min(shares[1:]), max(shares[1:]))} %"


def _headline_table(headline: pd.DataFrame) -> str:
    lines = [
        "| N | scheme | r | published | study rules | difference | sound rules "
        "| sound rules, at best r |",
        "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in headline.itertuples():
        points = 100 * (row.study_availability - row.published_availability)
        best = f"{row.sound_best:.2f} (r = {row.sound_best_redundancy}; "
        best += f"{row.sound_best_low:.2f} to {row.sound_best_high:.2f})"
        lines.append(
            f"| {row.groups} | {title_of(row.scheme)} | {row.redundancy} "
            f"| {row.published:.2f} / {row.published_availability:.1%} "
            f"| {row.study:.2f} / {row.study_availability:.1%} "
            f"| {row.study / row.published - 1:+.1%} / {points:+.1f} points "
            f"| {row.sound:.2f} / {row.sound_availability:.1%} | {best} |"
        )
    return "\n".join(lines)


def reft() -> Iterator[tuple[str, str]]:
    """Yield ratios by protection, and a table of them by the placement of peers."""
    rows = read("reft-rows")
    ratios = rows[rows.quantity == "time_to_train_ratio"].set_index(["scheme", "setting"])
    for scheme in ("spare", "checkpoint"):
        on = [
            next(iter(mine.filter(regex=rf"^{name}, restart 60 min, r=")))
            for name in ("storage", "reft")
            for mine in (ratios.simulated.loc[scheme],)
        ]
        yield scheme, "{:#.3g} to {:#.3g}".format(*on)
    yield "placements", _placements_table(rows)


def _placements_table(rows: pd.DataFrame) -> str:
    mine = rows[rows.setting.str.endswith("on storage every 20 steps")]
    values = mine.set_index(["quantity", "scheme", "setting"]).simulated
    lines = ["| failures of | placement | REFT | GEMINI |", "| --- | --- | ---: | ---: |"]
    for failures in ("hosts", "1 in 5 a domain", "whole groups"):
        for placement in ("across-domains", "neighbours"):
            setting = f"failures of {failures}, {placement}, on storage every 20 steps"
            cells = [
                f"{values['time_to_train_ratio', f'checkpoint on {name}', setting]:.2f} "
                f"({100 * values['restarts from memory', f'checkpoint on {name}', setting]:.0f} %)"
                for name in ("reft", "gemini")
            ]
            what = "hosts; 1 in 5 a domain" if failures.startswith("1") else failures
            lines.append(f"| {what} | {placement.replace('-', ' ')} | {' | '.join(cells)} |")
    return "\n".join(lines)


def greyhound() -> Iterator[tuple[str, str]]:
    """Yield what mitigation of stragglers leaves."""
    rows = read("greyhound-rows")
    speeds = rows[rows.quantity == "steps a minute"].set_index(["scheme", "setting"])
    swept = speeds.loc[("ski-rental", "12 injections, 256 GPUs, swept")]
    yield "swept", f"{swept.low:.1f} to {swept.high:.1f}, {swept.simulated:.1f} on average"
    left = rows[(rows.quantity == "step over a sound one") & (rows.scheme == "redeal")].simulated
    yield "left", "{:.2f}, {:.2f} and {:.2f}".format(*left)


def rejoining() -> Iterator[tuple[str, str]]:
    """Yield SPARe's ratio without and with groups that rejoin, and that of checkpoints alone."""
    table = read("failure-rates").set_index(["rules", "distribution", "groups", "mtbf_s"])
    mine = table.loc[("spare-sound", "weibull", 200)].set_index("strategy", append=True)
    ratios = mine.time_to_train_ratio
    for name, rate_s in (("5min", 300.0), ("3h", 10_800.0), ("1d", 86_400.0)):
        spare, rejoined = ratios[rate_s, "spare"], ratios[rate_s, "spare-rejoining"]
        yield name, f"{spare:.2f} to {rejoined:.2f}"
        if rate_s > 3600.0:  # Checkpoints alone hardly train if failures are more frequent.
            yield f"{name}-checkpoint", f"{ratios[rate_s, 'checkpoint']:.2f}"


def head_to_head() -> Iterator[tuple[str, str]]:
    """Yield ratios of all schemes in all settings, and shares of the maps."""
    yield "ratios", _ratios_table()
    yield "maps", _maps_table()
    yield from _half_speeds()
    steps = (
        read("head-to-head-settings").step_s,
        read("head-to-head-interleaved").step_s,
    )
    yield "step", f"{steps[0].iloc[0]:.1f} s"
    yield "interleaved-step", f"{steps[1].iloc[0]:.1f} s"
    layers = read("head-to-head-layers").dropna(subset="ratio").sort_values("x")
    of_layers = [f"{row.ratio:.3f} with {row.x:.0f}" for row in layers.itertuples()]
    yield "oobleck-layers", ", ".join(of_layers)


def _ratios_table() -> str:
    columns = {
        "calm, queue": ("settings", 0, 0),
        "calm, standbys": ("settings", 0, 1),
        "today, queue": ("settings", 1, 0),
        "today, standbys": ("settings", 1, 1),
        "storm, queue": ("settings", 2, 0),
        "storm, standbys": ("settings", 2, 1),
        "60 s": ("stalls", 60, 0),
        "180 s": ("stalls", 180, 0),
        "300 s": ("stalls", 300, 0),
        "interleaved, queue": ("interleaved", 4, 0),
        "interleaved, standbys": ("interleaved", 4, 1),
    }
    best = {
        name: read(f"head-to-head-{name}").groupby(["scheme", "x", "y"]).ratio.min()
        for name in ("settings", "stalls", "interleaved")
    }
    order = best["settings"].loc[:, 1, 1].sort_values().index
    lines = [f"| scheme | {' | '.join(columns)} |", f"| --- |{' ---: |' * len(columns)}"]
    for scheme in order:
        cells = []
        for plane, x, y in columns.values():
            ratio = best[plane].get((scheme, x, y))
            digits = 2 if plane == "settings" and x == 2 else 3
            cells.append("" if pd.isna(ratio) else f"{ratio:.{digits}f}")
        lines.append(f"| {name_of(scheme).removesuffix('*')} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _half_speeds() -> Iterator[tuple[str, str]]:
    """Yield the time per token with GPUs or a kind of link at half the speed, over that without."""
    rows = read("head-to-head-links")
    times = (rows.ratio * rows.step_s).groupby([rows.x, rows.y, rows.scheme]).min()
    shares = times / times.loc[0].reindex(times.index.droplevel("x")).to_numpy()
    for x, name in ((1, "gpus"), (2, "nvlink")):
        ends = dict.fromkeys(f"{end:.2f}" for end in (shares.loc[x].min(), shares.loc[x].max()))
        yield f"slow-{name}", " to ".join(ends)
    yield "slow-rest", f"{shares.loc[3:].max():.2f}"


def _maps_table() -> str:
    """Return the schemes with 5 % of a map's cells and more, and how sure they are."""
    cells = read("head-to-head-maps")
    columns = max(MAPS_OF.values(), key=len)
    lines = [f"| job | {' | '.join(columns)} |", f"|{' --- |' * (1 + len(columns))}"]
    for job, title in JOBS.items():
        entries = []
        for name in columns:
            mine = cells[(cells.job == job) & (cells["map"] == name)]
            entries.append(_map_cell(mine) if len(mine) else "")
        lines.append(f"| {title} | {' | '.join(entries)} |")
    return "\n".join(lines)


def _map_cell(cells: pd.DataFrame) -> str:
    shares = cells.best.value_counts(normalize=True)
    schemes = ", ".join(
        f"{title_of(str(scheme))} {100 * share:.0f} %"
        for scheme, share in shares.items()
        if share >= _LEAST_SHARE
    )
    return f"{schemes} ({100 * cells.probability.mean():.0f} %)"


def recoveries() -> Iterator[tuple[str, str]]:
    """Yield how long recoveries take in the job of the head-to-head, and which are met."""
    schemes = ["checkpoint", "spare", "mecefo", "oobleck"]
    priced = {
        one.scheme: one
        for one in explained_recoveries(load_scenario("head-to-head"), schemes)
        if isinstance(one, ExplainedRecovery) and one.event == "a GPU fails"
    }
    (queue_s,) = (one.duration_s for one in priced["checkpoint"].phases if one.name == "hardware")
    yield "queue", f"{queue_s:.0f} s"
    for scheme in schemes[1:]:
        yield scheme, f"{priced[scheme].duration_s:.0f} s"
    rows = read("recovery-rows")
    rows = rows[rows.quantity == "recovery"]
    predicted = rows[rows.kind == "prediction"]
    yield "met", f"{(predicted.verdict == 'inside').sum()} of {len(predicted)}"
    yield "measured", f"{len(rows)}"
    counts = rows.kind.value_counts()
    yield "fitted", f"{counts['calibrated']}"
    yield "repeated", f"{counts['same constant']}"


_GROUPS: dict[str, Callable[[], Iterator[tuple[str, str]]]] = {
    "step-time": step_times,
    "spare": spare,
    "reft": reft,
    "greyhound": greyhound,
    "crossings": crossings,
    "rejoining": rejoining,
    "head-to-head": head_to_head,
    "recovery": recoveries,
    "mecefo": study_numbers.mecefo,
    "ntp": study_numbers.ntp,
    "operators": study_numbers.operators,
    "collectives": study_numbers.collectives,
    "reproductions": lambda: iter([("table", reproductions.table())]),
}


def numbers() -> dict[str, str]:
    """Return the text of each number by its name, from the published tables."""
    return {f"{group}.{name}": text for group, named in _GROUPS.items() for name, text in named()}


def filled(page: str, texts: dict[str, str]) -> str:
    """Return a page with its numbers; a KeyError names one that is unknown."""

    def fill(span: re.Match[str]) -> str:
        text = texts[span[1]]
        inner = f"\n\n{text}\n\n" if "\n" in text else text
        return f"<!--={span[1]}-->{inner}<!--/-->"

    return SPAN.sub(fill, page)


def main() -> None:
    """Write the file of numbers, and the pages."""
    texts = numbers()
    FILE.write_text(json.dumps(texts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        path.write_text(filled(page, texts), encoding="utf-8")


if __name__ == "__main__":
    main()
