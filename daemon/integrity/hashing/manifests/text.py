r"""
The manifests of BagIt (RFC 8493 §2.1.3): ``hex path``, one algorithm a file, which the file's name tells.

In a path the two ends of lines and the percent sign are ``%0A``, ``%0D`` and ``%25``. Paths are relative to the folder
that the manifest lies in.

The escapes of coreutils: in a line that begins with a backslash the name has ``\\``, ``\n`` and ``\r`` in it.

A name is escaped if it holds one of these three bytes: a carriage return, too, since coreutils 9.0, because at the end
of a line it would be taken for a part of the line's end.

The lines of BSD, which name their algorithm: ``MD5 (name) = hex``, as ``md5sum --tag`` and ``xxhsum --tag`` write them.

OpenSSL's ``SHA2-256(name)= hex`` is read as well.

The lines of md5sum, sha256sum, xxhsum, b3sum and md5deep: ``hex  name``.

Written and read as coreutils 9.1 does: two spaces, or a space and ``*`` for binary mode; what a name is that has a
backslash or an end of line in it is in ``escapes``. A digest and one space (the reversed form of BSD) is read, too, but
not in the same file, so that nobody can change names by a space.

The files of Simple File Verification: ``name CRC32``, and comments that begin with a semicolon. Only read.
"""

from __future__ import annotations

import re
from binascii import hexlify
from collections.abc import Sequence

from integrity.hashing.algorithms import (
    ALGORITHMS,
    BLAKE3,
    BY_NAME,
    CRC32,
    MD5,
    SHA1,
    SHA256,
    SHA512,
    XXH3,
    XXH64,
    XXH128,
    Algorithm,
)
from integrity.hashing.manifests.entries import Piece, is_name, parse_hex, piece_suffix

_is_manifest = re.compile(rb"(?:tag)?manifest-([a-z0-9]+)\.txt").fullmatch
_split_bagit = re.compile(rb"([0-9A-Fa-f]+)[ \t]+\*?(.+)", re.DOTALL).fullmatch
_replace_bagit_special = re.compile(rb"[%\n\r]").sub
_replace_bagit_escapes = re.compile(rb"%(0[Aa]|0[Dd]|25)").sub


def find_bagit_algorithm(name: bytes) -> Algorithm | None:
    """Tell the algorithm of a manifest by its file name; None if it is no manifest, or of an unknown algorithm."""
    match = _is_manifest(name)
    return None if match is None else BY_NAME.get(match[1].decode("ascii"))


def write_bagit(path: bytes, digest: bytes) -> bytes:
    """Write one line; ``path`` is relative to the bag, ``digest`` raw."""
    escaped = _replace_bagit_special(lambda match: b"%%%02X" % match[0][0], path)
    return hexlify(digest) + b"  " + escaped + b"\n"


def read_bagit(line: bytes, algorithm: Algorithm) -> tuple[bytes, bytes] | None:
    """Read a line without its end: path, raw digest; None if it is none of this form."""
    match = _split_bagit(line)
    if match is None:
        return None
    digest = parse_hex(match[1], algorithm)
    path = _replace_bagit_escapes(lambda escaped: bytes.fromhex(escaped[1].decode("ascii")), match[2])
    return None if digest is None or not is_name(path) else (path, digest)


_ESCAPES = {b"\\": b"\\\\", b"\n": b"\\n", b"\r": b"\\r"}
_NAMES = {escape: byte for byte, escape in _ESCAPES.items()}
_replace_special = re.compile(rb"[\\\n\r]").sub
_replace_escapes = re.compile(rb"\\(.?)", re.DOTALL).sub
_is_escaped = re.compile(rb"(?:[^\\]|\\[\\nr])*", re.DOTALL).fullmatch


def escape(path: bytes) -> tuple[bytes, bytes]:
    """
    Escape a name if it needs that.

    Returns:
        What stands at the beginning of the line (a backslash or nothing), and the name to write.
    """
    if b"\\" not in path and b"\n" not in path and b"\r" not in path:
        return b"", path
    return b"\\", _replace_special(lambda match: _ESCAPES[match[0]], path)


def unescape(name: bytes) -> bytes | None:
    """Undo ``escape``; None if the name holds other escapes, or a backslash at its end."""
    if _is_escaped(name) is None:
        return None
    return _replace_escapes(lambda match: _NAMES[match[0]], name)


_split_bsd = re.compile(rb"[ \t]*(\\?)([A-Z][A-Z0-9-]*) ?\((.+)\)[ \t]*=[ \t]*([0-9A-Fa-f]+)", re.DOTALL).fullmatch

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
    match = _split_bsd(line)
    if match is None:
        return None
    lead, tag, name, digits = match.groups()
    algorithm = _BY_TAG.get(tag)
    if algorithm is None or (wanted and algorithm not in wanted):
        return None
    digest = parse_hex(digits, algorithm)
    path = unescape(name) if lead else name
    return None if digest is None or path is None or not is_name(path) else (path, algorithm, digest)


# Which of those with digests of the same length is meant when nobody says it: what is most in use.
_USUAL = (MD5, SHA1, SHA256, SHA512, XXH64)
_PREFIXED = (XXH3,)
assert not {BLAKE3, XXH128, CRC32} & {*_USUAL, *_PREFIXED}  # never guessed

_split = re.compile(rb"[ \t]*(\\?)((?:XXH3_)?)([0-9A-Fa-f]+)[ \t](.+)", re.DOTALL).fullmatch


def write_gnu(
    path: bytes,
    algorithm: Algorithm,
    digest: bytes,
    *,
    piece: Piece | None = None,
    end: bytes = b"\n",
    mark: bytes = b" ",
) -> bytes:
    """
    Write one line.

    Args:
        path: as is.
        algorithm: of the digest.
        digest: raw.
        piece: the part of the file that was digested; None for the whole.
        end: of the line; with NUL nothing is escaped.
        mark: ``*`` for binary mode.
    """
    lead, name = (b"", path) if end == b"\0" else escape(path)
    suffix = end if piece is None else piece_suffix(piece) + end
    return lead + algorithm.bare_prefix + hexlify(digest) + b" " + mark + name + suffix


class GnuReader:
    """
    Read lines of one file.

    Args:
        wanted: the only algorithms to be read; empty for whatever the digits look like.
    """

    def __init__(self, wanted: Sequence[Algorithm] = ()) -> None:
        self._by_length = {2 * each.digest_bytes: each for each in reversed(wanted or _USUAL)}
        self._has_prefixed = not wanted or XXH3 in wanted
        self._is_reversed: bool | None = None

    def read(self, line: bytes) -> tuple[bytes, Algorithm, bytes] | None:
        """Read a line without its end: path, algorithm, raw digest; None if it is none of this form."""
        match = _split(line)
        if match is None:
            return None
        lead, prefix, digits, rest = match.groups()
        algorithm = XXH3 if prefix and self._has_prefixed else None if prefix else self._by_length.get(len(digits))
        digest = None if algorithm is None else parse_hex(digits, algorithm)
        name = None if digest is None else self._take_mark(rest)
        path = unescape(name) if lead and name is not None else name
        if algorithm is None or digest is None or path is None or not is_name(path):
            return None
        return path, algorithm, digest

    def _take_mark(self, rest: bytes) -> bytes | None:
        """Return the name behind the mode's mark; the first line decides whether there are marks in this file."""
        if len(rest) == 1 or rest[:1] not in (b" ", b"*"):
            if self._is_reversed is False:
                return None
            self._is_reversed = True
            return rest
        if self._is_reversed is None:
            self._is_reversed = False
        return rest if self._is_reversed else rest[1:]


_split_sfv = re.compile(rb"(.*[^ \t])[ \t]+([0-9A-Fa-f]{8})[ \t]*", re.DOTALL).fullmatch


def read_sfv(line: bytes) -> tuple[bytes, bytes] | None:
    """Read a line without its end: path, CRC32 most significant byte first; None if it is none of this form."""
    match = _split_sfv(line)
    if match is None or not is_name(match[1]):
        return None
    return match[1], bytes.fromhex(match[2].decode("ascii"))
