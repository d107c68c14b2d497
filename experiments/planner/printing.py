"""Prints an answer: one table, and what it means in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from faultline.experiments.analysis.decision import INDIFFERENCE
from faultline.experiments.analysis.quantities import (
    duration_text,
    number_text,
    percent_text,
    time_text,
)
from faultline.experiments.analysis.sensitivity import Swing
from faultline.experiments.config.keys import path_of
from faultline.experiments.config.reference import unmet_condition, value_in_force
from faultline.experiments.config.toml_text import written
from faultline.experiments.planner.answer import CAP, Answer, Row
from faultline.experiments.planner.choice_texts import (
    gpu_memory,
    set_up_parts,
    short_text,
    usual_parts,
)
from faultline.experiments.planner.sentences import (
    answer_sentences,
    band_text,
    endings_texts,
    left_out_texts,
    remarks,
)
from faultline.experiments.report.tables import Table, TableColumn, on_screen, table_of
from rich.console import Console, RenderableType
from rich.text import Text

WIDEST = 100
"""Columns of a terminal that the table uses at most."""

_GIVEN = (
    "recovery.hardware",
    "recovery.standbys",
    "recovery.shortage",
    "model.virtual_stages",
    "model.optimizer_backup",
)
"""Facts that decide, and that an operator knows: they are stated, and never averaged over."""

_MANY_GPU_HOURS = 1e5


def print_answer(
    console: Console,
    answer: Answer,
    found: Sequence[Swing] = (),
    price_per_gpu_hour: float | None = None,
    *,
    explain: bool = False,
) -> None:
    """Print the job in a line, the table, and the sentences; with `explain`, all legends."""
    for part in answer_parts(answer, found, price_per_gpu_hour, explain=explain):
        console.print(part, width=min(console.width, WIDEST))


def answer_parts(
    answer: Answer,
    found: Sequence[Swing] = (),
    price_per_gpu_hour: float | None = None,
    *,
    explain: bool = False,
) -> Iterator[RenderableType]:
    """Yield what `print_answer` prints."""
    title, *job = job_texts(answer)
    yield Text(title, "bold")
    assumptions = (f"- {assumption}" for assumption in answer.situation.assumptions)
    for line in (*((*job, *assumptions) if explain else ()), *remarks(answer)):
        yield Text(line)
    if answer.rows:
        table = answer_table(answer, price_per_gpu_hour)
        yield Text(table.caption)
        yield on_screen(replace(table, caption=""), 7)
    for line in endings_texts(answer):
        yield Text(line)
    for line in legend_texts(answer) if explain else ():
        yield Text(line)
    for sentence in answer_sentences(answer, found):
        yield Text(sentence, "bold")
    if answer.is_last:
        for line in left_out_texts(answer, explain=explain):
            yield Text(f"left out: {line}")


def answer_table(answer: Answer, price_per_gpu_hour: float | None = None) -> Table:
    """Return the one table: a row per scheme, the advised one first."""
    situation = answer.situation
    hours = situation.gpu_hours(situation.ideal_s)
    unit, scale = ("M ", 1e-6) if hours >= _MANY_GPU_HOURS else ("", 1.0)
    usual = usual_parts(answer.rows)
    rows = [
        {"row": row, "first": place == 0, "memory": memory_text(row)}
        for place, row in enumerate(answer.rows)
    ]

    def cost(row: Row) -> str:
        hours = situation.gpu_hours(row.judgement.bands.mean)
        return number_text(scale * hours * (price_per_gpu_hour or 0.0), 3)

    def loss(row: Row) -> str:
        seconds = row.judgement.loss_if_wrong
        return "0" if seconds is None else duration_text(seconds)

    def span(row: Row) -> str:
        at_least = "≥ " if row.judgement.capped else ""
        return at_least + situation.span(row.judgement.bands.mean)

    columns = [
        TableColumn(
            "standbys" if situation.fleet else "scheme",
            lambda one: _name(answer, one["row"], usual),
            "prose",
        ),
        TableColumn(situation.unit, lambda one: span(one["row"])),
        TableColumn("80 % band", lambda one: band_text(answer, one["row"])),
        TableColumn("best", lambda one: _times_best(one["row"])),
        TableColumn("within 1 %", lambda one: percent_text(one["row"].judgement.within.mean)),
        TableColumn("loss if wrong", lambda one: loss(one["row"])),
    ]
    if price_per_gpu_hour is not None:
        columns.append(TableColumn(f"{unit}cost", lambda one: cost(one["row"])))
    if any(row["memory"] for row in rows):
        columns.append(TableColumn("GB of GPU", lambda one: one["memory"]))
    set_up = f"; unless a row names its own: {short_text(usual)}" if usual else ""
    return table_of(
        "ranking-table",
        f"By expected time to train{set_up}",
        columns,
        rows,
        lambda one: bool(one["first"]),
    )


def _name(answer: Answer, row: Row, usual: Sequence[str]) -> str:
    tie = " (tie)" if row in answer.ties else ""
    own = short_text([part for part in set_up_parts(row) if part not in usual])
    return "\n".join(filter(None, (f"{row.name}{tie}", own)))


def _times_best(row: Row) -> str:
    """Return in how many of its worlds a scheme was the soonest."""
    return f"{row.judgement.best.mean * row.worlds:.0f} of {row.worlds}"


def memory_text(row: Row) -> str:
    """Return the memory that a scheme uses of a GPU, and recoveries that did not fit."""
    found = gpu_memory(row.choice)
    needed = "" if found is None else f"{found[0] / 1e9:.0f}/{found[1] / 1e9:.0f}"
    refused = f"{100 * row.refused:.0f} % refused" if row.refused >= 0.005 else ""
    return "\n".join(filter(None, (needed, refused)))


def job_texts(answer: Answer) -> list[str]:
    """Return the job in a line, then its times and its machines."""
    situation = answer.situation
    job, durations = situation.scenario.job, situation.durations
    paid = f", {situation.gpus:,} GPUs paid for" if situation.gpus > job.all_gpus else ""
    inputs = f"; {len(answer.keys)} uncertain inputs" if answer.keys else ""
    return [
        f"{situation.scenario.name}: {job.all_gpus:,} GPUs{paid}, {job.steps:,} steps, "
        f"{duration_text(situation.ideal_s)} without failures; a failure every "
        f"{duration_text(situation.mtbf_s)}{inputs}",
        f"{job.groups:,} groups of {job.gpus_of_group:,} GPUs; a step "
        f"{duration_text(situation.ideal_step_s)} without failures and redundancy, a restart "
        f"{duration_text(situation.restart_s)}, a checkpoint {duration_text(durations.save_s)}",
        *([] if situation.fleet else [f"machines: {situation.machines}"]),
    ]


def legend_texts(answer: Answer) -> Iterator[str]:
    """Yield what the columns mean, and what the answer takes as given."""
    whole = answer.situation.scenario.job.steps
    length = "the whole job" if answer.steps == whole else f"{answer.steps:,} of {whole:,} steps"
    worlds = "inputs drawn from their priors" if answer.keys else "the values of the scenario"
    yield (
        f"world: {worlds}, and failures of its own; all schemes live through the same worlds, "
        f"twice each. A run simulates {length}."
    )
    yield (
        f"{answer.situation.unit}: mean over worlds; band: 80 % of runs, by inputs and luck; best: "
        "worlds in which the scheme trains soonest, of those in which it ran; within "
        f"{100 * INDIFFERENCE:g} %: of the soonest; loss if wrong: mean time lost in the worlds in "
        "which it is not; GB of GPU: the fullest "
        "GPU without failures, of its memory, and the share of recoveries that did not fit."
    )
    if answer.rows:
        share = percent_text(answer.rows[0].judgement.bands.input_share)
        yield f"Unknown inputs make {share} of the variance of {answer.advised}, luck the rest."
    if answer.costs is not None:
        yield (
            f"≥: some runs did not end. A run counts at most {time_text(answer.costs.cap_s)}, "
            f"about {CAP:g} times the soonest (the cap)."
        )
    yield given_text(answer)


def given_text(answer: Answer) -> str:
    """Return a line with the facts that the scenario takes as given, by their keys."""
    scenario = answer.situation.scenario
    facts = [
        f"{dotted} = {written(value)}"
        for dotted in _GIVEN
        if not (answer.situation.fleet and dotted.startswith("recovery."))
        and unmet_condition(path_of(dotted), scenario) is None
        and (value := value_in_force(scenario, path_of(dotted))) is not None
    ]
    return (
        f"Taken as given, as an operator knows it: {', '.join(facts)}; another value may change "
        "the answer (--set KEY=VALUE). Steps on approximate gradients, and batches whose rest is "
        "trained later, count as full ones (--schemes leaves such schemes out)."
    )
