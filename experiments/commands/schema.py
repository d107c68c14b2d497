"""``faultline schema``: of what form the JSON is that commands print."""

from __future__ import annotations

import argparse
import json
from typing import Any

from faultline.experiments.runs.record import COLUMNS, FAMILIES, Column

Form = dict[str, Any]

_TEXT: Form = {"type": "string"}
_COUNT: Form = {"type": "integer"}
_NUMBER: Form = {"type": ["number", "null"]}
_FLAG: Form = {"type": "boolean"}
_ANY_TEXT: Form = {"type": ["string", "null"]}
_ANY_COUNT: Form = {"type": ["integer", "null"]}
_SCALAR: Form = {"type": ["string", "number", "boolean", "null"]}


def execute(_arguments: argparse.Namespace) -> None:
    """Print the schema."""
    print(json.dumps(output_schema(), indent=1))


def output_schema() -> Form:
    """Return the schema of all commands, each of whose forms stands in ``$defs``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What faultline prints with --json",
        "description": "SI units unless a name says otherwise; null is unknown, or infinite",
        "anyOf": [{"$ref": f"#/$defs/{command}"} for command in _FORMS],
        "$defs": {**_FORMS, "run": _record()},
    }


def _record() -> Form:
    """Return the form of a record: a column that stands for a family has one key a name."""
    columns = {name: _column(each) for name, each in COLUMNS.items()}
    families = {f"^{prefix}": _column(each) for prefix, each in FAMILIES.items()}
    return {**_object(**columns), "patternProperties": families}


def _column(column: Column) -> Form:
    kind = {"text": "string", "count": "integer", "number": "number"}[column.kind]
    missing = column.optional or column.kind == "number"
    unit = f", in {column.unit}" if column.unit not in ("", "1") else ""
    return {"type": [kind, "null"] if missing else kind, "description": column.meaning + unit}


def _list(of: Form) -> Form:
    return {"type": "array", "items": of}


def _by_name(of: Form) -> Form:
    return {"type": "object", "additionalProperties": of}


def _maybe(form: Form) -> Form:
    return {"anyOf": [form, {"type": "null"}]}


def _object(texts: str = "", counts: str = "", numbers: str = "", /, **others: Form) -> Form:
    """Return the form of an object that has all of these keys and no more."""
    kinds = ((texts, _TEXT), (counts, _COUNT), (numbers, _NUMBER))
    keys = {name: kind for names, kind in kinds for name in names.split()} | others
    return {
        "type": "object",
        "properties": keys,
        "required": list(keys),
        "additionalProperties": False,
    }


_RANGE: Form = {**_list(_NUMBER), "minItems": 2, "maxItems": 2}
_FILES = _object(files=_list(_TEXT))
_NAMED = _list(_object("name description"))
_ROWS = _list(_by_name(_SCALAR))
_INTERVAL = _maybe(_object("", "", "mean low high"))
_ESTIMATE = _object("", "", "value low high")
_DIFFERENCES = _list(_object("text effect"))
_COST = "days gpu_hours cost time_to_train_ratio"
_CHOICE = _object(
    "scheme",
    "redundancy checkpoint_interval_steps snapshot_interval_steps",
    "checkpoint_interval_s snapshot_interval_s may_be_off",
    protection=_ANY_TEXT,
    best_of_scheme=_FLAG,
    rough=_FLAG,
    predicted=_maybe(_object("", "", f"{_COST} availability steps_per_life")),
    simulated=_maybe(
        _object(
            "",
            "steps gave_up",
            f"{_COST} low high goodput availability stopped_at",
            ratios=_list(_NUMBER),
        )
    ),
    error=_INTERVAL,
)
_ADVICE = _object(
    "sentence",
    scheme=_ANY_TEXT,
    protection=_ANY_TEXT,
    redundancy=_ANY_COUNT,
    interval_steps=_ANY_COUNT,
    rival=_ANY_TEXT,
    rival_protection=_ANY_TEXT,
    change=_INTERVAL,
    undecided=_list(_object("scheme", protection=_ANY_TEXT)),
)
_POINT = _object("", "redundancy interval_steps")
_OPTIMISED = _object(
    "scheme",
    "runs steps",
    "neighbours_could_gain",
    protection=_ANY_TEXT,
    closed_form=_POINT,
    best=_POINT,
    closed_form_takes_longer=_INTERVAL,
)
_LOG: dict[str, Form] = {
    **_object("log format", "failures nodes gpus_per_node", "span_s node_s")["properties"],
    "notes": _list(_TEXT),
}
_FITTED = _object(
    "name level kind",
    "failures same_instant",
    "p_exponential p_weibull",
    per_1000_node_days=_ESTIMATE,
    weibull_shape=_maybe(_ESTIMATE),
    repair=_maybe(_object("", "repairs", "mean_s median_s sigma")),
)
_LINK = _object("", "count", bandwidth_bytes_per_s=_RANGE, latency_s=_RANGE)
_LAYER = _object(
    "name", "switches", "down_bytes_per_s up_bytes_per_s", oversubscription=_maybe(_RANGE)
)
_PHASE = _object("name source", "ranks", "duration_s size_bytes")
_RECOVERY = _object("scheme event recovery", "", "duration_s", phases=_list(_PHASE))
_CHECK = _object("section what value state meaning", "", "number")

_FORMS: dict[str, Form] = {
    "run": {},
    "explain-recovery": _object("scenario", recoveries=_list(_RECOVERY), refused=_list(_TEXT)),
    "plan": _object(
        "scenario",
        "gpus groups gpus_per_group steps unverified_choices",
        "mtbf_s restart_s save_s compute_s all_reduce_s",
        assumptions=_list(_TEXT),
        seeds=_list(_COUNT),
        choices=_list(_CHOICE),
        left_out=_list(_object("scheme reason", protection=_ANY_TEXT)),
        advice=_ADVICE,
        optimised=_list(_OPTIMISED),
    ),
    "sweep": _object(
        "name",
        "played already_there failed",
        first_error=_ANY_TEXT,
        tables=_object("parquet csv"),
    ),
    "compare": {
        **_object("metric by", baseline=_SCALAR, notes=_list(_TEXT)),
        "additionalProperties": _ROWS,
    },
    "plot": _FILES,
    "report": _FILES,
    "reproduce": {"anyOf": [_ROWS, _NAMED]},
    "head-to-head": _ROWS,
    "scenario-list": _NAMED,
    "scenario-show": _object(
        "faultline",
        scenario=_by_name({}),
        keys=_by_name(_object("origin", value={}, unit=_ANY_TEXT, in_force=_FLAG)),
    ),
    "scenario-check": _list(_object("file", mistakes=_list(_TEXT))),
    "scenario-explain": _list(
        _object("key meaning kind default limits source", unit=_ANY_TEXT, choices=_by_name(_TEXT))
    ),
    "platform-generate": _FILES,
    "platform-check": _object(
        "file",
        "gpus gpus_per_rank hosts domains",
        name=_ANY_TEXT,
        racks=_ANY_COUNT,
        switches=_by_name(_COUNT),
        links=_by_name(_LINK),
        layers=_list(_LAYER),
        bisection=_maybe(_object("", "", "bandwidth_bytes_per_s of_full")),
        flow_routes=_ANY_COUNT,
        storage=_maybe(_object("", "", "read_bytes_per_s write_bytes_per_s client_bytes_per_s")),
        simgrid=_object("", "hosts", "load_s peak_memory_bytes"),
        differs_from_spec=_maybe(_DIFFERENCES),
    ),
    "platform-draw": _FILES,
    "platform-list": _NAMED,
    "platform-diff": _object(
        "scenario",
        phases=_list(_object("phase source", "", "before_s after_s change")),
        differences=_DIFFERENCES,
    ),
    "platform-import": _FILES,
    "platform-probe": _object(
        "limited_by", "messages", "time_s bus_bandwidth algorithm_bandwidth alpha_beta_s"
    ),
    "platform-break": _object(
        "component level", "", "end_s", died=_list(_TEXT), hung=_list(_TEXT), through=_list(_TEXT)
    ),
    "platform-collisions": _object(
        "", "leaf_flows leaf_links", "busiest_over_mean d_mod_k", ecmp=_by_name(_list(_NUMBER))
    ),
    "failures-list": _list(
        _object("name description source", "gpus", "mtbf_s hardware_share", causes=_list(_TEXT))
    ),
    "failures-draw": _object(
        "process",
        "gpus groups gpus_per_host gpus_per_domain gpus_per_switch seed failures",
        "span_s mtbf_s drawn_mtbf_s expected share_on_many_groups",
        causes=_list(
            _object(
                "name",
                "failures failures_on_many_groups",
                "expected",
                level=_ANY_TEXT,
                kind=_ANY_TEXT,
                interval=_maybe(_RANGE),
            )
        ),
    ),
    "failures-import": _object("trace", nodes_in_order=_list(_TEXT), **_LOG),
    "failures-fit": _object(
        whole=_FITTED,
        causes=_list(_FITTED),
        lemons=_maybe(_object("", "", "p_alike share_of_worst_5_percent", shape=_ESTIMATE)),
        **_LOG,
    ),
    "new-scheme": _FILES,
    "cluster-certificates": _FILES,
    "doctor": {
        "anyOf": [
            _object(ok=_FLAG, checks=_list(_CHECK)),
            _object("cache", "removed_files removed_bytes"),
        ]
    },
    "bench": _object(
        "machine",
        "cores",
        quick=_FLAG,
        rows=_list(
            _object(
                "section what unit ratio_to error",
                "",
                "measured minimum target ratio",
                met={"type": ["boolean", "null"]},
            )
        ),
    ),
}
