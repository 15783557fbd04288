"""The certificate of a page that signs its own: made at the first start, renewed when that is due, and private."""

from __future__ import annotations

import re
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.request import urlopen

from integrity.web.certificate import ensure_certificate
from support.cli import Box
from support.webpage import WebPage

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def test_page_is_served_with_its_own_certificate(integrity: Box) -> None:
    """A client that knows the certificate accepts it; only the user can read the file; a new start keeps it."""
    fingerprints = set()
    for _ in range(2):
        with WebPage(integrity, web='self_signed = true\nhosts = ["nas.example.org"]') as page:
            place = page.state / "integrity-web/certificate.pem"
            trusting = ssl.create_default_context(cafile=place)
            with urlopen(f"https://127.0.0.1:{page.port}/login", context=trusting) as reply:
                assert 200 == reply.status
            assert f"The page is at https://127.0.0.1:{page.port}/" in page.log
            told = re.search(r"valid until (\d{4})-\d\d-\d\d; SHA-256 ([0-9A-F:]{95})", page.log)
            assert told is not None, page.log
            fingerprints.add(told[2])

    assert 0o600 == place.stat().st_mode & 0o777
    assert 1 == len(fingerprints)


def test_certificate_names_what_browsers_may_ask_for(tmp_path: Path) -> None:
    """Names and addresses of both kinds; another name makes another certificate."""
    folder = bytes(tmp_path)
    first = ensure_certificate(folder, {"nas", "192.0.2.7", "[::1]"}, NOW)
    fewer = ensure_certificate(folder, {"nas"}, NOW)
    other = ensure_certificate(folder, {"nas", "nas.local"}, NOW)

    assert {"nas", "192.0.2.7", "::1"} == first.names
    assert first == fewer
    assert first.fingerprint != other.fingerprint
    assert {"nas", "nas.local"} == other.names


def test_certificate_is_renewed_before_it_ends(tmp_path: Path) -> None:
    """It is valid for as long as browsers accept; half a year before its end a start of the page makes another one."""
    folder = bytes(tmp_path)
    first = ensure_certificate(folder, {"nas"}, NOW)
    kept = ensure_certificate(folder, {"nas"}, first.ends_at - timedelta(days=181))
    renewed = ensure_certificate(folder, {"nas"}, first.ends_at - timedelta(days=179))

    assert timedelta(days=820) < first.ends_at - NOW < timedelta(days=825)
    assert first == kept
    assert renewed.ends_at > first.ends_at


def test_damaged_certificate_is_made_again(tmp_path: Path) -> None:
    """The page starts all the same."""
    ensure_certificate(bytes(tmp_path), {"nas"}, NOW)
    (tmp_path / "certificate.pem").write_bytes(b"-----BEGIN CERTIFICATE-----\n")

    assert {"nas"} == ensure_certificate(bytes(tmp_path), {"nas"}, NOW).names
