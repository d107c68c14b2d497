"""Certificates that authenticate the processes of a Dask cluster to one another.

A scheduler or worker executes any code that a client sends. Outside this machine both therefore
require a certificate of one authority, which Dask's configuration names.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from faultline.experiments.config.errors import UserError

if TYPE_CHECKING:
    from distributed import Security

_HOW = "docs/many-machines.md shows how"


def security_for(address: str) -> Security:
    """Return the TLS settings of a scheduler; none are needed on this machine.

    It is a UserError if the address is invalid, or outside this machine without certificates.
    """
    from distributed import Security

    if not _has_port(address):
        raise UserError(f"scheduler {address}: give a port from 1 to 65535, as in tls://HOST:8786")
    if not address.startswith("tls://"):
        if not _is_loopback(address):
            raise UserError(
                f"scheduler {address}: without TLS, anyone who reaches it can run anything; start "
                f"it with certificates, and give tls://HOST:PORT; {_HOW}"
            )
        return Security()
    security = Security(require_encryption=True)
    named = security.get_tls_config_for_role("client")
    for file in (named["ca_file"], named["cert"], named["key"]):
        if file is None:
            raise UserError(
                f"scheduler {address}: Dask's configuration names no certificates; set DASK_CONFIG "
                f"to the folder that has them; {_HOW}"
            )
        if not Path(file).is_file():
            raise UserError(f"{file}: no such file; make certificates again; {_HOW}")
    return security


def _has_port(address: str) -> bool:
    """Return whether an address has a valid port or none; Dask retries an invalid one for long."""
    try:
        return urlsplit(address if "://" in address else f"tcp://{address}").port != 0
    except ValueError:
        return not address.rpartition(":")[2].isdigit()


def _is_loopback(address: str) -> bool:
    try:
        host = urlsplit(address if "://" in address else f"tcp://{address}").hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
