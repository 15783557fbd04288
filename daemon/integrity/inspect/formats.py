"""
The table of formats: how each is recognized, what its check is worth, and who does it.

I1  A file is taken for a format by its first bytes, whatever its name. The name decides only where the first bytes may
    be what is damaged: one of them differs, or all are zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

from integrity.inspect import archives, compressed, documents, media
from integrity.inspect.checked_file import CheckedFile

HEAD_BYTES = 512
_ZERO_BYTES = 512


class Format(NamedTuple):
    """
    One format.

    Args:
        name: for people.
        suffixes: lower-case, with blanks between them.
        marks: alternatives, each of (offset, bytes) that all must be there.
        check: reads the file to its end; raises ``OwnCheckFailed``, ``NotTestable`` or ``NoChecksum``.
        has_checksum: the check is by a checksum of the content.
        module: that the check needs, of the extra `formats`; empty: Python's own.
    """

    name: str
    suffixes: str
    marks: tuple[tuple[tuple[int, bytes], ...], ...]
    check: Callable[[CheckedFile], None]
    has_checksum: bool = False
    module: str = ""

    @property
    def is_here(self) -> bool:
        """Return whether all is installed that the check needs."""
        return not self.module or _is_installed(self.module)


@cache
def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package that it is in
        return False


def _begins(*marks: bytes) -> tuple[tuple[tuple[int, bytes], ...], ...]:
    return tuple(((0, mark),) for mark in marks)


_ZIP_SUFFIXES = "zip docx xlsx pptx docm xlsm pptm dotx odt ods odp odg epub jar war apk xpi whl cbz ipa kmz 3mf sketch"
_MP4_BRANDS = tuple(((4, kind),) for kind in (b"ftyp", b"moov", b"wide"))

FORMATS = (
    Format("zip", _ZIP_SUFFIXES, _begins(b"PK\3\4", b"PK\5\6"), archives.check_zip, has_checksum=True),
    Format("gzip", "gz tgz svgz", _begins(b"\x1f\x8b\x08"), compressed.check_gzip, has_checksum=True),
    Format("bzip2", "bz2 tbz2", tuple(((0, b"BZh"), (4, mark)) for mark in (b"1AY&SY", b"\x17rE8P\x90")),
           compressed.check_bzip2, has_checksum=True),
    Format("xz", "xz txz", _begins(b"\xfd7zXZ\0"), compressed.check_xz, has_checksum=True),
    Format("Zstandard", "zst tzst", _begins(b"\x28\xb5\x2f\xfd"), compressed.check_zstd, has_checksum=True,
           module=compressed.ZSTD_MODULE),
    Format("7z", "7z", _begins(b"7z\xbc\xaf\x27\x1c"), archives.check_7z, has_checksum=True, module="py7zr"),
    Format("PNG", "png apng", _begins(b"\x89PNG\r\n\x1a\n"), media.check_png, has_checksum=True),
    Format("FLAC", "flac", _begins(b"fLaC"), media.check_flac, has_checksum=True, module="soundfile"),
    Format("Ogg", "ogg oga ogv opus spx", _begins(b"OggS\0"), media.check_ogg, has_checksum=True),
    Format("PAR2", "par2", _begins(b"PAR2\0PKT"), archives.check_par2, has_checksum=True),
    Format("SQLite", "sqlite sqlite3", _begins(b"SQLite format 3\0"), documents.check_sqlite, module="sqlite3"),
    Format("JPEG", "jpg jpeg jpe", _begins(b"\xff\xd8\xff"), documents.check_picture, module="PIL"),
    Format("GIF", "gif", _begins(b"GIF87a", b"GIF89a"), documents.check_picture, module="PIL"),
    Format("TIFF", "tif tiff", _begins(b"II*\0", b"MM\0*"), documents.check_picture, module="PIL"),
    Format("WebP", "webp", (((0, b"RIFF"), (8, b"WEBP")),), documents.check_picture, module="PIL"),
    Format("PDF", "pdf", _begins(b"%PDF-"), documents.check_pdf, module="pikepdf"),
    Format("MP4", "mp4 m4a m4v mov 3gp heic heif avif", _MP4_BRANDS, media.check_mp4),
    Format("Matroska", "mkv webm mka", _begins(b"\x1aE\xdf\xa3"), media.check_mkv),
    Format("WAV", "wav", (((0, b"RIFF"), (8, b"WAVE")),), media.check_riff),
    Format("AVI", "avi", (((0, b"RIFF"), (8, b"AVI ")),), media.check_riff),
    Format("MP3", "mp3", _begins(b"ID3", b"\xff\xfb", b"\xff\xf3", b"\xff\xfa"), media.check_mp3),
    Format("tar", "tar", (((257, b"ustar"),),), archives.check_tar),
    Format("RAR", "rar", _begins(b"Rar!\x1a\x07\0", b"Rar!\x1a\x07\1\0"), archives.check_rar),
)  # fmt: skip
BY_NAME = {one.name: one for one in FORMATS}
_BY_SUFFIX = {suffix.encode(): one for one in FORMATS for suffix in one.suffixes.split()}
_RAW_PICTURES = frozenset(b"dng nef cr2 arw pef rw2 orf srw".split())
"""Their first bytes are those of TIFF, and their content is not."""


def find_suffix(path: bytes) -> bytes:
    """Return the suffix of a name, lower-case."""
    return path.rpartition(b"/")[2].rpartition(b".")[2].lower()


def find_format(head: bytes, path: bytes) -> Format | None:
    """Return the format of a file by its first ``HEAD_BYTES`` bytes; None: none that is tested."""
    suffix = find_suffix(path)
    if suffix in _RAW_PICTURES:
        return None
    for one in FORMATS:
        if any(all(head.startswith(mark, at) for at, mark in marks) for marks in one.marks):
            return one if suffix == b"mp3" or one.name != "MP3" or head.startswith(b"ID3") else None
    return None


def find_damaged_beginning(head: bytes, path: bytes) -> Format | None:
    """Return the format that a file is named for, if its first bytes may be damaged ones of this format (I1)."""
    one = _BY_SUFFIX.get(find_suffix(path))
    if one is None or not head:
        return None
    if len(head) >= _ZERO_BYTES and not head.strip(b"\0"):
        return one
    return one if any(_is_near(head, marks) for marks in one.marks) else None


def _is_near(head: bytes, marks: tuple[tuple[int, bytes], ...]) -> bool:
    """Return whether all bytes of marks but one are there."""
    pairs = [(byte, head[at + place : at + place + 1]) for at, mark in marks for place, byte in enumerate(mark)]
    return len(pairs) > 2 and sum(bytes([byte]) != seen for byte, seen in pairs) == 1
