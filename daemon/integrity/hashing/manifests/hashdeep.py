r"""
Read and write hashdeep 4 files: two lines that name the columns, comments, then ``size,digest,...,name``.

The name is last and unquoted, so it may contain commas. hashdeep has no escapes and writes line ends in names as they
are, which nobody can read back. Here only such names are written as coreutils does, with a backslash at the start of
the line: hashdeep cannot find that file, which it could not do anyway, and all other lines stay intact.

A path that ends in ``offset 0-9`` may be a piece: hashdeep writes both alike, so it is read as a name.
"""

from __future__ import annotations

import re
from binascii import hexlify
from collections.abc import Sequence

from integrity.hashing.algorithms import BY_NAME
from integrity.hashing.manifests.entries import Digests, Piece, is_name, parse_hex, piece_suffix
from integrity.hashing.manifests.text import escape, unescape
from integrity.hashing.stored_digests import Algorithm

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
    """
    Return one line.

    Args:
        path: unescaped.
        size_bytes: number of digested bytes.
        digests: raw, in column order.
        piece: the part of the file that was digested; None for the whole.
    """
    lead, name = escape(path) if _has_line_end(path) else (b"", path)
    fields = [b"%d" % size_bytes, *map(hexlify, digests), name + piece_suffix(piece)]
    return lead + b",".join(fields) + b"\n"


class HashdeepReader:
    """
    Read the lines of one file.

    Args:
        wanted: the only algorithms to read; empty for all.
    """

    def __init__(self, wanted: Sequence[Algorithm] = ()) -> None:
        self._wanted = wanted
        self._columns: list[Algorithm | None] | None = None
        self._is_known = True

    def read_header(self, line: bytes) -> bool:
        """Parse a line that begins with ``%``; return False if it is malformed."""
        if line.startswith(MAGIC):
            self._is_known = line == _VERSION
            return self._is_known
        *columns, name = line.removeprefix(_COLUMNS).split(b",")
        if not line.startswith(_COLUMNS) or name != b"filename" or not columns:
            return False
        # Skip columns that can't be computed here: tiger, and whirlpool without OpenSSL's legacy algorithms.
        self._columns = [BY_NAME.get(column.decode("ascii", "replace").lower()) for column in columns]
        return True

    def read(self, line: bytes) -> tuple[bytes, int, Digests] | None:
        """Parse a line without its terminator: path, size, raw digests; None if it is malformed."""
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
            digest = parse_hex(digits, algorithm)
            if digest is None:
                return None
            digests[algorithm] = digest
        path = unescape(fields[-1]) if is_escaped else fields[-1]
        return None if path is None or not is_name(path) or not digests else (path, int(size), digests)


def _flat(text: bytes) -> bytes:
    """Escape line ends, so that a comment stays on its line."""
    return escape(text)[1] if _has_line_end(text) else text
