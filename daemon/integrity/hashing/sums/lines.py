"""Cut a stream into lines, in memory that does not grow with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

LONGEST_LINE = 1 << 20
"""Names are at most 4 KiB long, escaped twice that; what is longer than this is no line of a manifest."""

HEAD_BYTES = 1 << 16
"""Enough to recognise a form by."""

_CHUNK_BYTES = 1 << 16


class Stream(Protocol):
    """Where a manifest comes from: any binary file."""

    def read(self, size: int, /) -> bytes:
        """Read up to ``size`` bytes; none at the end."""


def read_head(stream: Stream) -> bytes:
    """Read the beginning of a stream, by which its form is recognised; short only if the stream is."""
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
    Yield lines without their end; None for one that is too long.

    Args:
        head: what was read already.
        stream: the rest.
        end: of lines, one byte.
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
