"""Published claims, compared with the results of a study: ``data/claims.csv`` of each study.

Columns of a list; all but the first are optional:

- ``claim``: the claim in our words; ``source``: its section or table in the paper; ``system``: the
  system it is about, if a study has several; ``published``: the value.
- ``beside``: evidence, separated by "; ": quantities of the study's rows, its tables
  (``plans.csv``), or a page, a test or a command. ``scheme``, ``setting``: a selection of these
  rows, as patterns (``*`` matches anything) separated by "; ".
- ``test``: the test of the rows (`Test`, `SWEPT`); by default "band".
- ``kind``: the kind of evidence (`base.Kind`); by default "prediction". A study states the kinds
  itself if its rows differ within a claim (`base.listed_rows`).
- ``not_simulated``: why there is no evidence, or a caveat.

Verdicts are counted from simulated rows. Only predictions are evidence: `tally` counts them apart
from all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, Literal

import pandas as pd
from faultline.experiments.studies.base import Kind, Row
from faultline.experiments.studies.data import parts_of

Claims = Sequence[Mapping[str, Any]]
Test = Literal["point", "band", "at least", "at most"]
"""The test of a value: "point": it is near the published one; "band": the published one is between
its ends, or near them; "at least", "at most": the published one is a bound."""

MOST_WIDE = 3.0
"""A band is too wide for a verdict if its ends differ by this factor."""

BOUNDS: tuple[Test, ...] = ("at least", "at most")

SWEPT = "swept"
"""The test of a claim whose rows form one band: they sweep unstated inputs."""

ELSEWHERE = ("docs/", "tests/", "faultline ")
"""Prefixes of evidence that is neither a row nor a table."""

OF_PUBLISHED = ("inside", "outside", "partly", "too wide")
"""Verdicts of rows that have a published value."""

NO_ROW = "no row"
"""The verdict of a claim whose rows were not simulated."""

_COLUMNS = ("system", "claim", "source", "published", "test", "kind", "beside", "scheme", "setting",
            "verdict", "not_simulated")  # fmt: skip


def verdict_of(row: Row, test: Test, within: float) -> tuple[str, float]:
    """Return the verdict of a row with a published value, and its distance.

    The verdict is "inside", "outside", "partly" (the bound holds for a part of the row's range) or
    "too wide" (the row's ends differ by a factor of `MOST_WIDE`, or in sign). The distance is that
    to the nearest allowed value, in the row's unit.

    The row's ends are those of a sweep, or of the interval over seeds. `within` is the tolerance in
    the row's unit; bounds have none.
    """
    published = row.published
    if published is None:
        raise ValueError(f"{row.quantity}, {row.setting}: nothing is published")
    if test in BOUNDS:
        sign = 1.0 if test == "at least" else -1.0
        worst, best = sorted((row.low, row.high), key=lambda end: sign * end)
        if sign * (worst - published) >= 0:
            return "inside", 0.0
        holds = sign * (best - published) >= 0
        return ("partly", 0.0) if holds else ("outside", best - published)
    nearest = min(max(published, row.low), row.high) if test == "band" else row.simulated
    off = nearest - published
    if abs(off) > within:
        return "outside", off
    return ("inside" if test == "point" or _is_narrow(row) else "too wide"), 0.0


def _is_narrow(row: Row) -> bool:
    ends = sorted((abs(row.low), abs(row.high)))
    return row.low == row.high or (row.low * row.high > 0.0 and ends[1] < MOST_WIDE * ends[0])


def labelled(verdict: str, kind: Kind) -> str:
    """Return the counted form of a verdict: unchanged for predictions, otherwise with its kind."""
    if kind == "prediction" or verdict not in OF_PUBLISHED:
        return verdict
    return kind if verdict == "inside" else f"{kind}, {verdict}"


def judged_rows(claims: Claims, rows: Sequence[Row], within: float) -> pd.DataFrame:
    """Return the rows of a study, each with its ``kind``, its ``test`` and its ``verdict``.

    The first claim that names a row determines its test, unless the study states the verdict or the
    kind itself. Rows of a swept claim have the verdict of their band. `within` is the tolerance as
    a share of the published value.
    """
    first: dict[Row, Mapping[str, Any]] = {}
    bands: dict[Row, Row] = {}
    for claim in claims:
        mine = rows_of(claim, rows)
        band = _band_of(mine) if claim.get("test") == SWEPT and mine else None
        for row in mine:
            first.setdefault(row, claim)
            if band is not None:
                bands.setdefault(row, replace(row, low=band.low, high=band.high))
    judgements = []
    for row in rows:
        claim = first.get(row, {})
        kind: Kind = row.kind or claim.get("kind", "prediction")
        published = _published_by(claim) if row.published is None else row.published
        judged_as = replace(bands.get(row, row), published=published)
        judgements.append(
            {
                **row.as_dict(),
                "published": published,
                "kind": kind,
                "test": claim.get("test", "band"),
                "verdict": row.verdict or _judged_row(judged_as, claim, within),
            }
        )
    return pd.DataFrame(judgements)


def tally(judged: pd.DataFrame) -> dict[str, int]:
    """Return the number of rows of `judged_rows` by verdict, as `labelled`."""
    labels = [
        labelled(verdict, kind)
        for verdict, kind in zip(judged["verdict"], judged["kind"], strict=True)
    ]
    return dict(Counter(labels).most_common())


def rows_of(claim: Mapping[str, Any], rows: Sequence[Row]) -> list[Row]:
    """Return the rows that are evidence for a claim."""
    patterns = [parts_of(claim.get(name)) for name in ("beside", "scheme", "setting")]
    return [
        row
        for row in rows
        if _is_like(row.quantity, patterns[0])
        and _is_like(row.scheme, patterns[1] or ["*"])
        and _is_like(row.setting, patterns[2] or ["*"])
    ]


def judged(
    claims: Claims, rows: Sequence[Row], within: float, tables: Collection[str]
) -> pd.DataFrame:
    """Return the claims of a study, with their verdicts; `tables` names its tables.

    ``verdict`` counts the rows of `judged_rows` by their verdict, with the largest error of those
    that are outside.
    """
    frame = pd.DataFrame(
        {**claim, "verdict": _counted(claim, rows_of(claim, rows), within, tables)}
        for claim in claims
    )
    return frame.reindex(columns=[name for name in _COLUMNS if name in frame])


def _counted(
    claim: Mapping[str, Any], mine: list[Row], within: float, tables: Collection[str]
) -> str:
    here = (one for one in parts_of(claim.get("beside")) if not one.startswith(ELSEWHERE))
    made = {row.quantity for row in mine} | {f"{name}.csv" for name in tables}
    if any(not any(fnmatchcase(name, one) for name in made) for one in here):
        return NO_ROW
    if not mine:
        return ""
    if claim.get("test") == SWEPT:
        mine = [_band_of(mine)]
    table = judged_rows([claim], mine, within)
    printed = ", ".join(f"{number} {label}" for label, number in tally(table).items())
    published = table.published.astype(float)
    errors = table.simulated / published.where(published != 0) - 1.0
    errors = errors[table.verdict == "outside"].dropna()
    worst = f" (worst {errors[errors.abs().idxmax()]:+.0%})" if len(errors) else ""
    return f"{printed}{worst}"


def _band_of(rows: Sequence[Row]) -> Row:
    """Return the rows of a sweep as one."""
    return replace(rows[0], low=min(row.low for row in rows), high=max(row.high for row in rows))


def _published_by(claim: Mapping[str, Any]) -> float | None:
    """Return the number that a claim states; texts name a table, or several values."""
    published = claim.get("published")
    return float(published) if isinstance(published, int | float) else None


def _judged_row(row: Row, claim: Mapping[str, Any], within: float) -> str:
    if row.published is None:
        return "predicted"
    test = claim.get("test", "band")
    return verdict_of(row, "band" if test == SWEPT else test, within * abs(row.published))[0]


def _is_like(value: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(value, pattern) for pattern in patterns)
