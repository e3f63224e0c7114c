"""Who may join a cluster: TLS in which both sides show a certificate of one authority."""

import os
from pathlib import Path
from typing import Any

from ask_dask.errors import InputError, StoreError

LOOPBACK = "127.0.0.1"
NAMES = ("ca.pem", "cert.pem", "key.pem")
"""Files of a folder of certificates: the authority, and a certificate of it with its key, for every role."""


def is_loopback(host: str) -> bool:
    """Whether nobody beyond this machine reaches what listens there.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("node7")
    (True, True, False, False)
    """
    return host in {"localhost", "::1"} or host.startswith("127.")


def own_security(folder: Path | str) -> Any:
    """The certificates of a folder, as distributed takes them; connections without TLS are refused.

    Raises
    ------
    InputError
        A file is missing, cannot be read or is no certificate or key, or the key is of another certificate.
    """
    from distributed.security import Security

    ca, cert, key = (str(Path(folder) / name) for name in NAMES)
    for file in (ca, cert, key):
        if not Path(file).is_file():
            raise InputError(
                f"There is no {file}: a folder of certificates has {', '.join(NAMES)}. Make one with: ask-dask cluster "
                f"certificates {folder}"
            )
    roles = {f"tls_{role}_{name}": path for role in ("client", "scheduler", "worker")
             for name, path in (("cert", cert), ("key", key))}  # fmt: skip
    security = Security(require_encryption=True, tls_ca_file=ca, **roles)
    try:
        security.get_connection_args("client")
    except OSError as error:  # what ssl raises too
        raise InputError(
            f"The certificates in {folder} cannot be used ({error.strerror or error}): {cert} and {key} must be a pair "
            f"of {ca} that you may read."
        ) from error
    return security


def temporary_security() -> Any:
    """Certificates that are in memory only and end with the cluster."""
    from distributed.security import Security

    return Security.temporary()


def security_for(host: str, folder: Path | str | None) -> Any:
    """What a cluster that listens there needs: the user's own certificates, temporary ones, or none on loopback."""
    if folder is not None:
        return own_security(folder)
    return None if is_loopback(host) else temporary_security()


def make_certificates(folder: Path) -> None:
    """Write a new authority and a certificate of it, valid for a year; only this user may read them.

    Parameters
    ----------
    folder : Path
        Made if it is not there.

    Raises
    ------
    StoreError
        There are certificates already, which running clusters may use.
    """
    made = temporary_security()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, text in zip(NAMES, (made.tls_ca_file, made.tls_client_cert, made.tls_client_key), strict=True):
            with open(
                os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii"
            ) as file:
                file.write(text)
    except FileExistsError as error:
        raise StoreError(f"{error.filename} is there already: name another folder, or remove it.") from error
