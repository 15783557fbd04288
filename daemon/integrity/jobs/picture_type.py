"""
Decide whether a file is a picture that browsers draw without running anything: never SVG.

I1  The first bytes decide, not the name.
"""

from __future__ import annotations

from typing import NamedTuple

HEAD_BYTES = 32
"""So many first bytes decide."""

# Where marks stand in a file, and what it is then; sources: the WHATWG standard "MIME Sniffing", ISO/IEC 14496-12.
_TYPES: tuple[tuple[tuple[tuple[int, bytes], ...], str], ...] = (
    (((0, b"\xff\xd8\xff"),), "image/jpeg"),
    (((0, b"\x89PNG\r\n\x1a\n"),), "image/png"),
    (((0, b"GIF87a"),), "image/gif"),
    (((0, b"GIF89a"),), "image/gif"),
    (((0, b"RIFF"), (8, b"WEBPVP8")), "image/webp"),
    (((4, b"ftypavif"),), "image/avif"),
    (((0, b"BM"), (6, b"\0\0\0\0")), "image/bmp"),
)
_SUFFIXES = (b".jpg", b".jpeg", b".png", b".gif", b".webp", b".avif", b".bmp")
CONTENT_TYPES = frozenset(content_type for _, content_type in _TYPES)


class Picture(NamedTuple):
    """
    One side of a finding.

    Args:
        content_type: one of ``CONTENT_TYPES``; empty: it is no picture.
        data: the whole file; empty if it is no picture, or was not asked for.
    """

    content_type: str
    size_bytes: int
    data: bytes


def find_content_type(head: bytes) -> str:
    """Return the type of a picture by the first bytes of its file; empty if it is none that is shown."""
    for marks, content_type in _TYPES:
        if all(head[at : at + len(mark)] == mark for at, mark in marks):
            return content_type
    return ""


def is_named_picture(path: bytes) -> bool:
    """Return whether a name promises a picture, whose first bytes may be what is damaged."""
    return path.lower().endswith(_SUFFIXES)
