"""Archives: zip and its family, 7z, tar, rar, par2."""

from __future__ import annotations

import hashlib
import lzma
import struct
import tarfile
import zipfile
import zlib
from typing import Any, NamedTuple, cast

from integrity.inspect.checked_file import CheckedFile
from integrity.inspect.compressed import Inflater, decompress
from integrity.inspect.outcome import NoChecksum, NotTestable, OwnCheckFailed

_LOCAL_HEADER = struct.Struct("<4sHHHHHIIIHH")  # APPNOTE.TXT 4.3.7
_LOCAL_MAGIC = b"PK\3\4"
_IS_ENCRYPTED, _SIZES_FOLLOW = 0x1, 0x8
_STORED, _DEFLATED = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
_BY_LIBRARY = (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
_BLOCK = 512  # of tar
_PAR2_HEADER = struct.Struct("<8sQ16s")  # magic, length of the packet, MD5 of what follows
_PAR2_MAGIC = b"PAR2\0PKT"


class _Sum:
    """CRC-32 and length of the content of one entry."""

    def __init__(self, most_bytes: int) -> None:
        self.crc = self.length = 0
        self._most_bytes = most_bytes

    def add(self, data: bytes) -> None:
        self.crc = zlib.crc32(data, self.crc)
        self.length += len(data)
        if self.length > self._most_bytes:
            raise OwnCheckFailed("an entry has more content than the archive says")


def check_zip(file: CheckedFile) -> None:
    """By the CRC-32 of each entry. The directory has none; it must agree with what stands before each entry."""
    try:
        archive = zipfile.ZipFile(file.stream)
    except (zipfile.BadZipFile, UnicodeError, ValueError, struct.error, NotImplementedError) as error:
        raise OwnCheckFailed(f"its directory is damaged or missing: {error}") from error
    skipped, end = 0, 0
    for entry in sorted(archive.infolist(), key=lambda one: one.header_offset):
        if entry.header_offset < end:
            raise NotTestable("its entries overlap")
        start = _check_header(file, entry)
        end = start + entry.compress_size
        if entry.flag_bits & _IS_ENCRYPTED or entry.compress_type not in (_STORED, _DEFLATED, *_BY_LIBRARY):
            skipped += 1
            continue
        _check_entry(file, archive, entry, start, end)
        file.cover(start, end)
    if skipped:
        raise NotTestable(f"{skipped:,} of its entries are encrypted, or compressed by a method that is not known here")


def _check_header(file: CheckedFile, entry: zipfile.ZipInfo) -> int:
    """Compare an entry's own header with the directory, and return where its data begins."""
    values = _LOCAL_HEADER.unpack(file.take(entry.header_offset, _LOCAL_HEADER.size))
    magic, _, flags, method, _, _, crc, packed, size, name_bytes, extra_bytes = values
    has_sizes = not (flags | entry.flag_bits) & _SIZES_FOLLOW and packed != 0xFFFFFFFF != size
    stated = (entry.CRC, entry.compress_size, entry.file_size)
    if magic != _LOCAL_MAGIC or method != entry.compress_type or (has_sizes and stated != (crc, packed, size)):
        raise OwnCheckFailed(f"the header of its entry {entry.filename!r} contradicts its directory")
    return int(entry.header_offset + _LOCAL_HEADER.size + name_bytes + extra_bytes)


def _check_entry(file: CheckedFile, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, start: int, end: int) -> None:
    total = _Sum(entry.file_size)
    try:
        if entry.compress_type == _STORED:
            for piece in file.pieces(start, end):
                total.add(piece)
        elif entry.compress_type == _DEFLATED:
            decompress(file, start, end, Inflater(-zlib.MAX_WBITS), total.add)
        else:
            with archive.open(entry) as content:
                while piece := content.read(1 << 20):
                    total.add(piece)
    except OwnCheckFailed as error:
        raise OwnCheckFailed(f"its entry {entry.filename!r}: {error}") from error
    except (OSError, EOFError, ValueError, lzma.LZMAError, zipfile.BadZipFile) as error:
        raise OwnCheckFailed(f"its entry {entry.filename!r} is damaged: {error}") from error
    if (total.crc, total.length) != (entry.CRC, entry.file_size):
        raise OwnCheckFailed(f"the checksum of its entry {entry.filename!r} is wrong")


def check_7z(file: CheckedFile) -> None:
    """By the CRC-32 of its directory and of each entry, which may be left out."""
    import py7zr

    refusals = py7zr.exceptions.PasswordRequired, py7zr.exceptions.UnsupportedCompressionMethodError
    try:
        archive = py7zr.SevenZipFile(file.stream)
        is_encrypted = archive.needs_password()
        bad = None if is_encrypted else archive.testzip()
    except refusals as error:
        raise NotTestable(f"it is encrypted, or compressed by a method that is not known here: {error}") from error
    except MemoryError:
        raise
    except Exception as error:  # each of its decompressors has errors of its own
        raise OwnCheckFailed(f"its data is damaged: {error}") from error
    if is_encrypted:
        raise NotTestable("it is encrypted")
    if bad is not None:
        raise OwnCheckFailed(f"the checksum of its entry {bad!r} is wrong")
    if any(entry.crc32 is None and entry.uncompressed for entry in archive.files):
        raise NoChecksum
    file.cover(0, file.size_bytes)


def check_tar(file: CheckedFile) -> None:
    """By the checksum of each header; the content has none."""
    try:
        archive = tarfile.TarFile(fileobj=file.stream)
        for _ in archive:
            cast("Any", archive).members = []  # they would all be kept
    except (tarfile.TarError, EOFError, ValueError, OSError) as error:
        raise OwnCheckFailed(f"its structure is damaged: {error}") from error
    rest = min(_BLOCK, file.size_bytes - archive.offset)
    if rest < 0 or file.take(archive.offset, rest).strip(b"\0"):  # tarfile takes a damaged header for the end
        raise OwnCheckFailed(f"its structure is damaged at byte {archive.offset:,}")


def check_par2(file: CheckedFile) -> None:
    """By the MD5 of each packet."""
    at = 0
    while at < file.size_bytes:
        magic, length, stated = _PAR2_HEADER.unpack(file.take(at, _PAR2_HEADER.size))
        if magic != _PAR2_MAGIC or length < 64 or length % 4:
            raise OwnCheckFailed(f"its structure is damaged at byte {at:,}")
        md5 = hashlib.md5(usedforsecurity=False)
        for piece in file.pieces(at + _PAR2_HEADER.size, at + length):
            md5.update(piece)
        if md5.digest() != stated:
            raise OwnCheckFailed(f"the checksum of its packet at byte {at:,} is wrong")
        file.cover(at, at + length)
        at += length


class _RarHeader(NamedTuple):
    kind: int
    size: int
    data_bytes: int


_RAR4, _RAR5 = b"Rar!\x1a\x07\x00", b"Rar!\x1a\x07\x01\x00"
_RAR4_END, _RAR5_END = 0x7B, 5
_RAR4_HAS_DATA, _RAR4_IS_ENCRYPTED = 0x8000, 0x80


def check_rar(file: CheckedFile) -> None:
    """By the checksums of its headers; to test the content takes the program of its makers."""
    is_new = file.take(0, len(_RAR5)) == _RAR5
    at, last = (len(_RAR5), _RAR5_END) if is_new else (len(_RAR4), _RAR4_END)
    while True:
        header = _read_rar5(file, at) if is_new else _read_rar4(file, at)
        at += header.size + header.data_bytes
        if at > file.size_bytes:
            raise OwnCheckFailed("its last entry ends early")
        if header.kind == last:
            return
        if at == file.size_bytes and not is_new:
            return  # old ones may have no end mark


def _read_rar4(file: CheckedFile, at: int) -> _RarHeader:
    crc, kind, flags, size = struct.unpack("<HBHH", file.take(at, 7))
    if size < 7:
        raise OwnCheckFailed(f"its structure is damaged at byte {at:,}")
    header = file.take(at, size)
    if kind == 0x73 and flags & _RAR4_IS_ENCRYPTED:
        raise NotTestable("it is encrypted")
    if zlib.crc32(header[2:]) & 0xFFFF != crc:
        raise OwnCheckFailed(f"the checksum of its header at byte {at:,} is wrong")
    has_data = kind == 0x74 or flags & _RAR4_HAS_DATA
    data_bytes = int.from_bytes(header[7:11], "little") if has_data else 0
    if kind == 0x74 and flags & 0x100:
        data_bytes |= int.from_bytes(header[32:36], "little") << 32
    return _RarHeader(kind, size, data_bytes)


def _read_rar5(file: CheckedFile, at: int) -> _RarHeader:
    head = file.take(at, min(14, file.size_bytes - at))
    size, begin = _read_vint(head, 4)
    header = file.take(at + 4, begin - 4 + min(size, 2 << 20))
    if zlib.crc32(header) != int.from_bytes(head[:4], "little"):
        raise OwnCheckFailed(f"the checksum of its header at byte {at:,} is wrong")
    kind, place = _read_vint(header, begin - 4)
    if kind == 4:
        raise NotTestable("it is encrypted")
    flags, place = _read_vint(header, place)
    place = _read_vint(header, place)[1] if flags & 1 else place
    data_bytes = _read_vint(header, place)[0] if flags & 2 else 0
    return _RarHeader(kind, begin + size, data_bytes)


def _read_vint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, and the offset behind it."""
    value = shift = 0
    for place in range(at, len(data)):
        value |= (data[place] & 0x7F) << shift
        shift += 7
        if not data[place] & 0x80:
            return value, place + 1
    raise OwnCheckFailed("its structure is damaged")
