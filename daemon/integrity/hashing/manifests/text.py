r"""
Read and write the line-based forms of digest files.

GNU   ``hex  name`` as md5sum, sha256sum, xxhsum, b3sum and md5deep write it, per coreutils 9.1: two spaces, or a space
      and ``*`` for binary mode. One space (the reversed BSD form) is read, too, but not in the same file, so that
      nobody can change names with a space.
      The algorithm is not named; ``ListAlgorithms`` finds it. fsum and ExactFile name it: ``hex ?SHA1*name``.
BSD   ``MD5 (name) = hex``, as ``md5sum --tag`` and ``xxhsum --tag`` write it, OpenSSL's ``SHA2-256(name)= hex``, and
      the padded ``MD5   (name) = hex`` of ``rhash --bsd``.
BagIt ``hex path`` (RFC 8493 §2.1.3); the file's name names the algorithm. Line ends and percent signs in a path are
      ``%0A``, ``%0D`` and ``%25``; paths are relative to the manifest's folder. bagit-python 1.9 does not decode
      ``%25``. So a percent sign that no reader can take for an escape is written as it is, against the letter of the
      RFC: all readers find that file.
SFV   ``name CRC32``, with comments that begin with a semicolon. Only read.

GNU and BSD lines that begin with a backslash contain the escapes ``\\``, ``\n`` and ``\r``. A name is escaped if it
contains one of these bytes; a carriage return since coreutils 9.0, because at the end of a line it would be taken for
part of the line end.
"""

from __future__ import annotations

import re
from binascii import hexlify
from collections.abc import Sequence
from functools import lru_cache

from integrity.hashing.algorithms import UNNAMED, XXH3, find_by_word
from integrity.hashing.manifests.entries import Piece, is_name, parse_hex, piece_suffix
from integrity.hashing.manifests.unnamed import ListAlgorithms
from integrity.hashing.stored_digests import Algorithm

_is_manifest = re.compile(rb"(?:tag)?manifest-([a-z0-9]+)\.txt").fullmatch
_split_bagit = re.compile(rb"([0-9A-Fa-f]+)[ \t]+\*?(.+)", re.DOTALL).fullmatch
_replace_bagit_special = re.compile(rb"%(?=[0-9A-Fa-f]{2})|[\n\r]").sub
_replace_bagit_escapes = re.compile(rb"%(0[Aa]|0[Dd]|25)").sub


def find_bagit_algorithm(name: bytes) -> Algorithm | None:
    """Return the algorithm in a manifest's file name; None if it is no manifest's name, or the algorithm is unknown."""
    match = _is_manifest(name)
    found = () if match is None else find_by_word(match[1].decode("ascii"))
    return found[0] if len(found) == 1 else None


def find_payload(name: bytes) -> bool | None:
    """Return whether a manifest of this file name lists the payload of a bag; None if it is no manifest's name."""
    return None if _is_manifest(name) is None else not name.startswith(b"tag")


def write_bagit(path: bytes, digest: bytes) -> bytes:
    """Return one line; ``path`` is relative to the bag, ``digest`` raw."""
    escaped = _replace_bagit_special(lambda match: b"%%%02X" % match[0][0], path)
    return hexlify(digest) + b"  " + escaped + b"\n"


def read_bagit(line: bytes, algorithm: Algorithm) -> tuple[bytes, bytes] | None:
    """Parse a line without its terminator: path, raw digest; None if it is malformed."""
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
    Escape a name if necessary.

    Returns:
        The line's prefix (a backslash or nothing), and the name to write.
    """
    if b"\\" not in path and b"\n" not in path and b"\r" not in path:
        return b"", path
    return b"\\", _replace_special(lambda match: _ESCAPES[match[0]], path)


def unescape(name: bytes) -> bytes | None:
    """Undo ``escape``; None if the name contains other escapes, or ends in a single backslash."""
    if _is_escaped(name) is None:
        return None
    return _replace_escapes(lambda match: _NAMES[match[0]], name)


_TAG = rb"([A-Z][A-Za-z0-9/_-]*)"
_split_bsd = re.compile(rb"[ \t]*(\\?)" + _TAG + rb" *\((.+)\)[ \t]*=[ \t]*([0-9A-Fa-f]+)", re.DOTALL).fullmatch


@lru_cache(maxsize=256)
def _find_by_tag(tag: bytes, length: int | None = None) -> Algorithm | None:
    """Return the algorithm of a tag, by the digest's length in bytes where a tag is of several: OpenSSL's BLAKE2."""
    found = find_by_word(tag.decode("ascii"))
    if len(found) > 1:
        found = tuple(one for one in found if length in (None, one.digest_bytes))
    return next(iter(found), None)


def write_bsd(
    path: bytes, algorithm: Algorithm, digest: bytes, *, piece: Piece | None = None, end: bytes = b"\n"
) -> bytes:
    """
    Return one line.

    Args:
        path: unescaped.
        digest: raw.
        piece: the part of the file that was digested; None for the whole.
        end: line terminator; with NUL nothing is escaped.
    """
    lead, name = (b"", path) if end == b"\0" else escape(path)
    whole_name = name if piece is None else name + piece_suffix(piece)
    return lead + algorithm.tag + b" (" + whole_name + b") = " + hexlify(digest) + end


_split_tag = re.compile(rb"[ \t]*\\?" + _TAG + rb" *\(").match
_split_digits = re.compile(rb"[ \t]*\\?([0-9A-Fa-f]+)(?:[ \t]|$)").match


def guess_algorithm(line: bytes, algorithms: ListAlgorithms) -> Algorithm | None:
    """Return the algorithm that a malformed line seems to be of, by its tag or number of digits; None if unknown."""
    tag, digits = _split_tag(line), _split_digits(line)
    if tag is not None:
        return _find_by_tag(tag[1])
    return None if digits is None else algorithms.find_usual(len(digits[1]) // 2)


def read_bsd(line: bytes, wanted: Sequence[Algorithm] = ()) -> tuple[bytes, Algorithm, bytes] | None:
    """Parse a line without its terminator: path, algorithm, raw digest; None if it is malformed or not wanted."""
    match = _split_bsd(line)
    if match is None:
        return None
    lead, tag, name, digits = match.groups()
    algorithm = _find_by_tag(tag, len(digits) // 2)
    if algorithm is None or (wanted and algorithm not in wanted):
        return None
    digest = parse_hex(digits, algorithm)
    path = unescape(name) if lead else name
    return None if digest is None or path is None or not is_name(path) else (path, algorithm, digest)


_split = re.compile(rb"[ \t]*(\\?)((?:XXH3_)?)([0-9A-Fa-f]+)[ \t](.+)", re.DOTALL).fullmatch


_split_hint = re.compile(rb"\?([A-Z][A-Za-z0-9-]*)\*(.+)", re.DOTALL).fullmatch


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
    Return one line.

    Args:
        path: unescaped.
        digest: raw.
        piece: the part of the file that was digested; None for the whole.
        end: line terminator; with NUL nothing is escaped.
        mark: ``*`` for binary mode.
    """
    lead, name = (b"", path) if end == b"\0" else escape(path)
    suffix = end if piece is None else piece_suffix(piece) + end
    return lead + algorithm.bare_prefix + hexlify(digest) + b" " + mark + name + suffix


class GnuReader:
    """
    Read the lines of one file.

    Args:
        algorithms: of the list.
    """

    def __init__(self, algorithms: ListAlgorithms) -> None:
        self._by_length = {2 * length: algorithms.find(length) for length in UNNAMED}
        self._wanted = algorithms.wanted
        self._has_prefixed = not self._wanted or XXH3 in self._wanted
        self._is_reversed: bool | None = None

    def read(self, line: bytes) -> tuple[bytes, Algorithm, bytes] | None:
        """Parse a line without its terminator: path, algorithm, raw digest; None if it is malformed."""
        match = _split(line)
        if match is None:
            return None
        lead, prefix, digits, rest = match.groups()
        algorithm = XXH3 if prefix and self._has_prefixed else None if prefix else self._by_length.get(len(digits))
        hint = _split_hint(rest)
        if hint is not None:
            algorithm, rest = _find_by_tag(hint[1], len(digits) // 2), b"*" + hint[2]
            algorithm = algorithm if not self._wanted or algorithm in self._wanted else None
        digest = None if algorithm is None else parse_hex(digits, algorithm)
        name = None if digest is None else self._take_mark(rest)
        path = unescape(name) if lead and name is not None else name
        if algorithm is None or digest is None or path is None or not is_name(path):
            return None
        return path, algorithm, digest

    def _take_mark(self, rest: bytes) -> bytes | None:
        """Return the name after the mode mark; the first line decides whether this file has marks."""
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
    """Parse a line without its terminator: path, CRC32 (most significant byte first); None if it is malformed."""
    match = _split_sfv(line)
    if match is None or not is_name(match[1]):
        return None
    return match[1], bytes.fromhex(match[2].decode("ascii"))


def is_tagged(line: bytes) -> bool:
    """Return whether a line has the form of a BSD line, of any algorithm."""
    return _split_bsd(line) is not None
