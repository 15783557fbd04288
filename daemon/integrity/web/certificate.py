"""
Make the certificate of a page that signs its own, and renew it when the page starts.

I1  Certificate and key are one file, which only the user of the page can read.
I2  The certificate is no authority: it signs nothing else, and is installed nowhere.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from integrity.errors import ConfigError, show_path
from integrity.extras import how_to_install
from integrity.files.replace_file import write_in_place_of

if TYPE_CHECKING:
    from cryptography import x509


_NAME = b"certificate.pem"
_VALID_DAYS = 825
"""The longest validity that Apple's browsers accept ("Requirements for trusted certificates in iOS 13")."""

_RENEWED_BEFORE_DAYS = 180
"""Renewal needs a start of the page, and a NAS may run for months without one."""

_CLOCK_SKEW = timedelta(days=1)


class OwnCertificate(NamedTuple):
    """
    The certificate of a page.

    Attributes:
        fingerprint: SHA-256, as browsers show it.
    """

    path: bytes
    fingerprint: str
    ends_at: datetime
    names: frozenset[str]

    def fits(self, names: Collection[str], now: datetime) -> bool:
        """Return whether it can be used for all names, and needs no renewal yet."""
        return set(names) <= self.names and now < self.ends_at - timedelta(days=_RENEWED_BEFORE_DAYS)


def require_cryptography() -> None:
    """
    Require the library that makes certificates.

    Raises:
        ConfigError: it is not installed.
    """
    if find_spec("cryptography") is None:
        raise ConfigError(f"a certificate of its own needs packages that are not installed; {how_to_install('web')}")


def ensure_certificate(folder: bytes, hosts: Collection[str], now: datetime | None = None) -> OwnCertificate:
    """
    Return the certificate of a page; make it if there is none, or none that fits.

    Args:
        folder: of the page's state; made with mode 0700 if it is missing.
        hosts: names under which browsers ask for the page; IPv6 addresses in brackets.

    Raises:
        ConfigError: it can't be made.
    """
    require_cryptography()
    time = now or datetime.now(UTC)
    names = {host.strip("[]") for host in hosts}
    known = find_certificate(folder)
    if known is not None and known.fits(names, time):
        return known
    path = os.path.join(folder, _NAME)
    try:
        replace_private_file(path, _make_certificate(sorted(names), time))
    except OSError as error:
        raise ConfigError(f"{show_path(path)}: the page's certificate can't be written: {error.strerror}") from error
    made = find_certificate(folder)
    assert made is not None
    return made


def find_certificate(folder: bytes) -> OwnCertificate | None:
    """Return the certificate in the folder of a page's state; None if there is none that can be read."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    path = os.path.join(folder, _NAME)
    try:
        with open(path, "rb") as file:
            certificate = x509.load_pem_x509_certificate(file.read())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        return None
    digest = certificate.fingerprint(hashes.SHA256()).hex(":").upper()
    texts = frozenset(str(name.value) for name in names)
    return OwnCertificate(path, digest, certificate.not_valid_after_utc, texts)


def _make_certificate(names: Collection[str], now: datetime) -> bytes:
    """Return a new key and the certificate that it signs for itself, as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "integrity")])
    key_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now - _CLOCK_SKEW + timedelta(days=_VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName([_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(key_id, critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM) + private


def _name(name: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def replace_private_file(path: bytes, content: bytes) -> None:
    """
    Write a file with mode 0600 and put it in the place of the former one, whole or not at all; make its folder.

    Raises:
        OSError: it can't be written.
    """
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    found = os.stat(folder)
    owner = (found.st_uid, found.st_gid) if os.geteuid() == 0 else None  # root writes for a page of another user
    write_in_place_of(path, content, mode=0o600, folder_mode=0o700, owner=owner)
