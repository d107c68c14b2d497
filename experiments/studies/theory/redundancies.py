"""The best redundancy: by the paper's rule, by its objective, and by the prediction of a job."""

from __future__ import annotations

import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.predictions import predict_redundancies
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.studies.spare.published import GROUPS, headline
from faultline.strategies.registry import strategy_class

_LARGEST = 14


def compare_redundancies() -> pd.DataFrame:
    """Return the best r under the study's rules, a row a scheme and N, each with its ratio.

    ``rule`` is the scheme's own choice (for SPARe floor(log2 N + 0.833)), ``objective`` where J(r)
    from plain forms is least, ``predicted`` where the predicted time-to-train ratio is, with
    ``predicted_ratio``; ``near`` are all r predicted within 1 % of it. ``published`` is the best
    in the published tables.
    """
    known = headline().set_index(["scheme", "groups"]).redundancy
    return pd.DataFrame(
        [
            _best(scheme, groups, int(known[scheme, groups]))
            for groups in GROUPS
            for scheme in ("replication", "spare")
        ]
    )


def _best(name: str, groups: int, published: int) -> dict[str, object]:
    scheme = strategy_class(name)
    question = resolve(
        load_scenario("spare-study", [f"strategy.name={name}", f"job.groups={groups}"])
    )
    costs = question.costs()
    options = question.scenario.strategy.options()
    candidates = [r for r in scheme.redundancies(groups, options) if r <= _LARGEST]
    ratios = {
        redundancy: prediction.time_to_train_ratio
        for redundancy, prediction in predict_redundancies(question, candidates).items()
    }
    best = min(ratios, key=lambda redundancy: ratios[redundancy])
    near = [r for r, ratio in ratios.items() if ratio <= 1.01 * ratios[best]]
    return {
        "scheme": name,
        "groups": groups,
        "published": published,
        "rule": scheme.best_redundancy(groups, options, costs),
        "objective": min(
            candidates,
            key=lambda r: scheme(groups, r, options).normalised_time_to_train(costs),
        ),
        "predicted": best,
        "near": f"{near[0]} to {near[-1]}",
        "predicted_ratio": ratios[best],
    }
