"""
Read a digest file in any supported form.

The form is recognized by content, and for BagIt and SFV by the file name. As in md5sum, GNU and BSD lines may be mixed,
a malformed line is skipped and counted, ``#`` begins a comment, empty lines are ignored, and a carriage return before
the line end belongs to it. Unlike md5sum, a byte order mark is skipped, and files written with ``-z`` are recognized by
NUL bytes that end lines.

I1  Whatever a file contains, only ``ManifestEntry`` and ``BadLine`` come out, and memory does not grow with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from enum import Enum

from integrity.hashing.algorithms import CRC32, Algorithm
from integrity.hashing.manifests.entries import (
    HEAD_BYTES,
    IGNORED,
    BadLine,
    Ignored,
    ManifestEntry,
    Stream,
    read_head,
    split_lines,
)
from integrity.hashing.manifests.hashdeep import MAGIC, HashdeepReader
from integrity.hashing.manifests.json_lines import read_json
from integrity.hashing.manifests.text import (
    GnuReader,
    find_bagit_algorithm,
    guess_algorithm,
    read_bagit,
    read_bsd,
    read_sfv,
)

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_Read = Callable[[bytes, int], ManifestEntry | Ignored | None]
"""Parse a line, given its number: an entry, or ``IGNORED``; None if it is malformed."""


class Form(Enum):
    """The form of a digest file."""

    LINES = "GNU and BSD"
    ZEROS = "GNU and BSD, with NUL at the end of each line"
    HASHDEEP = "hashdeep"
    BAGIT = "BagIt"
    SFV = "SFV"
    OBJECTS = "JSON"


class Manifest:
    """
    One digest file, to be read once.

    Args:
        stream: the file; the caller closes it.
        name: of the file, to recognize BagIt and SFV; empty if there is none.
        wanted: the only algorithms to read; empty for all. If a form does not name its algorithm, the digest's length
            decides: the wanted algorithm of that length, else the most common one.
        is_zero: lines end in NUL, whatever the content.
    """

    def __init__(
        self, stream: Stream, *, name: bytes = b"", wanted: Sequence[Algorithm] = (), is_zero: bool = False
    ) -> None:
        self._stream = stream
        self._wanted = tuple(wanted)
        self._head = read_head(stream).removeprefix(_BYTE_ORDER_MARK)
        self._last: Algorithm | None = None  # of the last entry
        base = os.path.basename(name)
        self._bagit = find_bagit_algorithm(base)
        self.form = Form.ZEROS if is_zero else _recognise(self._head, base, is_bagit=self._bagit is not None)

    def read(self) -> Iterator[ManifestEntry | BadLine]:
        """
        Yield the entries and malformed lines, in order.

        Raises:
            OSError: the file cannot be read further.
        """
        end, read = b"\0" if self.form is Form.ZEROS else b"\n", self._find_reader()
        for number, line in enumerate(split_lines(self._head, self._stream, end), 1):
            if line is None:
                yield BadLine(number, self._last)
                continue
            text = line.removesuffix(b"\r") if end == b"\n" else line
            found = read(text, number) if text else IGNORED
            if isinstance(found, ManifestEntry):
                self._last = next(iter(found.digests))
                yield found
            elif found is None:
                yield BadLine(number, self._guess(text))

    def _guess(self, line: bytes) -> Algorithm | None:
        """Return the algorithm that a malformed line was meant for: that of the form, the line, or the line before."""
        if self.form is Form.SFV:
            return CRC32
        if self.form is Form.BAGIT:
            return self._bagit
        return guess_algorithm(line) or self._last

    def _find_reader(self) -> _Read:
        if self.form is Form.HASHDEEP:
            return _read_hashdeep_with(HashdeepReader(self._wanted))
        if self.form is Form.OBJECTS:
            return self._read_object
        if self.form is Form.SFV:
            return self._read_sfv
        if self.form is Form.BAGIT and self._bagit is not None:
            return _read_bagit_of(self._bagit, self._wanted)
        return _read_lines_with(GnuReader(self._wanted), self._wanted)

    def _read_object(self, line: bytes, number: int) -> ManifestEntry | Ignored | None:
        found = read_json(line, self._wanted)
        return found if found is None or isinstance(found, Ignored) else ManifestEntry(*found, number)

    def _read_sfv(self, line: bytes, number: int) -> ManifestEntry | Ignored | None:
        if line.startswith(b";"):
            return IGNORED
        found = None if self._wanted and CRC32 not in self._wanted else read_sfv(line)
        return None if found is None else ManifestEntry(found[0], None, {CRC32: found[1]}, number)


def read_manifest(
    stream: Stream, *, name: bytes = b"", wanted: Sequence[Algorithm] = (), is_zero: bool = False
) -> Iterator[ManifestEntry | BadLine]:
    """Read a digest file; the arguments are those of ``Manifest``."""
    return Manifest(stream, name=name, wanted=wanted, is_zero=is_zero).read()


def _read_lines_with(gnu: GnuReader, wanted: Sequence[Algorithm]) -> _Read:
    def read(line: bytes, number: int) -> ManifestEntry | Ignored | None:
        if line.startswith(b"#"):
            return IGNORED
        found = gnu.read(line) or read_bsd(line, wanted)
        return None if found is None else ManifestEntry(found[0], None, {found[1]: found[2]}, number)

    return read


def _read_hashdeep_with(reader: HashdeepReader) -> _Read:
    def read(line: bytes, number: int) -> ManifestEntry | Ignored | None:
        if line.startswith(b"#"):
            return IGNORED
        if line.startswith(b"%"):
            return IGNORED if reader.read_header(line) else None
        found = reader.read(line)
        return None if found is None else ManifestEntry(*found, number)

    return read


def _read_bagit_of(algorithm: Algorithm, wanted: Sequence[Algorithm]) -> _Read:
    def read(line: bytes, number: int) -> ManifestEntry | Ignored | None:
        found = None if wanted and algorithm not in wanted else read_bagit(line, algorithm)
        return None if found is None else ManifestEntry(found[0], None, {algorithm: found[1]}, number)

    return read


def _recognise(head: bytes, name: bytes, *, is_bagit: bool) -> Form:
    if is_bagit:
        return Form.BAGIT
    if head.startswith(MAGIC):
        return Form.HASHDEEP
    if _has_zeros(head):
        return Form.ZEROS
    first = next((line for line in head.split(b"\n") if line.strip() and not line.startswith(b"#")), b"").strip()
    if first.startswith(b"{"):
        return Form.OBJECTS
    is_text = _is_line(first)
    if name.lower().endswith(b".sfv") or (not is_text and (first.startswith(b";") or read_sfv(first) is not None)):
        return Form.SFV
    return Form.LINES


def _has_zeros(head: bytes) -> bool:
    """Return whether lines end in NUL: files of other forms have no such byte, and damaged ones no line after it."""
    *lines, last = head.split(b"\0")
    if last and len(head) < HEAD_BYTES - len(_BYTE_ORDER_MARK):  # otherwise the line may be cut off
        lines.append(last)
    return b"\0" in head and all(_is_line(line) for line in lines)


def _is_line(line: bytes) -> bool:
    return GnuReader().read(line) is not None or read_bsd(line) is not None
