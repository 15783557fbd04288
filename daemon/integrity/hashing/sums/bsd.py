"""
The lines of BSD, which name their algorithm: ``MD5 (name) = hex``, as ``md5sum --tag`` and ``xxhsum --tag`` write them.

OpenSSL's ``SHA2-256(name)= hex`` is read as well.
"""

from __future__ import annotations

import re
from binascii import hexlify
from collections.abc import Sequence

from integrity.hashing.algorithms import ALGORITHMS, SHA256, SHA512, Algorithm
from integrity.hashing.manifests.entries import Piece, is_name, parse_hex, piece_suffix
from integrity.hashing.sums.escapes import escape, unescape

_split = re.compile(rb"[ \t]*(\\?)([A-Z][A-Z0-9-]*) ?\((.+)\)[ \t]*=[ \t]*([0-9A-Fa-f]+)", re.DOTALL).fullmatch

_BY_TAG = {**{algorithm.tag: algorithm for algorithm in ALGORITHMS}, b"SHA2-256": SHA256, b"SHA2-512": SHA512}


def write_bsd(
    path: bytes, algorithm: Algorithm, digest: bytes, *, piece: Piece | None = None, end: bytes = b"\n"
) -> bytes:
    """
    Write one line.

    Args:
        path: as is.
        algorithm: of the digest.
        digest: raw.
        piece: the part of the file that was digested; None for the whole.
        end: of the line; with NUL nothing is escaped.
    """
    lead, name = (b"", path) if end == b"\0" else escape(path)
    whole_name = name if piece is None else name + piece_suffix(piece)
    return lead + algorithm.tag + b" (" + whole_name + b") = " + hexlify(digest) + end


def read_bsd(line: bytes, wanted: Sequence[Algorithm] = ()) -> tuple[bytes, Algorithm, bytes] | None:
    """Read a line without its end: path, algorithm, raw digest; None if it is none of this form, or not wanted."""
    match = _split(line)
    if match is None:
        return None
    lead, tag, name, digits = match.groups()
    algorithm = _BY_TAG.get(tag)
    if algorithm is None or (wanted and algorithm not in wanted):
        return None
    digest = parse_hex(digits, algorithm)
    path = unescape(name) if lead else name
    return None if digest is None or path is None or not is_name(path) else (path, algorithm, digest)
