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

import codecs
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Protocol

from integrity.hashing.algorithms import CRC32, UNNAMED
from integrity.hashing.stored_digests import Algorithm
from integrity.lists.entries import IGNORED, BadLine, Form, ManifestEntry
from integrity.lists.forms import (
    MAGIC,
    Content,
    GnuReader,
    HashdeepReader,
    find_bagit_algorithm,
    guess_algorithm,
    is_tagged,
    read_bagit,
    read_bsd,
    read_json,
    read_sfv,
)
from integrity.lists.unnamed import ListAlgorithms

LONGEST_LINE = 1 << 20
"""Names are at most 4 KiB, escaped 8 KiB; a longer line is no line of a manifest."""

HEAD_BYTES = 1 << 16
"""Enough to recognize a form."""

_CHUNK_BYTES = 1 << 16
_BAD_AT_MOST = 100_000


class Stream(Protocol):
    """The source of a manifest: any binary file."""

    def read(self, size: int, /) -> bytes:
        """Read up to ``size`` bytes; empty at the end."""


def read_head(stream: Stream) -> bytes:
    """Read the beginning of a stream, to recognize its form; at most ``HEAD_BYTES``, less only at the end."""
    chunks: list[bytes] = []
    missing = HEAD_BYTES
    while missing > 0:
        chunk = stream.read(missing)
        if not chunk:
            break
        chunks.append(chunk)
        missing -= len(chunk)
    return b"".join(chunks)


def split_lines(head: bytes, stream: Stream, end: bytes) -> Iterator[bytes | None]:
    """
    Yield lines without their terminator; None for a line that is too long.

    Args:
        head: bytes read already.
        stream: the rest.
        end: line terminator, one byte.
    """
    rest, is_too_long = b"", False
    chunk = head
    while chunk:
        *lines, last = (rest + chunk).split(end) if rest else chunk.split(end)
        if lines and is_too_long:
            yield None
            del lines[0]
            is_too_long = False
        yield from (line if len(line) <= LONGEST_LINE else None for line in lines)
        is_too_long = is_too_long or len(last) > LONGEST_LINE
        rest = b"" if is_too_long else last
        chunk = stream.read(_CHUNK_BYTES)
    if is_too_long:
        yield None
    elif rest:
        yield rest


_UTF16_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class _Utf16Stream:
    """
    The UTF-8 of a stream that is UTF-16.

    Args:
        head: bytes read already, without the byte order mark.
        stream: the rest.
        encoding: by the byte order mark.
    """

    def __init__(self, head: bytes, stream: Stream, encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._rest = self._decode(head)

    def read(self, size: int, /) -> bytes:
        """Read up to ``size`` bytes; empty at the end."""
        while not self._rest:
            chunk = self._stream.read(size)
            self._rest = self._decode(chunk)
            if not chunk:
                break
        found, self._rest = self._rest[:size], self._rest[size:]
        return found

    def _decode(self, chunk: bytes) -> bytes:
        return self._decoder.decode(chunk, final=not chunk).encode("utf-8", "replace")


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_COMMENTS = (b"#", b";")
_ANY = ListAlgorithms()


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
        encoding = _UTF16_MARKS.get(head[:2])
        if encoding is not None:
            stream = _Utf16Stream(head[2:], stream, encoding)
            head = read_head(stream)
        self._stream = stream
        self._head = head.removeprefix(_BYTE_ORDER_MARK)
        self._last: Algorithm | None = None  # of the last entry
        base = os.path.basename(name)
        self._bagit = find_bagit_algorithm(base)
        self.form = Form.ZEROS if is_zero else _recognise(self._head, base, is_bagit=self._bagit is not None)

    def describe(self) -> Iterator[str]:
        """Yield sentences about what was interpreted in the list; complete after its algorithms were found."""
        if isinstance(self._stream, _Utf16Stream):
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
            found = read(text) if text else IGNORED
            if found is None:
                yield BadLine(number, self._guess(text))
            elif found is not IGNORED:
                self._last = next(iter(found[2]))
                yield ManifestEntry(*found, number)

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

    def _find_reader(self) -> Callable[[bytes], Content]:
        wanted = self._wanted
        if self.form is Form.HASHDEEP:
            return HashdeepReader(wanted).read
        if self.form is Form.OBJECTS:
            return partial(read_json, wanted=wanted)
        if self.form is Form.SFV:
            return partial(read_sfv, wanted=wanted)
        if self.form is Form.BAGIT and self._bagit is not None:
            return partial(read_bagit, algorithm=self._bagit, wanted=wanted)
        gnu = GnuReader(self.algorithms)
        return lambda line: IGNORED if line.startswith(_COMMENTS) else gnu.read(line) or read_bsd(line, wanted)


def read_to_entry(lines: Iterator[ManifestEntry | BadLine]) -> list[ManifestEntry | BadLine]:
    """Read up to the first entry; none in 100,000 lines: it is no manifest, and reading on would fill the memory."""
    first: list[ManifestEntry | BadLine] = []
    for line in islice(lines, _BAD_AT_MOST):
        first.append(line)
        if isinstance(line, ManifestEntry):
            break
    return first


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
