"""Files for ``platform import`` that are none: one line, nothing written, no waiting."""

from __future__ import annotations

import json
import os
from pathlib import Path

import networkx as nx
import pytest

from tests.experiments.asking import Ask
from tests.platforms.imported.test_imports import MATRIX, two_racks


def graph_json(**changes: object) -> str:
    content = nx.node_link_data(two_racks(), edges="links")
    return json.dumps({**content, **changes})


def with_node(**changes: object) -> str:
    """A graph whose first GPU says something else."""
    nodes: list[dict[str, object]] = nx.node_link_data(two_racks(), edges="links")["nodes"]
    return graph_json(nodes=[{**nodes[0], **changes}, *nodes[1:]])


def with_link(**changes: object) -> str:
    links: list[dict[str, object]] = nx.node_link_data(two_racks(), edges="links")["links"]
    return graph_json(links=[{**links[0], **changes}, *links[1:]])


GRAPHML = "\n".join(nx.generate_graphml(two_racks()))
HOSTILE_GRAPHS = {
    "a list": "[]",
    "a number": "7",
    "nothing": "null",
    "a text": '"edges"',
    "empty": "",
    "deep": "[" * 100_000,
    "deep tables": '{"a":' * 100_000,
    "no nodes": graph_json(nodes=7),
    "nodes that are none": graph_json(nodes=[1, 2]),
    "no links": graph_json(links="none"),
    "links that are none": graph_json(links=[[1]]),
    "a node that is a list": with_node(id=[1, [2]]),
    "a node that is a table": with_node(id={"a": 1}),
    "attributes": graph_json(graph=7),
    "a host that is no number": with_node(host="rack 7"),
    "a host without end": with_node(host=float("inf")),
    "no host": with_node(host=None),
    "a host that is a list": with_node(host=[1]),
    "a truth for a host": with_node(host=True),
    "a host below zero": with_node(host=-1),
    "half a host": with_node(host=0.5),
    "a host of many digits": with_node(host="9" * 5_000),
    "a speed that is a list": with_node(speed=[1]),
    "a speed in other digits": with_node(speed="\u0661TFLOP/s\x00"),
    "a role that is a table": with_node(role={"a": 1}),
    "a kind that is a list": with_link(kind=["a"]),
    "a kind of many letters": with_link(kind="k" * 300),
    "a kind that a terminal obeys": with_link(kind="\x1b[31m"),
    "half a letter": with_link(kind="\ud800"),
    "a bandwidth of nothing": with_link(bandwidth=0),
    "no name": json.dumps({"nodes": [{"id": ""}], "links": []}),
    "one node named twice": with_node(id=7).replace('"tor0"', '"7"'),
    "a name with a line break": graph_json().replace("gpu0", "gpu0\\n"),
    "a name of many letters": graph_json().replace("gpu0", "gpu0" + "x" * 500),
}
HOSTILE_GRAPHML = {
    "no XML": "graph",
    "cut off": GRAPHML[:200],
    "another encoding": '<?xml version="1.0" encoding="utf-16"?>' + GRAPHML,
    "no encoding": '<?xml version="1.0" encoding="no-such"?>' + GRAPHML,
    "no graph": "<graphml/>",
    "a key of no type": GRAPHML.replace('attr.type="string"', 'attr.type="table"'),
    "no number": GRAPHML.replace('attr.type="string"', 'attr.type="long"'),
    "deep": "<graph>" * 100_000,
    "laughs": '<!DOCTYPE g [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><graphml>&b;</graphml>',
    "unknown keys": GRAPHML.replace('key="d0"', 'key="d77"'),
}
HOSTILE_MATRICES = {
    "no number of links": MATRIX.replace("NV18", "NVx", 1),
    "no links": MATRIX.replace("NV18", "NV", 1),
    "other digits": MATRIX.replace("NV18", "NV\u0661\u0662"),
    "many digits": MATRIX.replace("NV18", "NV" + "9" * 5_000),
    "cells missing": MATRIX.replace("NV18", "", 3),
    "one GPU twice": MATRIX.replace("GPU1", "GPU0"),
    "no text": "\x00\x01",
}
HOSTILE = {
    **{f"json: {name}": (".json", text) for name, text in HOSTILE_GRAPHS.items()},
    **{f"graphml: {name}": (".graphml", text) for name, text in HOSTILE_GRAPHML.items()},
    **{f"matrix: {name}": (".txt", text) for name, text in HOSTILE_MATRICES.items()},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_cannot_be_imported_is_refused_in_a_line(name: str, tmp_path: Path, ask: Ask) -> None:
    ending, text = HOSTILE[name]
    given, written = tmp_path / f"given{ending}", tmp_path / "written.xml"
    given.write_text(text, encoding="utf-8", errors="surrogatepass")
    printed = ask.refused("platform", "import", given, "-o", written)
    assert str(given) in printed
    assert not written.exists()


def test_imports_read_regular_files_alone(tmp_path: Path, ask: Ask) -> None:
    topology = tmp_path / "topo.txt"
    topology.write_text(MATRIX, encoding="utf-8")
    for ending in (".json", ".graphml", ".txt", ".csv"):
        pipe, endless = tmp_path / f"pipe{ending}", tmp_path / f"endless{ending}"
        os.mkfifo(pipe)
        endless.symlink_to("/dev/zero")
        for odd in (pipe, endless, tmp_path, tmp_path / f"nothing{ending}"):
            words = (odd,) if ending != ".csv" else (topology, odd)
            assert str(odd) in ask.refused("platform", "import", *words, "-o", tmp_path / "out")
