r"""
Read and write the lines of digest files, form by form.

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

hashdeep 4: two lines that name the columns, comments, then ``size,digest,...,name``. The name is last and unquoted,
so it may contain commas. hashdeep has no escapes and writes line ends in names as they are, which nobody can read
back. Here only such names are written as coreutils does: hashdeep cannot find that file, which it could not do anyway,
and all other lines stay intact. A path that ends in ``offset 0-9`` may be a piece: hashdeep writes both alike, so it
is read as a name.

JSON: objects, one per line: ``{"type":"sum","schema":1,"path":...,"size_bytes":...,"md5":...}``, with ``path_b64``
for a path that is not UTF-8. A piece of a file has ``offset`` and ``length`` as well; its digests are not those of the
file, so pieces are not entries. Objects of other types are ignored.

A line is parsed without its terminator, and only for the algorithms that are wanted; none means all. Whatever writes
a line takes an unescaped path, raw digests, and the piece of the file that they are of; None for the whole.
"""

from __future__ import annotations

import base64
import json
import re
from binascii import hexlify
from collections.abc import Mapping, Sequence
from functools import lru_cache

from integrity.hashing.algorithms import ALGORITHMS, BY_NAME, CRC32, UNNAMED, XXH3, find_by_word
from integrity.hashing.stored_digests import Algorithm
from integrity.lists.entries import IGNORED, Digests, Ignored, Piece
from integrity.lists.unnamed import ListAlgorithms
from integrity.paths import path_fields

Content = tuple[bytes, int | None, Digests] | Ignored | None
"""What a line says: path, size if known, raw digests. None: it is malformed, or states no digest that is wanted."""

_is_hex = re.compile(rb"[0-9A-Fa-f]+").fullmatch


def _parse_hex(digits: bytes, algorithm: Algorithm) -> bytes | None:
    """Decode hexadecimal digits of either case; None if they are not a digest of this algorithm."""
    if len(digits) != 2 * algorithm.digest_bytes or _is_hex(digits) is None:
        return None
    return bytes.fromhex(digits.decode("ascii"))


def _is_name(path: bytes) -> bool:
    """Return whether a file can have this name."""
    return bool(path) and b"\0" not in path


def _piece_suffix(piece: Piece | None) -> bytes:
    """Return the suffix that marks a part of a file, as md5deep and hashdeep write it; empty for the whole file."""
    if piece is None:
        return b""
    return b" offset %d-%d" % (piece.offset, piece.offset + max(piece.length - 1, 0))


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
    """Return one line; ``path`` is relative to the bag."""
    escaped = _replace_bagit_special(lambda match: b"%%%02X" % match[0][0], path)
    return hexlify(digest) + b"  " + escaped + b"\n"


def read_bagit(line: bytes, algorithm: Algorithm, wanted: Sequence[Algorithm] = ()) -> Content:
    """Parse a line of a manifest whose name names the algorithm."""
    match = _split_bagit(line)
    if match is None or (wanted and algorithm not in wanted):
        return None
    digest = _parse_hex(match[1], algorithm)
    path = _replace_bagit_escapes(lambda escaped: bytes.fromhex(escaped[1].decode("ascii")), match[2])
    return None if digest is None or not _is_name(path) else (path, None, {algorithm: digest})


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
    """Return one line. ``end``: its terminator; with NUL nothing is escaped."""
    lead, name = (b"", path) if end == b"\0" else escape(path)
    whole_name = name if piece is None else name + _piece_suffix(piece)
    return lead + algorithm.tag + b" (" + whole_name + b") = " + hexlify(digest) + end


_split_tag = re.compile(rb"[ \t]*\\?" + _TAG + rb" *\(").match
_split_digits = re.compile(rb"[ \t]*\\?([0-9A-Fa-f]+)(?:[ \t]|$)").match


def guess_algorithm(line: bytes, algorithms: ListAlgorithms) -> Algorithm | None:
    """Return the algorithm that a malformed line seems to be of, by its tag or number of digits; None if unknown."""
    tag, digits = _split_tag(line), _split_digits(line)
    if tag is not None:
        return _find_by_tag(tag[1])
    return None if digits is None else algorithms.find_usual(len(digits[1]) // 2)


def read_bsd(line: bytes, wanted: Sequence[Algorithm] = ()) -> Content:
    """Parse a line that names its algorithm."""
    match = _split_bsd(line)
    if match is None:
        return None
    lead, tag, name, digits = match.groups()
    algorithm = _find_by_tag(tag, len(digits) // 2)
    if algorithm is None or (wanted and algorithm not in wanted):
        return None
    digest = _parse_hex(digits, algorithm)
    path = unescape(name) if lead else name
    return None if digest is None or path is None or not _is_name(path) else (path, None, {algorithm: digest})


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
    """Return one line. ``end``: its terminator; with NUL nothing is escaped; ``mark``: ``*`` for binary mode."""
    lead, name = (b"", path) if end == b"\0" else escape(path)
    suffix = end if piece is None else _piece_suffix(piece) + end
    return lead + algorithm.bare_prefix + hexlify(digest) + b" " + mark + name + suffix


class GnuReader:
    """Read the lines of one file."""

    def __init__(self, algorithms: ListAlgorithms) -> None:
        self._by_length = {2 * length: algorithms.find(length) for length in UNNAMED}
        self._wanted = algorithms.wanted
        self._has_prefixed = not self._wanted or XXH3 in self._wanted
        self._is_reversed: bool | None = None

    def read(self, line: bytes) -> Content:
        match = _split(line)
        if match is None:
            return None
        lead, prefix, digits, rest = match.groups()
        algorithm = XXH3 if prefix and self._has_prefixed else None if prefix else self._by_length.get(len(digits))
        hint = _split_hint(rest)
        if hint is not None:
            algorithm, rest = _find_by_tag(hint[1], len(digits) // 2), b"*" + hint[2]
            algorithm = algorithm if not self._wanted or algorithm in self._wanted else None
        digest = None if algorithm is None else _parse_hex(digits, algorithm)
        name = None if digest is None else self._take_mark(rest)
        path = unescape(name) if lead and name is not None else name
        if algorithm is None or digest is None or path is None or not _is_name(path):
            return None
        return path, None, {algorithm: digest}

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


def read_sfv(line: bytes, wanted: Sequence[Algorithm] = ()) -> Content:
    """Parse a line; CRC32 has its most significant byte first."""
    if line.startswith(b";"):
        return IGNORED
    match = None if wanted and CRC32 not in wanted else _split_sfv(line)
    if match is None or not _is_name(match[1]):
        return None
    return match[1], None, {CRC32: bytes.fromhex(match[2].decode("ascii"))}


def is_tagged(line: bytes) -> bool:
    """Return whether a line has the form of a BSD line, of any algorithm."""
    return _split_bsd(line) is not None


MAGIC = b"%%%% HASHDEEP-"
_VERSION = b"%%%% HASHDEEP-1.0"
_COLUMNS = b"%%%% size,"

_has_line_end = re.compile(rb"[\n\r]").search
_is_size = re.compile(rb"[0-9]{1,20}").fullmatch


def write_hashdeep_header(algorithms: Sequence[Algorithm], folder: bytes, command: bytes, *, is_root: bool) -> bytes:
    """
    Return the header lines.

    Args:
        algorithms: of the columns.
        folder: that paths are relative to.
        command: that made the file; for display.
        is_root: whether root typed it.
    """
    columns = b",".join(algorithm.name.encode("ascii") for algorithm in algorithms)
    prompt = b"#" if is_root else b"$"
    lines = (_VERSION, _COLUMNS + columns + b",filename", b"## Invoked from: " + _flat(folder))
    return b"\n".join((*lines, b"## " + prompt + b" " + _flat(command), b"## ", b""))


def write_hashdeep(path: bytes, size_bytes: int, digests: Sequence[bytes], *, piece: Piece | None = None) -> bytes:
    """Return one line. ``size_bytes``: of what was digested; ``digests``: in the order of the columns."""
    lead, name = escape(path) if _has_line_end(path) else (b"", path)
    fields = [b"%d" % size_bytes, *map(hexlify, digests), name + _piece_suffix(piece)]
    return lead + b",".join(fields) + b"\n"


class HashdeepReader:
    """Read the lines of one file."""

    def __init__(self, wanted: Sequence[Algorithm] = ()) -> None:
        self._wanted = wanted
        self._columns: list[Algorithm | None] | None = None
        self._is_known = True

    def _read_header(self, line: bytes) -> Content:
        if line.startswith(MAGIC):
            self._is_known = line == _VERSION
            return IGNORED if self._is_known else None
        *columns, name = line.removeprefix(_COLUMNS).split(b",")
        if not line.startswith(_COLUMNS) or name != b"filename" or not columns:
            return None
        # Skip columns that can't be computed here: tiger, and whirlpool without OpenSSL's legacy algorithms.
        self._columns = [BY_NAME.get(column.decode("ascii", "replace").lower()) for column in columns]
        return IGNORED

    def read(self, line: bytes) -> Content:
        """Parse a line, a header or a comment."""
        if line.startswith((b"#", b"%")):
            return IGNORED if line.startswith(b"#") else self._read_header(line)
        if self._columns is None or not self._is_known:
            return None
        is_escaped = line.startswith(b"\\")
        size, *fields = line[is_escaped:].split(b",", len(self._columns) + 1)
        if len(fields) != len(self._columns) + 1 or _is_size(size) is None:
            return None
        digests: dict[Algorithm, bytes] = {}
        for algorithm, digits in zip(self._columns, fields, strict=False):
            if algorithm is None or (self._wanted and algorithm not in self._wanted):
                continue
            digest = _parse_hex(digits, algorithm)
            if digest is None:
                return None
            digests[algorithm] = digest
        path = unescape(fields[-1]) if is_escaped else fields[-1]
        return None if path is None or not _is_name(path) or not digests else (path, int(size), digests)


def _flat(text: bytes) -> bytes:
    """Escape line ends, so that a comment stays on its line."""
    return escape(text)[1] if _has_line_end(text) else text


# Created once: json.dumps would create one per line.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def write_json(path: bytes, size_bytes: int | None, digests: Digests, *, piece: Piece | None = None) -> bytes:
    """Return one line. ``size_bytes``: of the file; None if unknown."""
    fields: dict[str, object] = {"type": "sum", "schema": 1, **path_fields("path", path)}
    if size_bytes is not None:
        fields["size_bytes"] = size_bytes
    if piece is not None:
        fields["offset"], fields["length"] = piece
    fields.update((algorithm.name, digest.hex()) for algorithm, digest in digests.items())
    return encode_object(fields)


def encode_object(fields: Mapping[str, object]) -> bytes:
    return _encode(fields).encode() + b"\n"


def read_json(line: bytes, wanted: Sequence[Algorithm] = ()) -> Content:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    if fields.get("type", "sum") != "sum":
        return IGNORED
    path, digests = _read_path(fields), _read_digests(fields, wanted)
    size = fields.get("size_bytes")
    is_size = size is None or (isinstance(size, int) and not isinstance(size, bool) and size >= 0)
    if path is None or not digests or not is_size or "offset" in fields:
        return None
    return path, size, digests


def _read_path(fields: Mapping[str, object]) -> bytes | None:
    text, encoded = fields.get("path"), fields.get("path_b64")
    try:
        if isinstance(encoded, str):
            path = base64.b64decode(encoded, validate=True)
        elif isinstance(text, str):
            path = text.encode()
        else:
            return None
    except ValueError:
        return None
    return path if _is_name(path) else None


def _read_digests(fields: Mapping[str, object], wanted: Sequence[Algorithm]) -> Digests | None:
    digests: dict[Algorithm, bytes] = {}
    for algorithm in wanted or ALGORITHMS:
        digits = fields.get(algorithm.name)
        if digits is None:
            continue
        digest = _parse_hex(digits.encode("ascii", "replace"), algorithm) if isinstance(digits, str) else None
        if digest is None:
            return None
        digests[algorithm] = digest
    return digests
