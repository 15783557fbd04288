"""
Read a file of digests, whichever form it has.

The form is recognised by what stands in the file, and where that is not enough (BagIt, SFV) by its name. Lines of GNU
and of BSD may stand in one file, as for md5sum. As there, a line that can't be read is skipped and counted, comments
begin with ``#``, empty lines are nothing, a carriage return at the end of a line belongs to the end. Unlike there, a
byte order mark is passed over, and what ``-z`` wrote is read: a file with NUL bytes behind which lines begin.

I1  Whatever is in a file, nothing but ``ManifestEntry`` and ``BadLine`` comes out, and memory does not grow with it.
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
from integrity.hashing.manifests.text import GnuReader, find_bagit_algorithm, read_bagit, read_bsd, read_sfv

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_Read = Callable[[bytes, int], ManifestEntry | Ignored | None]
"""Read a line of that number: an entry, or what is to be ignored; None if it is bad."""


class Form(Enum):
    """What a file of digests looks like."""

    LINES = "GNU and BSD"
    ZEROS = "GNU and BSD, with NUL at the end of each line"
    HASHDEEP = "hashdeep"
    BAGIT = "BagIt"
    SFV = "SFV"
    OBJECTS = "JSON"


class Manifest:
    """
    One file of digests, to be read once.

    Args:
        stream: the file; the caller closes it.
        name: of the file, which tells BagIt and SFV; empty if there is none.
        wanted: the only algorithms to be read; empty for all. Where a form does not name its algorithm, the length of
            a digest tells it, and among those of that length it is the wanted one, else the one most in use.
        is_zero: lines end in NUL, whatever it looks like.

    Attributes:
        form: recognised.
    """

    def __init__(
        self, stream: Stream, *, name: bytes = b"", wanted: Sequence[Algorithm] = (), is_zero: bool = False
    ) -> None:
        self._stream = stream
        self._wanted = tuple(wanted)
        self._head = read_head(stream).removeprefix(_BYTE_ORDER_MARK)
        base = os.path.basename(name)
        self._bagit = find_bagit_algorithm(base)
        self.form = Form.ZEROS if is_zero else _recognise(self._head, base, is_bagit=self._bagit is not None)

    def read(self) -> Iterator[ManifestEntry | BadLine]:
        """
        Yield what the lines say, in order.

        Raises:
            OSError: the file can't be read on.
        """
        end, read = b"\0" if self.form is Form.ZEROS else b"\n", self._find_reader()
        for number, line in enumerate(split_lines(self._head, self._stream, end), 1):
            if line is None:
                yield BadLine(number)
                continue
            text = line.removesuffix(b"\r") if end == b"\n" else line
            found = read(text, number) if text else IGNORED
            if isinstance(found, ManifestEntry):
                yield found
            elif found is None:
                yield BadLine(number)

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
    """Read a file of digests; the arguments are those of ``Manifest``."""
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
    """Tell whether lines end in NUL: no other file has that byte, and a damaged one no line begins behind it."""
    *lines, last = head.split(b"\0")
    if last and len(head) < HEAD_BYTES - len(_BYTE_ORDER_MARK):  # else it may be cut
        lines.append(last)
    return b"\0" in head and all(_is_line(line) for line in lines)


def _is_line(line: bytes) -> bool:
    return GnuReader().read(line) is not None or read_bsd(line) is not None
