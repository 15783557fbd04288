"""
The places of backup copies and alerts: which schemes exist, and which parts of a URL may be secret.

This is the only table of schemes. ``copies`` has an implementation for each, and one for folders and one for manifest
files, which are written as paths. Passwords in a URL are refused where a better place for them exists; where none
does, they are hidden.
"""

from __future__ import annotations

import os
import re
from enum import StrEnum
from typing import Final


class Scheme(StrEnum):
    """The word before the first colon of a copy's URL."""

    SSH = "ssh"
    S3 = "s3"
    RCLONE = "rclone"
    RESTIC = "restic"
    BORG = "borg"
    SNAPSHOTS = "snapshots"

    @property
    def prefix(self) -> str:
        """Return what every URL of the scheme begins with: one colon only, where a program's own address follows."""
        return f"{self}://" if self in (Scheme.SSH, Scheme.S3) else f"{self}:"


PARITY: Final = "parity"
"""What the parity of files is called where copies are named: ``--from parity``."""

SCHEME_PREFIXES: Final = tuple(scheme.prefix for scheme in Scheme)


def find_scheme(url: str) -> Scheme | None:
    """Return the scheme by the word before the first colon; None for a path or an unknown scheme."""
    word, colon, _ = url.partition(":")
    return next((scheme for scheme in Scheme if colon and scheme == word), None)


def keeps_versions(url: str) -> bool:
    """Return whether a copy of this URL has several versions, as backups of different times are."""
    return find_scheme(url) in (Scheme.RESTIC, Scheme.BORG, Scheme.SNAPSHOTS)


def is_url(text: str) -> bool:
    """Return whether a text is a URL, of a known scheme or not; a path that has a colon in it is none."""
    return "://" in text or text.startswith(SCHEME_PREFIXES)


def find_local_path(url: str) -> bytes | None:
    """Return the path of a copy that is a folder or file of this machine; None for the URL of any other copy."""
    return os.fsencode(url) if url.startswith("/") else None


def find_password(url: str) -> str | None:
    """Return what is wrong with a URL that contains a password or key, without quoting the URL; None without one."""
    scheme, _, rest = url.partition("://")
    before, at, _ = re.split(r"[/?]", rest, maxsplit=1)[0].rpartition("@")
    if scheme == Scheme.S3 and at:
        return "must have nothing before an @: credentials belong where AWS programs look for them (~/.aws/credentials)"
    if ":" in before and not scheme.startswith((Scheme.RCLONE.prefix, Scheme.RESTIC.prefix, Scheme.BORG.prefix)):
        return "must have no password in it, where others can read it: log in with a key (ssh-keygen, ssh-copy-id)"
    return None


def has_backend_options(url: str) -> bool:
    """Return whether a URL describes or changes a remote of rclone: such options can name commands to run."""
    return re.match(r"(restic:)?rclone:(:|[^:/]*,)", url) is not None


def hide_secrets(url: str) -> str:
    """Replace passwords by ``...``, and the options of an rclone remote that the URL describes, which may be some."""
    return hide_passwords(re.sub(r"^(rclone::?[^,:/]*),.*:", r"\1,...:", url, count=1, flags=re.DOTALL))


def hide_passwords(text: str) -> str:
    """Replace the passwords in the URLs of a text by ``...``."""
    return re.sub(r"//([^/\s:@]*):[^/\s@]*@", r"//\1:...@", text)


def find_service(url: str) -> str | None:
    """Return the scheme of an address that alerts are sent to; None without one, as any part may then be a token."""
    found = re.match(r"([A-Za-z0-9]{1,32})://", url)
    return found and found.group(1)


def hide_address(url: str) -> str:
    """Return the scheme of an address that alerts are sent to, with the rest hidden."""
    service = find_service(url)
    return f"{service}://(hidden)" if service else "(hidden)"
