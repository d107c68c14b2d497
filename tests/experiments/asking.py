"""The command line, asked in the process of the tests or in one of its own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from faultline.experiments.cli import main
from faultline.experiments.studies import load_study
from faultline.experiments.studies.claims import NO_ROW

from tests.child_processes import run_python


def in_a_process(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run ``faultline`` in a process of its own; options are those of `subprocess.run`."""
    return run_python("-m", "faultline.experiments.cli", *words, **options)


class Ask:
    """Runs ``faultline``, and tells what it prints; calls begin with the words of `before`."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *before: str) -> None:
        self.capsys, self.before = capsys, before

    def all(self, *words: object) -> tuple[int, str, str]:
        """Return the status, and what was printed on both streams."""
        self.capsys.readouterr()
        try:
            status = main([*self.before, *map(str, words)])
        except SystemExit as exit_:  # argparse's own way
            status = int(exit_.code or 0)
        return (status, *self.capsys.readouterr())

    def __call__(self, *words: object) -> str:
        """Return what a command prints that must succeed without a complaint."""
        status, out, err = self.all(*words)
        assert (status, err) == (0, "")
        return out

    def json(self, *words: object) -> Any:
        """Return what a command tells programs."""
        return json.loads(self(*words, "--json"))

    def refused(self, *words: object) -> str:
        """Return the one line that a command says that must fail."""
        status, out, err = self.all(*words)
        assert (status, out) == (2, "")
        assert err.count("\n") == 1
        assert "Traceback" not in err
        return err

    def reproduced(self, study: str, folder: Path, *words: object) -> list[dict[str, Any]]:
        """Return the rows of a study, which has drawn all its charts into a folder.

        What its claims name has been simulated.
        """
        status, out, _ = self.all("reproduce", study, *words, "--json", "-o", folder)
        assert status == 0
        assert {path.name for path in folder.glob("*.png")} >= set(load_study(study).charts)
        claims = folder / "claims.csv"
        assert not claims.exists() or NO_ROW not in set(pd.read_csv(claims).verdict)
        rows: list[dict[str, Any]] = json.loads(out)
        return rows
