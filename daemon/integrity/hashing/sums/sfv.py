"""The files of Simple File Verification: ``name CRC32``, and comments that begin with a semicolon. Only read."""

from __future__ import annotations

import re

from integrity.hashing.manifests.entries import is_name

_split = re.compile(rb"(.*[^ \t])[ \t]+([0-9A-Fa-f]{8})[ \t]*", re.DOTALL).fullmatch


def read_sfv(line: bytes) -> tuple[bytes, bytes] | None:
    """Read a line without its end: path, CRC32 most significant byte first; None if it is none of this form."""
    match = _split(line)
    if match is None or not is_name(match[1]):
        return None
    return match[1], bytes.fromhex(match[2].decode("ascii"))
