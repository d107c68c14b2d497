"""Cells that were played are kept, so that a grid that was interrupted goes on where it was."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path

from faultline.experiments.runs.manifest import seal, unseal, write_atomically
from faultline.experiments.runs.player import play
from faultline.experiments.runs.point import Call
from faultline.experiments.runs.provenance import code_digest
from faultline.experiments.studies.head_to_head.playing import Match, Row, play_match

# The modules of this package that decide what comes out of a cell.
_DECISIVE = {
    "playing",
    "entering",
    "failures",
    "setting",
    "candidates",
    "controls",
    "gpu_memory",
    "closed_forms",
    "entries",
}


@dataclass(frozen=True, slots=True)
class _Kept:
    match: Match
    path: Path


def play_all(
    matches: Sequence[Match],
    directory: Path,
    workers: int | None = None,
    on_done: Callable[[], None] | None = None,
) -> list[Row]:
    """Play matches, or read what is kept of them; the rows do not depend on which.

    Parameters
    ----------
    matches : sequence of Match
        What to play.
    directory : Path
        Where cells are kept, a file each, named after everything that decides what is in it.
    workers : int, optional
        Processes; as many as there are cores by default. The rows do not depend on it.
    on_done : callable, optional
        Called after each cell.
    """
    directory.mkdir(parents=True, exist_ok=True)
    code = f"{code_digest()}-{_own_digest()}"
    kept = [_Kept(match, directory / f"{_key(match, code)}.json") for match in matches]
    found = play(Call.each(_play_or_read, kept), workers=workers, on_done=on_done)
    return [row for rows in found for row in rows]


def _play_or_read(kept: _Kept) -> list[Row]:
    try:
        rows: list[Row] = unseal(kept.path.read_bytes())["rows"]
    except (OSError, ValueError, KeyError):
        rows = play_match(kept.match)
        write_atomically(kept.path, seal({"rows": rows}))
    return rows


def _key(match: Match, code: str) -> str:
    asked = (
        asdict(match.cell),
        [asdict(one) for one in match.candidates],
        match.seeds,
        match.races,
        repr(match.ground.durations),
        [(name, scenario.model_dump_json()) for name, scenario in match.ground.protections],
        code,
    )
    return hashlib.sha256(repr(asked).encode()).hexdigest()[:20]


def _own_digest() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(str(files("faultline.experiments.studies.head_to_head"))).glob("*.py")):
        if path.stem in _DECISIVE:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
