"""Certificates by which the processes of a Dask cluster authenticate one another.

A scheduler runs whatever it is sent. So it talks only to those that show a certificate of the same
authority, and so do the workers. The authority's own key is thrown away as soon as it has signed:
who has the folder is in, and nobody can be let in later.
"""

from __future__ import annotations

import ipaddress
import os
import stat
from datetime import datetime, timedelta, timezone
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from faultline.experiments.config.errors import UserError
from faultline.platforms.files import write_file

if TYPE_CHECKING:
    from cryptography.x509 import CertificateBuilder, KeyUsage
    from distributed import Security

AUTHORITY = "authority.pem"
CERTIFICATE = "certificate.pem"
KEY = "key.pem"
LOOPBACK = "127.0.0.1:0"
_VALID = timedelta(days=3_650)
# Clocks of machines differ.
_EARLIER = timedelta(days=1)


def make_certificates(directory: Path) -> None:
    """Make a new authority, and one certificate with its key for all machines of a cluster.

    That there is something in the folder, or it cannot be written, is a UserError.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.stat()
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or found.st_uid != os.geteuid():
            raise UserError(
                f"{directory}: others can write there, and so put in certificates of theirs; "
                "choose a new folder"
            )
        if any(directory.iterdir()):
            raise UserError(f"{directory}: is not empty; certificates go into a new folder")
    except OSError as error:
        raise UserError(f"{directory}: {error.strerror}; choose another folder") from error
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "faultline cluster")])
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "faultline machine")])
    identifier = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())

    def begun(name: x509.Name, public: ec.EllipticCurvePublicKey) -> CertificateBuilder:
        now = datetime.now(timezone.utc)
        return (
            x509.CertificateBuilder(issuer, name, public, x509.random_serial_number())
            .not_valid_before(now - _EARLIER)
            .not_valid_after(now + _VALID)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), False
            )
        )

    authority = (
        begun(issuer, authority_key.public_key())
        .add_extension(identifier, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    certificate = (
        begun(subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage(
                [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            ),
            critical=False,
        )
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    for name, content in (
        (AUTHORITY, authority.public_bytes(pem)),
        (CERTIFICATE, certificate.public_bytes(pem)),
        (KEY, private),
    ):
        write_file(directory / name, content, mode=0o600)


def cluster_commands(directory: Path) -> dict[str, str]:
    """Return the commands of a cluster's scheduler and workers, with its certificates.

    Dask's HTTP server knows no certificates, and cannot be left out: it is bound to the loopback
    interface. ``-I`` keeps modules of the working folder out.
    """
    python = "python -I -m dask"
    files = (
        f"--tls-ca-file {quote(str(directory / AUTHORITY))} "
        f"--tls-cert {quote(str(directory / CERTIFICATE))} --tls-key {quote(str(directory / KEY))}"
    )
    http = f"--no-dashboard --dashboard-address {LOOPBACK}"
    worker = "tls://ADDRESS:8786 --host WORKER_ADDRESS --nthreads 1"
    return {
        "scheduler": f"{python} scheduler --protocol tls --host ADDRESS {http} {files}",
        "worker": f"{python} worker {worker} {http} {files}",
    }


def security_for(address: str, directory: Path | None) -> Security:
    """Return how to talk to a scheduler: by certificates, or in the clear on this machine alone.

    An address that leads off it in the clear is a UserError, and so are certificates that are not
    there.
    """
    from distributed import Security

    if not _has_port(address):
        raise UserError(f"scheduler {address}: give a port from 1 to 65535, as in tls://HOST:8786")
    if directory is None:
        if address.startswith("tls://"):
            raise UserError(
                f"scheduler {address}: needs --certificates DIR, the folder that faultline cluster "
                "certificates made"
            )
        if not _is_here(address):
            raise UserError(
                f"scheduler {address}: without TLS, anyone who reaches it can run anything; make "
                "certificates with faultline certificates DIR, start it with them, and "
                "give tls://HOST:PORT and --certificates DIR"
            )
        return Security()
    if not address.startswith("tls://"):
        raise UserError(f"scheduler {address}: with --certificates, give tls://HOST:PORT")
    for name in (AUTHORITY, CERTIFICATE, KEY):
        if not (directory / name).is_file():
            raise UserError(
                f"{directory / name}: no such file; faultline certificates DIR makes it"
            )
    return Security(
        tls_ca_file=str(directory / AUTHORITY),
        tls_client_cert=str(directory / CERTIFICATE),
        tls_client_key=str(directory / KEY),
        require_encryption=True,
    )


def _has_port(address: str) -> bool:
    """Whether the port of an address is none, or one that there is: Dask tries any for long."""
    try:
        return urlsplit(address if "://" in address else f"tcp://{address}").port != 0
    except ValueError:
        return not address.rpartition(":")[2].isdigit()


def _is_here(address: str) -> bool:
    try:
        host = urlsplit(address if "://" in address else f"tcp://{address}").hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _usage(signs: bool) -> KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
