"""
Read a digest file in any supported form.

The form is recognized by content, and for BagIt and SFV by the file name. As in md5sum, GNU and BSD lines may be mixed,
a malformed line is skipped and counted, ``#`` begins a comment, empty lines are ignored, and a carriage return before
the line end belongs to it. Unlike md5sum, ``;`` begins a comment, too, as programs for Windows write it; a byte order
mark is skipped, or tells that the file is UTF-16; and files written with ``-z`` are recognized by NUL bytes that end
lines.

I1  Whatever a file contains, only ``ManifestEntry`` and ``BadLine`` come out, and memory does not grow with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from enum import Enum

from integrity.hashing.algorithms import CRC32, UNNAMED
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
    is_tagged,
    read_bagit,
    read_bsd,
    read_sfv,
)
from integrity.hashing.manifests.unnamed import ListAlgorithms
from integrity.hashing.manifests.utf16 import BYTE_ORDER_MARKS, Utf16Stream
from integrity.hashing.stored_digests import Algorithm

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_COMMENTS = (b"#", b";")
_ANY = ListAlgorithms()

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
        wanted: the only algorithms to read; empty for all.
        is_zero: lines end in NUL, whatever the content.
        algorithms: of the same list, as they were found when it was read before.

    Attributes:
        form: may be replaced before reading.
        algorithms: those of digests whose algorithm the form does not name.
    """

    def __init__(
        self,
        stream: Stream,
        *,
        name: bytes = b"",
        wanted: Sequence[Algorithm] = (),
        is_zero: bool = False,
        algorithms: ListAlgorithms | None = None,
    ) -> None:
        self._wanted = tuple(wanted)
        self.algorithms = algorithms or ListAlgorithms(name, self._wanted)
        head = read_head(stream)
        encoding = BYTE_ORDER_MARKS.get(head[:2])
        if encoding is not None:
            stream = Utf16Stream(head[2:], stream, encoding)
            head = read_head(stream)
        self._stream = stream
        self._head = head.removeprefix(_BYTE_ORDER_MARK)
        self._last: Algorithm | None = None  # of the last entry
        base = os.path.basename(name)
        self._bagit = find_bagit_algorithm(base)
        self.form = Form.ZEROS if is_zero else _recognise(self._head, base, is_bagit=self._bagit is not None)

    def describe(self) -> Iterator[str]:
        """Yield sentences about what was interpreted in the list; complete after its algorithms were found."""
        if isinstance(self._stream, Utf16Stream):
            yield "read as UTF-16"
        yield from self.algorithms.describe()

    def read(self) -> Iterator[ManifestEntry | BadLine]:
        """
        Yield the entries and malformed lines, in order.

        Raises:
            OSError: the file cannot be read further.
        """
        end, read = b"\0" if self.form is Form.ZEROS else b"\n", self._find_reader()
        for number, line in enumerate(split_lines(self._head, self._stream, end), 1):
            if line is None:
                yield BadLine(number, self._find_last())
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
        return guess_algorithm(line, self.algorithms) or self._find_last()

    def _find_last(self) -> Algorithm | None:
        last = self._last
        is_open = last is not None and UNNAMED[last.digest_bytes] is last
        return self.algorithms.find_usual(last.digest_bytes) if last is not None and is_open else last

    def _find_reader(self) -> _Read:
        if self.form is Form.HASHDEEP:
            return _read_hashdeep_with(HashdeepReader(self._wanted))
        if self.form is Form.OBJECTS:
            return self._read_object
        if self.form is Form.SFV:
            return self._read_sfv
        if self.form is Form.BAGIT and self._bagit is not None:
            return _read_bagit_of(self._bagit, self._wanted)
        return _read_lines_with(GnuReader(self.algorithms), self._wanted)

    def _read_object(self, line: bytes, number: int) -> ManifestEntry | Ignored | None:
        found = read_json(line, self._wanted)
        return found if found is None or isinstance(found, Ignored) else ManifestEntry(*found, number)

    def _read_sfv(self, line: bytes, number: int) -> ManifestEntry | Ignored | None:
        if line.startswith(b";"):
            return IGNORED
        found = None if self._wanted and CRC32 not in self._wanted else read_sfv(line)
        return None if found is None else ManifestEntry(found[0], None, {CRC32: found[1]}, number)


def _read_lines_with(gnu: GnuReader, wanted: Sequence[Algorithm]) -> _Read:
    def read(line: bytes, number: int) -> ManifestEntry | Ignored | None:
        if line.startswith(_COMMENTS):
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
    first = next((line for line in head.split(b"\n") if line.strip() and not line.startswith(_COMMENTS)), b"").strip()
    if first.startswith(b"{"):
        return Form.OBJECTS
    is_text = _is_line(first) or is_tagged(first)
    return Form.SFV if name.lower().endswith(b".sfv") or (not is_text and read_sfv(first)) else Form.LINES


def _has_zeros(head: bytes) -> bool:
    """Return whether lines end in NUL: files of other forms have no such byte, and damaged ones no line after it."""
    *lines, last = head.split(b"\0")
    if last and len(head) < HEAD_BYTES - len(_BYTE_ORDER_MARK):  # otherwise the line may be cut off
        lines.append(last)
    return b"\0" in head and all(_is_line(line) for line in lines)


def _is_line(line: bytes) -> bool:
    return GnuReader(_ANY).read(line) is not None or read_bsd(line) is not None
