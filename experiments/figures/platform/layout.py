"""Where the nodes of a drawing are."""

from __future__ import annotations

from faultline.experiments.figures.platform.sketch import GPU_ROW, NVSWITCH_ROW, Key, Sketch

_ROW_HEIGHT = 1.0
_HOST_GAP, _DOMAIN_GAP = 0.45, 1.1
"""Space between hosts and between domains, in widths of a GPU."""

Positions = dict[Key, tuple[float, float]]


def positions(drawn: Sketch) -> Positions:
    """Return x (0 to 1) and y (one a row) of every node.

    GPUs stand in order with gaps between hosts and domains. NVSwitches are below the middle of
    their domain, switches spread evenly in the order of what is below them.
    """
    found: Positions = {}
    heights = {row: index * _ROW_HEIGHT for index, (row, _) in enumerate(drawn.rows)}
    keys_of = dict(drawn.rows)
    _place_gpus(drawn, keys_of.get(GPU_ROW, []), heights.get(GPU_ROW, 0.0), found)
    neighbours: dict[Key, list[Key]] = {}
    for one, other in drawn.edges:
        neighbours.setdefault(one, []).append(other)
        neighbours.setdefault(other, []).append(one)
    for row, keys in drawn.rows:
        if row == GPU_ROW:
            continue
        middle = {key: _middle(neighbours.get(key, []), found) for key in keys}
        ordered = sorted(keys, key=lambda key: (round(middle[key], 6), drawn.nodes[key].members))
        for index, key in enumerate(ordered):
            x = middle[key] if row == NVSWITCH_ROW else (index + 0.5) / len(ordered)
            found[key] = (x, heights[row])
    return found


def _place_gpus(drawn: Sketch, keys: list[Key], height: float, found: Positions) -> None:
    ordered = sorted(keys, key=lambda key: (drawn.nodes[key].domains, drawn.nodes[key].members))
    offsets: list[float] = []
    offset = 0.5
    before = None
    for key in ordered:
        node = drawn.nodes[key]
        if before is not None:
            offset += 1.0
            if drawn.gpus_one_by_one and node.domains != before.domains:
                # Domains of one GPU have nothing to be kept apart from.
                alone = len(ordered) == len({drawn.nodes[one].domains for one in ordered})
                offset += 0.0 if alone else _DOMAIN_GAP
            elif drawn.gpus_one_by_one and node.hosts != before.hosts:
                offset += _HOST_GAP
        offsets.append(offset)
        before = node
    width = offset + 0.5
    for key, x in zip(ordered, offsets, strict=True):
        found[key] = (x / width, height)


def _middle(neighbours: list[Key], found: Positions) -> float:
    placed = [found[key][0] for key in neighbours if key in found]
    return sum(placed) / len(placed) if placed else 0.5
