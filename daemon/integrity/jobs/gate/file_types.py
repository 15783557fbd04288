"""
Decide whether a file still looks like its type, by the magic bytes of the type and the randomness of the rest.

Encrypted bytes are spread evenly over all 256 values; hardly anything else is. Compressed data comes close, but its
first bytes name its format.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

HEAD_BYTES = 4096
"""Bytes read from the beginning: some ransomware encrypts no more than that, for speed."""

MIDDLE_BYTES = 1 << 16
"""Bytes read from the middle of larger files: in this many, even well-compressed data shows unevenness."""

_LEAST_BYTES = 2048
"""In fewer bytes chance alone produces any distribution (8 expected of each value)."""

_MOST_EVEN = 345.0
"""
Chi-square of 256 values with equal odds: 255 is expected of random bytes, 345 is four standard deviations more. None of
10,000 random pieces was above 340; all of gzip's output was, in pieces of 64 KiB.
"""

_SUFFIXES_TRIED = 6
"""Suffixes tried from the end of a name: ``a.jpg.id-1A2B.[who@where.org].locked`` is one of the longer forms."""

_LEAST_TEXT_BYTES = 64
_LEAST_READABLE_BYTES = 256
"""Random bytes pass for text once in a thousand times at this length, once in thirty at 64 bytes."""

_MOST_CONTROLS = 0.05
"""
Share of control characters in text. Random bytes have 11 %; text in any language and encoding but UTF-16 has none.
"""

_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\x1b\x08")) + b"\x7f"
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")

# Offset and magic bytes of each type; sources: the format specifications, and file(1).
_ZIP = ((0, b"PK\x03\x04"), (0, b"PK\x05\x06"), (0, b"PK\x07\x08"))
_OLE = ((0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),)
_TIFF = ((0, b"II*\0"), (0, b"MM\0*"), (0, b"II+\0"), (0, b"MM\0+"), (0, b"IIRO"), (0, b"IIU\0"))
_RIFF = ((0, b"RIFF"), (0, b"RIFX"))
_MP4 = tuple((4, mark) for mark in (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot"))
_MPEG_AUDIO = ((0, b"ID3"), (0, b"\xff\xfb"), (0, b"\xff\xf3"), (0, b"\xff\xf2"), (0, b"\xff\xfa"), (0, b"\xff\xf1"))
_MARKS: dict[str, tuple[tuple[int, bytes], ...]] = {
    "jpg jpeg jpe jfif": ((0, b"\xff\xd8\xff"),),
    "png": ((0, b"\x89PNG\r\n\x1a\n"),),
    "gif": ((0, b"GIF8"),),
    "webp wav avi": _RIFF,
    "tif tiff dng nef cr2 arw pef rw2 orf": _TIFF,
    "psd psb": ((0, b"8BPS"),),
    "bmp": ((0, b"BM"),),
    "heic heif avif mp4 m4a m4v mov 3gp cr3": _MP4,
    "mkv webm mka": ((0, b"\x1aE\xdf\xa3"),),
    "mp3": _MPEG_AUDIO,
    "flac": ((0, b"fLaC"), (0, b"ID3")),
    "ogg oga ogv opus": ((0, b"OggS"),),
    "pdf": ((0, b"%PDF"),),
    "docx xlsx pptx docm xlsm pptm dotx odt ods odp odg epub zip jar apk": _ZIP,
    "doc xls ppt msi msg": _OLE,
    "rtf": ((0, b"{\\rtf"),),
    "gz tgz": ((0, b"\x1f\x8b"),),
    "bz2 tbz2": ((0, b"BZh"),),
    "xz txz": ((0, b"\xfd7zXZ\0"),),
    "zst": ((0, b"\x28\xb5\x2f\xfd"),),
    "7z": ((0, b"7z\xbc\xaf\x27\x1c"),),
    "rar": ((0, b"Rar!\x1a\x07"),),
    "sqlite sqlite3": ((0, b"SQLite format 3\0"),),
}
_BY_SUFFIX = {suffix.encode(): marks for names, marks in _MARKS.items() for suffix in names.split()}
_ALL_MARKS = (
    *(mark for marks in _MARKS.values() for mark in marks),
    *((0, mark) for mark in (b"\x7fELF", b"MZ", b"PACK", b"!<arch>\n", b"OTTO", b"wOFF", b"wOF2", b"\0asm", b"LUKS")),
    *((0, mark) for mark in (b"PAR1", b"PAR2", b"b0VIM", b"\x93NUMPY", b"\xca\xfe\xba\xbe", b"SQLite")),
    *((0, mark) for mark in (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda", b"\x04\x22\x4d\x18", b"\xff\x0a")),
    *((257, mark) for mark in (b"ustar",)),
)
_TEXTS = frozenset(
    b"txt text md rst csv tsv log ini cfg conf toml yaml yml json xml html htm xhtml css svg js mjs jsx tsx py pyi c h"
    b" cc cpp hpp cs java kt go rs rb php pl lua sh bash bat ps1 sql tex bib srt vtt ics vcf eml r m3u cue nfo".split()
)
_SCRAMBLED_ON_PURPOSE = frozenset(b"gpg pgp age p7m sig kdbx hc tc br lzma lzo".split())
"""Types encrypted by their owner, or compressed without magic bytes: a web server's ``app.js.br``."""

_ANYTHING = frozenset(b"vhd img iso bin dat db lock key cache tmp".split())
"""Types that say nothing about their content."""


@dataclass(frozen=True, slots=True)
class Sample:
    """
    Bytes read from a file.

    Args:
        path: relative to the root.
        head: the first bytes.
        middle: bytes from the middle, if the file is long enough.
        is_renamed: a suffix may have been appended to its name, or its suffix replaced.
    """

    path: bytes
    head: bytes
    middle: bytes = b""
    is_renamed: bool = False


@dataclass(frozen=True, slots=True)
class ContentLook:
    """
    What a sample shows.

    Args:
        suffix: the suffix that gave the type, lower-case; not always the last of the name.
        is_typed: the name says what the content should look like.
        is_lost: the content looks neither like that nor like any other known type.
        is_random: bytes are spread as evenly as by encryption, and no magic bytes explain this by compression.
    """

    suffix: bytes
    is_typed: bool
    is_lost: bool
    is_random: bool


def look_at(sample: Sample) -> ContentLook | None:
    """Classify a sample; None if it is too short, or if its type may contain anything."""
    suffix, is_typed = find_suffix(sample.path, is_renamed=sample.is_renamed)
    if may_hold_anything(suffix):
        return None
    if suffix in _TEXTS:
        if len(sample.head) < _LEAST_TEXT_BYTES:
            return None
        is_lost = not _has_mark(sample.head) and not (_is_text(sample.head) and _is_text(sample.middle))
    else:
        if len(sample.head) < _LEAST_BYTES:
            is_readable = len(sample.head) >= _LEAST_READABLE_BYTES and _is_text(sample.head)
            return ContentLook(suffix, is_typed, is_lost=False, is_random=False) if is_readable else None
        marks = _BY_SUFFIX.get(suffix, ())
        is_lost = is_typed and not (_has(sample.head, marks) or _has_mark(sample.head) or _is_text(sample.head))
    is_marked = not is_lost and (is_typed or _has_mark(sample.head))
    return ContentLook(suffix, is_typed, is_lost, not is_marked and _is_random(sample, is_lost=is_lost))


def find_suffix(path: bytes, *, is_renamed: bool) -> tuple[bytes, bool]:
    """
    Return the suffix that gives the type of a file, and whether its type is known.

    That is the last one. For a renamed ``a.jpg.locked`` it is ``jpg``: a meaningless suffix was appended. Parts such as
    ``a.tar.gz.00`` and an ``a.jpg.enc`` that were not renamed never had the type before the last suffix.
    """
    name = path.rpartition(b"/")[2].lower()
    parts = name.split(b".")[1:]
    for number, suffix in enumerate(reversed(parts[-_SUFFIXES_TRIED:])):
        if (suffix in _BY_SUFFIX or suffix in _TEXTS) and (is_renamed or not number):
            return suffix, True
        if suffix in _SCRAMBLED_ON_PURPOSE:
            return suffix, False
    return (parts[-1] if parts else b""), False


def may_hold_anything(suffix: bytes) -> bool:
    """Return whether files of a type are legitimately random."""
    return suffix in _SCRAMBLED_ON_PURPOSE or suffix in _ANYTHING


def is_document(path: bytes) -> bool:
    """
    Return whether a name is that of a picture, film, piece of music, document or archive.

    People create and remove those one by one. Programs create, rewrite and remove sources, objects, caches, mails and
    logs by the thousand, under other suffixes or none.
    """
    name = path.rpartition(b"/")[2]
    return name.rpartition(b".")[2].lower() in _BY_SUFFIX


def is_innocent(suffix: bytes) -> bool:
    """
    Return whether people and their tools ordinarily give a suffix to many files at once.

    They convert, pack and encrypt; numbers are library versions, rotated logs and parts of archives.
    """
    return suffix in _BY_SUFFIX or suffix in _TEXTS or suffix in _SCRAMBLED_ON_PURPOSE or suffix.isdigit()


def is_even(data: bytes) -> bool:
    """Return whether bytes are spread as evenly as random ones."""
    if len(data) < _LEAST_BYTES:
        return False
    expected = len(data) / 256
    counts = Counter(data)
    chi_square = sum((count - expected) ** 2 for count in counts.values()) / expected
    return chi_square + (256 - len(counts)) * expected < _MOST_EVEN


def _is_random(sample: Sample, *, is_lost: bool) -> bool:
    """Test the head alone if the type is lost; for an unknown type the middle must be random as well."""
    if not is_even(sample.head):
        return False
    return is_lost or not sample.middle or is_even(sample.middle)


def _is_text(data: bytes) -> bool:
    if data.startswith(_UTF_16_MARKS):
        return True
    return len(data) - len(data.translate(None, _CONTROLS)) <= len(data) * _MOST_CONTROLS


def _has_mark(head: bytes) -> bool:
    return _has(head, _ALL_MARKS) or b"%PDF-" in head[:1024]


def _has(head: bytes, marks: tuple[tuple[int, bytes], ...]) -> bool:
    return any(head.startswith(mark, at) for at, mark in marks)
