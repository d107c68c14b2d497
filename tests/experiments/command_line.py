"""Commands of ``faultline``, run in the process of the tests or in another one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from faultline.experiments.cli import main
from faultline.experiments.studies.catalogue import load_study
from faultline.experiments.studies.claims import NO_ROW

from tests.child_processes import run_python


def in_a_process(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run ``faultline`` in another process; options are those of `subprocess.run`."""
    return run_python("-m", "faultline.experiments.cli", *words, **options)


class Cli:
    """Runs ``faultline`` and returns its output; each command begins with the words of `before`."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *before: str) -> None:
        self.capsys, self.before = capsys, before

    def all(self, *words: object) -> tuple[int, str, str]:
        """Return the exit status, the standard output and the standard error."""
        self.capsys.readouterr()
        try:
            status = main([*self.before, *map(str, words)])
        except SystemExit as exit_:  # argparse exits
            status = int(exit_.code or 0)
        return (status, *self.capsys.readouterr())

    def __call__(self, *words: object) -> str:
        """Return the output of a command, which must succeed without a message."""
        status, out, err = self.all(*words)
        assert (status, err) == (0, "")
        return out

    def planned(self, *words: object) -> str:
        """Return the output of a plan, which must succeed with no message but its first answer."""
        status, out, err = self.all(*words)
        assert status == 0
        assert all(line.startswith("First answer, by closed forms") for line in err.splitlines())
        return out

    def json(self, *words: object) -> Any:
        """Return the JSON of a command."""
        return json.loads(self(*words, "--json"))

    def refused(self, *words: object) -> str:
        """Return the one line of a command's message, which must fail with status 2."""
        status, out, err = self.all(*words)
        assert (status, out) == (2, "")
        assert err.count("\n") == 1
        assert "Traceback" not in err
        return err

    def reproduced(self, study: str, folder: Path, *words: object) -> list[dict[str, Any]]:
        """Return the rows of a study, after checks of its charts, claims and summary.

        The folder must have all charts of the study, and rows for all its claims. The summary must
        have all lines of its headline.
        """
        status, out, err = self.all("reproduce", study, *words, "--json", "-o", folder)
        assert status == 0
        assert {path.name for path in folder.glob("*.png")} >= set(load_study(study).charts)
        assert [line for line in load_study(study).headline_rows if line not in err] == []
        assert err.splitlines()[-1].startswith(f"Files: {folder} (rows.csv, claims.csv")
        claims = folder / "claims.csv"
        assert not claims.exists() or NO_ROW not in set(pd.read_csv(claims).verdict)
        rows: list[dict[str, Any]] = json.loads(out)
        return rows
