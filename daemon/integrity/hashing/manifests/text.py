"""
The lines of md5sum, sha256sum, xxhsum, b3sum and md5deep: ``hex  name``.

Written and read as coreutils 9.1 does: two spaces, or a space and ``*`` for binary mode; what a name is that has a
backslash or an end of line in it is in ``escapes``. A digest and one space (the reversed form of BSD) is read, too, but
not in the same file, so that nobody can change names by a space.
"""

from __future__ import annotations

import re
from binascii import hexlify
from collections.abc import Sequence

from integrity.hashing.algorithms import BLAKE3, CRC32, MD5, SHA1, SHA256, SHA512, XXH3, XXH64, XXH128, Algorithm
from integrity.hashing.manifests.entries import Piece, is_name, parse_hex, piece_suffix
from integrity.hashing.sums.escapes import escape, unescape

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
