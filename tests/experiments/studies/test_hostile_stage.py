"""Links in the output folder of a study: what they lead to stays as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from faultline.experiments.studies.greyhound.study import USUAL, injected, one_slow
from faultline.experiments.studies.ntp.loop import domain_points, loop_points
from faultline.experiments.studies.operators import scale
from faultline.experiments.studies.operators.incidents import with_gaps, write_incidents
from faultline.experiments.studies.stage import Stage

EDITED = next(variant for variant in scale.VARIANTS.values() if "cause" in variant)
WRITERS: dict[str, Callable[[Path], object]] = {
    "greyhound": lambda folder: next(one_slow(folder)),
    "greyhound, injected": lambda folder: injected(folder, USUAL, "ignore"),
    "operators": lambda folder: write_incidents(with_gaps([1.0, 1.0], "stop"), folder / "a.csv"),
    "operators, scale": lambda folder: scale._varied(EDITED, folder / "a.toml"),
    "ntp": lambda folder: next(loop_points(folder, 1, 1)),
    "ntp, domains": lambda folder: next(domain_points(folder, 1, 1)),
}


@pytest.mark.parametrize("study", WRITERS)
def test_no_study_writes_through_a_link(study: str, tmp_path: Path) -> None:
    folder, victim = tmp_path / "folder", tmp_path / "victim"
    folder.mkdir()
    WRITERS[study](folder)
    (link,) = folder.iterdir()
    victim.write_text("precious", encoding="utf-8")
    link.unlink()
    link.symlink_to(victim)
    with pytest.raises(OSError, match="a symbolic link, and no regular file"):
        WRITERS[study](folder)
    assert victim.read_text(encoding="utf-8") == "precious"


def test_no_folder_of_a_study_is_a_link(stage: Stage, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (stage.directory / "traces").symlink_to(elsewhere)
    with pytest.raises(OSError, match="a symbolic link, and no folder"):
        stage.folder("traces")
    assert stage.folder("mixes").is_dir()
