"""Read UTF-16, which PowerShell writes by default, as the UTF-8 that names have here."""

from __future__ import annotations

import codecs
from typing import Final

from integrity.hashing.manifests.entries import Stream

BYTE_ORDER_MARKS: Final = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class Utf16Stream:
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
