"""A file is a picture by its first bytes, if browsers draw it without running anything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrity.jobs.picture_type import CONTENT_TYPES, find_content_type, is_named_picture


@pytest.mark.parametrize(
    ("head", "content_type"),
    [
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png"),
        (b"GIF89a\1\0\1\0", "image/gif"),
        (b"GIF87a\1\0\1\0", "image/gif"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
        (b"\0\0\0\x1cftypavif\0\0\0\0", "image/avif"),
        (b"BM\x36\0\0\0\0\0\0\0\x36", "image/bmp"),
    ],
)
def test_pictures(head: bytes, content_type: str) -> None:
    """Each kind that is shown."""
    assert content_type == find_content_type(head)
    assert content_type in CONTENT_TYPES


@pytest.mark.parametrize(
    "head",
    [
        b"", b"GIF89", b"<svg xmlns=", b"<?xml version='1.0'?><svg", b"<html>", b" \xff\xd8\xff", b"%PDF-1.7",
        b"RIFF\x24\0\0\0WAVEfmt ", b"\0\0\0\x1cftypisom", b"BMW is a car", b"\x1f\x8b\x08", b"II*\0", b"\0\0\1\0",
    ],
)  # fmt: skip
def test_everything_else(head: bytes) -> None:
    """SVG and pages run programs; other kinds no browser draws."""
    assert not find_content_type(head)


@given(st.binary(max_size=64))
def test_any_bytes(head: bytes) -> None:
    """I1: whatever the bytes are, a type is one of the list, or none."""
    assert find_content_type(head) in CONTENT_TYPES | {""}


def test_names() -> None:
    """A name promises a picture, in capitals, too; SVG is none."""
    assert [True, True, False, False] == [
        is_named_picture(name) for name in (b"a/B.JPG", b"\xff.webp", b"a.svg", b"jpg")
    ]
