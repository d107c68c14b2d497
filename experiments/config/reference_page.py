"""The page of all keys of a scenario, as Markdown: a heading per key, with an anchor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from faultline.experiments.config.keys import Key, path_of, schema_keys
from faultline.experiments.config.scenario import Scenario

REGENERATE = "faultline scenario explain --format markdown > docs/scenario-reference.md"

DECISIVE: Mapping[str, tuple[tuple[str, ...], str]] = {
    "How long is a step?": (
        ("model.name", "model.compute_efficiency", "model.virtual_stages", "job.tokens"),
        "your last job; `faultline run` prints the derived step",
    ),
    "How often does something fail?": (
        ("failures.mix", "failures.rate", "failures.component"),
        "your log (`faultline learn`)",
    ),
    "What else goes wrong?": (
        ("failures.kinds.retry_s", "failures.kinds.hang_timeout_s"),
        "your NCCL time-outs",
    ),
    "How soon is a failure detected?": (
        ("recovery.detect_s", "recovery.detected"),
        "the time from a failure to its first message",
    ),
    "Where do machines come from?": (
        ("recovery.hardware", "recovery.standbys", "recovery.requeue_s"),
        "your scheduler, your contract",
    ),
    "How long do repairs take?": (("rejoin.repair_s", "rejoin.when"), "your log, your vendor"),
    "What does a restart cost?": (
        ("recovery.preset", "recovery.transient"),
        "`faultline explain-recovery` beside one restart of yours",
    ),
    "Where is the state kept?": (
        ("protection.name", "model.optimizer_backup"),
        "your checkpoint library",
    ),
}
"""The twenty keys that decide a plan, by the question that each answers, and where to look."""

_INTRODUCTION = f"""\
# Every key of a scenario

<!-- Made by `{REGENERATE}`; do not edit. -->

A scenario is a TOML file that states the keys which differ from their defaults. `faultline scenario
check FILE` prints all mistakes in it, `faultline scenario show FILE` all values with their origin,
and `faultline scenario explain KEY` the source of a default.

```toml
# job.toml
[platform]
file = "hgx-h100"           # a shipped cluster (`faultline list clusters`), or your XML

[job]
groups = 8                  # data-parallel replicas, of 4 x 8 GPUs here
tokens = "100B"             # or steps = 20_000

[model]
name = "llama3-70b"         # times and memory of a step follow from the model
pipeline = 4
tensor = 8
micro_batches = 16
kernels = "h100"

[strategy]
name = "spare"              # the scheme

[failures]
model = "mix"               # several causes, at the rates of Llama 3's training
mix = "llama3"

[rejoin]
repair_s = "3d"             # a number in seconds, or a text with its unit
```

On the command line `--set job.groups=600` sets a key, and `--set ~times.restart_s` opens it again.
Units are `us`, `ms`, `s`, `min`, `h` and `d`; `kB`, `MB`, `GB`, `TB` and `GiB`; `k`, `M`, `G` or
`B`, and `T` of plain numbers. A key without effect beside the other keys of its file is named in a
line.

## The twenty keys that decide
"""


def reference_page() -> str:
    """Return the page; the tables within a table share its section."""
    known = schema_keys(Scenario).values()
    lines = [_INTRODUCTION, *_decisive()]
    lines += _section("Outside of tables", [key for key in known if len(key.path) == 1])
    for table in (key for key in known if key.is_table and len(key.path) == 1):
        title = f"`[{table.dotted}]`: {table.meaning.removesuffix('.')}"
        lines += _section(title, [key for key in known if key.path[0] == table.dotted])
    return "\n".join(lines) + "\n"


def _decisive() -> Iterator[str]:
    yield "| question | keys | look at |"
    yield "| --- | --- | --- |"
    for question, (keys, source) in DECISIVE.items():
        yield f"| {question} | {', '.join(f'[`{key}`](#{key})' for key in keys)} | {source} |"


def _section(title: str, keys: list[Key]) -> Iterator[str]:
    """Yield a section: its keys by their condition."""
    leaves = [key for key in keys if not key.is_table]
    yield f"\n## {title}"
    for condition in dict.fromkeys(map(_condition, leaves)):
        if condition:
            yield f"\n**Only if {condition}:**"
        for key in leaves:
            if _condition(key) == condition:
                yield from _entry(key)


def _entry(key: Key) -> Iterator[str]:
    yield f'\n### <a id="{key.dotted}"></a>`{key.dotted}`'
    default = key.default if key.default in ("unset", "required") else f"default `{key.default}`"
    unit = f" in {key.unit}" if key.unit not in (None, "1") else ""
    facts = ", ".join(filter(None, (f"{key.kind}{unit}", key.limits, default)))
    yield f"*{facts}.* {key.meaning}"
    if key.choices:
        yield ""
        yield from (f'- `"{name}"`: {meaning}' for name, meaning in key.choices.items())


def _condition(key: Key) -> str:
    """Return the condition of a key, in the shorter of two forms."""
    parts = []
    for needed, values in key.only_with.items():
        choices = schema_keys(Scenario)[path_of(needed)].choices
        without = [name for name in choices if name not in values]
        if len(without) < len(values):
            parts.append(f"`{needed}` is not {_names(without)}")
        else:
            parts.append(f"`{needed}` is {_names(values)}")
    return " and ".join(parts)


def _names(values: list[str]) -> str:
    return " or ".join(f"`{value}`" for value in values)
