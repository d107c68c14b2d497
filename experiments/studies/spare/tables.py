"""What the runs of the SPARe study come to, in tables for CSV and for the screen."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from faultline.experiments.analysis.printing import Printed
from faultline.experiments.studies.base import Row, row_of
from faultline.experiments.studies.spare.published import headline, table

_RATIO = "time_to_train_ratio"


def summary_of(runs: pd.DataFrame) -> pd.DataFrame:
    """Return mean and standard deviation over seeds of the study's quantities, a row a cell."""
    quantities = [_RATIO, "availability", "mean_stacks", "restarts", "failures"]
    grouped = runs.groupby(
        ["rules", "strategy", "groups", "redundancy", "distribution"], sort=False
    )[quantities].agg(["mean", "std"])
    grouped.columns = [f"{name}_{kind}".removesuffix("_mean") for name, kind in grouped.columns]
    return grouped.reset_index()


def headline_of(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the headline: a row a scheme and N, published beside simulated."""
    rows = []
    weibull = runs[runs.distribution == "weibull"]
    for known in headline().sort_values(["groups", "scheme"]).itertuples():
        here = weibull[(weibull.strategy == known.scheme) & (weibull.groups == known.groups)]
        at_best = here[here.redundancy == known.redundancy].groupby("rules")
        ratio, availability = at_best[_RATIO].mean(), at_best.availability.mean()
        sound = here[here.rules == "spare-sound"].groupby("redundancy")[_RATIO].mean()
        rows.append(
            {
                "groups": known.groups,
                "scheme": known.scheme,
                "redundancy": known.redundancy,
                "published": known.time_to_train_ratio,
                "published_availability": known.availability,
                "study": ratio["spare-study"],
                "study_availability": availability["spare-study"],
                "sound": ratio["spare-sound"],
                "sound_availability": availability["spare-sound"],
                "sound_best_redundancy": int(sound.idxmin()),
                "sound_best": float(sound.min()),
            }
        )
    return pd.DataFrame(rows)


def closing_sentence(head: pd.DataFrame) -> str:
    """Say what the study's headline comes to, here and under sound rules."""

    def saved(column: str) -> str:
        values = head.pivot_table(index="groups", columns="scheme", values=column)
        shares = sorted(1 - values["spare"] / values["replication"])
        return f"{shares[0]:.0%} to {shares[-1]:.0%}"

    return (
        f"SPARe trains sooner than replication by {saved('study')} under the rules of the study "
        f"(published: {saved('published')}), and by {saved('sound_best')} under sound ones, each "
        "scheme at its best redundancy."
    )


def published_shortcuts() -> dict[tuple[str, str], float]:
    """Return the ratios of the published simulator by shortcut and scheme."""
    known = table("spare_shortcuts")
    pairs = zip(known.shortcut, known.scheme, strict=True)
    return dict(zip(pairs, known[_RATIO], strict=True))


def shortcuts_of(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a row a shortcut and scheme: mean ratio beside that of the published simulator."""
    known = published_shortcuts()
    return pd.DataFrame(
        [
            {
                "shortcut": shortcut,
                "scheme": scheme,
                "simulated": ratios.mean(),
                "standard_deviation": ratios.std(),
                "published": known.get((shortcut, scheme)),
            }
            for (shortcut, scheme), ratios in runs.groupby(["shortcut", "strategy"], sort=False)[
                _RATIO
            ]
        ]
    )


def checkpoint_only_of(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a row a setting and scheme: the share of the steps done, and the ratio."""
    runs = runs.rename(columns={"completed_fraction": "done"})
    return runs.groupby(["setting", "strategy"], sort=False)[["done", _RATIO]].mean().reset_index()


def at_best(runs: pd.DataFrame) -> Iterator[tuple[Row, pd.DataFrame]]:
    """Yield the row and the runs of each assumption and scheme at its best redundancy."""
    for (assumption, scheme), mine in runs.groupby(["assumption", "strategy"], sort=False):
        best = mine.groupby("redundancy")[_RATIO].mean().idxmin()
        chosen = mine[mine.redundancy == best]
        setting = f"N=200 r={best} weibull spare-sound, {assumption}"
        yield row_of(_RATIO, str(scheme), setting, None, list(chosen[_RATIO]), "1"), chosen


def best_of_sensitivity(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a row an assumption and scheme, each at the redundancy of the least mean ratio."""
    return pd.DataFrame(
        [
            {
                "assumption": mine.assumption.iloc[0],
                "scheme": row.scheme,
                "redundancy": mine.redundancy.iloc[0],
                "interval_steps": mine.checkpoint_interval_steps.iloc[0],
                _RATIO: row.simulated,
                "low": row.low,
                "high": row.high,
                "availability": mine.availability.mean(),
                "seeds": len(mine),
            }
            for row, mine in at_best(runs)
        ]
    )


def printed_headline(head: pd.DataFrame) -> Iterator[Printed]:
    """Yield the headline's ratios and availabilities beside the published ones."""
    change = head.study / head.published - 1
    best = [f"{row.sound_best:.2f} (r={row.sound_best_redundancy})" for row in head.itertuples()]
    shown = ["groups", "scheme", "redundancy", "published", "study", "change", "sound", "best"]
    names = {"groups": "N", "redundancy": "r", "study": "simulated", "best": "at best r"}
    ratios = dict.fromkeys(("published", "study", "sound"), "{:.2f}")
    yield Printed(
        "Headline: time-to-train ratio",
        head.assign(change=change, best=best)[shown],
        {**ratios, "change": "{:+.1%}", "best": str},
        names,
    )
    frame = head[["groups", "scheme", "redundancy"]].assign(
        published=head.published_availability,
        study=head.study_availability,
        difference=100 * (head.study_availability - head.published_availability),
        sound=head.sound_availability,
    )
    shares = dict.fromkeys(("published", "study", "sound"), "{:.1%}")
    formats = {**shares, "difference": "{:+.1f} points"}
    yield Printed("Headline: availability", frame, formats, names)


def printed_shortcuts(shortcuts: pd.DataFrame) -> Printed:
    """Return what each shortcut of the published simulator is worth."""
    columns = {"change": shortcuts.shortcut.unique()}
    for scheme in ("spare", "replication"):
        mine = shortcuts[shortcuts.scheme == scheme].set_index("shortcut")
        for column in ("simulated", "published"):
            columns[f"{scheme} {column}"] = mine[column].reindex(columns["change"]).to_numpy()
    return Printed(
        "Shortcuts undone one at a time: time-to-train ratio at N = 200",
        pd.DataFrame(columns),
        dict.fromkeys(list(columns)[1:], "{:.3f}"),
        dict(zip(list(columns)[1:], ("SPARe r=9", "published", "replication r=3", "published"),
                 strict=True)),
    )  # fmt: skip


def printed_sensitivity(best: pd.DataFrame) -> Printed:
    """Return what each assumption of the sound rules is worth, both schemes at their best r."""
    rows = []
    for assumption, mine in best.groupby("assumption", sort=False):
        ratios = mine.set_index("scheme")[_RATIO]
        text = {row.scheme: f"{row.time_to_train_ratio:.2f} (r={row.redundancy})"
                for row in mine.itertuples()}  # fmt: skip
        less = 1 - ratios["spare"] / ratios["replication"]
        rows.append((assumption, text["spare"], text["replication"], less))
    return Printed(
        "Sound rules, one assumption replaced: time-to-train ratio, N = 200, best r",
        pd.DataFrame(rows, columns=["assumption", "SPARe", "replication", "less"]),
        {"SPARe": str, "replication": str, "less": "{:.0%}"},
    )
