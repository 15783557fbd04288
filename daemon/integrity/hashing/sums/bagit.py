"""
The manifests of BagIt (RFC 8493 §2.1.3): ``hex path``, one algorithm a file, which the file's name tells.

In a path the two ends of lines and the percent sign are ``%0A``, ``%0D`` and ``%25``. Paths are relative to the folder
that the manifest lies in.
"""

from __future__ import annotations

import re
from binascii import hexlify

from integrity.hashing.algorithms import BY_NAME, Algorithm
from integrity.hashing.manifests.entries import is_name, parse_hex

_is_manifest = re.compile(rb"(?:tag)?manifest-([a-z0-9]+)\.txt").fullmatch
_split = re.compile(rb"([0-9A-Fa-f]+)[ \t]+\*?(.+)", re.DOTALL).fullmatch
_find_special = re.compile(rb"[%\n\r]").sub
_find_escapes = re.compile(rb"%(0[Aa]|0[Dd]|25)").sub


def find_bagit_algorithm(name: bytes) -> Algorithm | None:
    """Tell the algorithm of a manifest by its file name; None if it is no manifest, or of an unknown algorithm."""
    match = _is_manifest(name)
    return None if match is None else BY_NAME.get(match[1].decode("ascii"))


def write_bagit(path: bytes, digest: bytes) -> bytes:
    """Write one line; ``path`` is relative to the bag, ``digest`` raw."""
    escaped = _find_special(lambda match: b"%%%02X" % match[0][0], path)
    return hexlify(digest) + b"  " + escaped + b"\n"


def read_bagit(line: bytes, algorithm: Algorithm) -> tuple[bytes, bytes] | None:
    """Read a line without its end: path, raw digest; None if it is none of this form."""
    match = _split(line)
    if match is None:
        return None
    digest = parse_hex(match[1], algorithm)
    path = _find_escapes(lambda escaped: bytes.fromhex(escaped[1].decode("ascii")), match[2])
    return None if digest is None or not is_name(path) else (path, digest)
