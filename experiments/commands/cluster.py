"""``faultline cluster``: what a cluster of many machines needs before it is started."""

from __future__ import annotations

import argparse

from faultline.experiments.commands.output import print_json
from faultline.experiments.runs.certificates import (
    AUTHORITY,
    CERTIFICATE,
    KEY,
    make_certificates,
)


def execute_certificates(arguments: argparse.Namespace) -> int:
    """Make the certificates of a cluster."""
    folder = arguments.dir
    make_certificates(folder)
    if arguments.json:
        print_json({"files": [str(folder / name) for name in (AUTHORITY, CERTIFICATE, KEY)]})
        return 0
    files = (
        f"--tls-ca-file {folder / AUTHORITY} --tls-cert {folder / CERTIFICATE} "
        f"--tls-key {folder / KEY}"
    )
    print(f"{folder}: copy it to every machine of the cluster, and to nobody else")
    print(f"scheduler: dask scheduler --protocol tls --host ADDRESS --no-dashboard {files}")
    print(f"worker:    dask worker tls://ADDRESS:8786 --nthreads 1 --no-dashboard {files}")
    print(f"sweep:     faultline sweep ... --scheduler tls://ADDRESS:8786 --certificates {folder}")
    return 0
