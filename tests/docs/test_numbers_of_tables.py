"""Numbers of pages are those of the published tables, which `make publish` writes."""

from __future__ import annotations

import re
from math import nan

import pandas as pd
import pytest
from faultline.experiments.studies.head_to_head.figures import name_of

from tests.docs.pages import ROOT, numbers, page

PUBLISHED = ROOT / "results" / "published"


def published(name: str) -> pd.DataFrame:
    return pd.read_csv(PUBLISHED / f"{name}.csv")


def test_errors_of_step_times() -> None:
    text = page("step-time.md")
    for row in published("step-time-errors").itertuples():
        mean_goal, worst_goal = (
            "" if pd.isna(goal) else f"{goal:.1f}" for goal in (row.mean_goal, row.worst_goal)
        )
        ours = f"| {row.section} | {row.rows} | {row.mean:.1f} | {mean_goal} | {row.worst:.1f} | "
        assert f"{ours}{worst_goal} | {row.worst_case} | {row.constant:.1f} |" in text


def test_counts_of_step_times() -> None:
    table = published("step-time")
    mine = table[~table.fitted & table.error.notna()].drop_duplicates("case")
    assert numbers(
        "docs/step-time.md",
        r"(\d+) of them predicted with a mean error of ([\d.]+) %, (\d+) within 10 %.*?misses the "
        r"same (\d+) by ([\d.]+) %, and meets (\d+) within",
    ) == [
        len(mine),
        round(100 * mine.error.abs().mean(), 1),
        (mine.error.abs() <= 0.1).sum(),
        len(mine),
        round(100 * mine.constant.abs().mean(), 1),
        (mine.constant.abs() <= 0.1).sum(),
    ]
    is_open = mine[mine.low != mine.high]
    held = is_open.published.between(is_open.low, is_open.high).sum()
    sentence = r"Of (\d+) published rows that have a range, (\d+) "
    assert numbers("docs/step-time.md", sentence) == [len(is_open), held]


def test_the_range_of_attention_at_long_context() -> None:
    table = published("step-time").set_index(["case", "unit"]).loc["A3 16384 131K"]
    rate, step = table.loc["TFLOP/s"], table.loc["s"]
    assert numbers(
        "docs/step-time.md",
        r"A3 131K: (\d+) TFLOP/s a GPU .*? and (\d+) with FlashAttention-3, a step of ([\d.]+) or "
        r"([\d.]+) s",
    ) == [round(rate.simulated), round(rate.high), round(step.simulated, 1), round(step.low, 1)]
    share = round(100 * step.context_s / step.step_s, 1)
    assert numbers("docs/step-time.md", r"takes ([\d.]+) % of the step of A3 131K") == [share]


def test_what_collisions_would_add_to_published_steps() -> None:
    """The exchange between replicas takes twice as long where flows collide."""
    rows = published("step-time").drop_duplicates("case").set_index("case")
    for system in ("Megatron-LM", "MegaScale"):
        row = rows.loc[f"A4 8192 {system}"]
        with_collisions = (row.step_s + row.data_parallel_s) / row.published - 1.0
        assert numbers(
            "docs/step-time.md",
            rf"([\d.]+) s to the step of {system}, and turn (-[\d.]+) into\s+(-[\d.]+) %",
        ) == [
            round(row.data_parallel_s, 2),
            round(100 * row.error, 1),
            round(100 * with_collisions, 1),
        ], system


_HOURS = r"(?:(\d+) h)?(?: ?(\d+)(?: min)?)?"


def _minutes(text: str) -> float:
    """Return a time as pages write it, ``1 h 45 min``, in minutes; a last unit may be left out."""
    found = re.fullmatch(_HOURS, text.strip())
    assert found, text
    return 60 * float(found[1] or 0) + float(found[2] or 0)


def test_crossings_of_failure_rates() -> None:
    table = published("failure-rates-crossings")
    known = table[table.mtbf_s.notna() & (table.seldom == "checkpoint")]
    known = known[known.rules == "spare-sound"]
    known = known.set_index(["rules", "distribution", "groups", "often"])
    lines = re.findall(r"^\| (sound) \| (\w+) \| (\d+) \|(.*)\|$", page("results.md"), re.MULTILINE)
    assert 2 * len(lines) == len(known)
    for rules, failures, groups, cells in lines:
        over_spare, forms, over_replication, other_forms = cells.split("|")
        for often, text, form in (
            ("spare", over_spare, forms),
            ("replication", over_replication, other_forms),
        ):
            row = known.loc[(f"spare-{rules}", failures.lower(), int(groups), often)]
            found = re.fullmatch(r" (.*) \((.*) to (.*)\) ", text)
            assert found, text
            stated = [*map(_minutes, found.groups()), _minutes(form)]
            exact = [row.mtbf_s, row.low_s, row.high_s, row.closed_form_s]
            assert stated == [round(each_s / 60) for each_s in exact], (
                rules,
                failures,
                groups,
                often,
            )


def test_ratios_of_groups_that_rejoin() -> None:
    table = published("failure-rates").set_index(["rules", "distribution", "groups", "mtbf_s"])
    mine = table.loc[("spare-sound", "weibull", 200)].set_index("strategy", append=True)
    ratios = mine.time_to_train_ratio.round(2)
    stated = numbers(
        "docs/results.md",
        r"falls from ([\d.]+) to ([\d.]+) with a failure every 5 min, from ([\d.]+) to ([\d.]+) "
        r"with one every 2 h, from ([\d.]+) to ([\d.]+) with one every 3 h \(checkpoints alone: "
        r"([\d.]+)\), and from ([\d.]+) to ([\d.]+) with one a day \(([\d.]+)\)",
    )
    pair = ("spare", "spare-rejoining")
    wanted = [(300.0, pair), (7200.0, pair), (10_800.0, (*pair, "checkpoint"))]
    wanted += [(86_400.0, (*pair, "checkpoint"))]
    assert stated == [ratios[rate, scheme] for rate, schemes in wanted for scheme in schemes]
    both = mine.time_to_train_ratio.unstack().loc[7200.0:]
    lead = both["spare-rejoining"] / both["checkpoint"] - 1.0
    assert (lead.loc[:10_800.0] < 0.0).all()
    assert lead.loc[21_600.0:].between(0.0, 0.03).all()


def _ratios(plane: str, places: list[tuple[float, float]]) -> dict[str, list[float]]:
    """Return the ratios of each scheme with the protection that is its best at each place."""
    table = published(f"head-to-head-{plane}")
    best = table.groupby(["scheme", "x", "y"]).ratio.min()
    schemes = best.index.get_level_values("scheme").unique()
    return {
        name_of(scheme).lower().removesuffix("*"): [
            best.get((scheme, *place), nan) for place in places
        ]
        for scheme in schemes
    }


def test_ratios_of_the_head_to_head() -> None:
    planes: dict[str, list[tuple[float, float]]] = {
        "settings": [(x, y) for x in range(3) for y in range(2)],
        "stalls": [(60, 0), (180, 0), (300, 0)],
        "interleaved": [(4, 0), (4, 1)],
    }
    known = [_ratios(plane, places) for plane, places in planes.items()]
    cells = r" (\d\.\d+) \|" * sum(map(len, planes.values()))
    lines = re.findall(
        rf"^\| ([A-Za-z -]+?)(?: \(does not fit.*?\))? \|{cells}$",
        page("head-to-head.md"),
        re.MULTILINE,
    )
    assert len(lines) > 10
    for name, *ratios in lines:
        published_ratios = [ratio for table in known for ratio in table[name.lower()]]
        for printed, ratio in zip(ratios, published_ratios, strict=True):
            decimals = len(printed.partition(".")[2])
            # The published table has five digits: a half may have been rounded either way.
            assert float(printed) == pytest.approx(ratio, abs=0.5001 * 10**-decimals), (
                name,
                printed,
            )


def test_oobleck_moves_with_the_layers() -> None:
    table = published("head-to-head-layers").sort_values("x")
    stated = numbers(
        "docs/head-to-head.md",
        r"divisibility of the layer count: ([\d.]+) with (\d+), ([\d.]+) with (\d+), ([\d.]+) with "
        r"(\d+), ([\d.]+) with (\d+) layers",
    )
    assert stated[1::2] == table.x.to_list()
    assert stated[::2] == pytest.approx(table.ratio.to_list(), abs=5.001e-4)
