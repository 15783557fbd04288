r"""
Parse the packets of PAR2 files, and write them once instead of many times.

Layout of a packet, integers little-endian ("Parity Volume Set Specification 2.0"); its length is a multiple of 4:

    OFFSET SIZE DESCRIPTION
         0    8 magic "PAR2\0PKT"
         8    8 length of the whole packet
        16   16 MD5 of all that follows
        32   16 MD5 of the body of the main packet: all packets of a set have it
        48   16 type
        64      body:

    Main      slice size 8 | number of files 4 | file id 16 for each
    FileDesc  file id 16 | MD5 of the file 16 | MD5 of its first 16 KiB 16 | size 8 | name, filled up with zeros
    IFSC      file id 16 | MD5 16 and CRC-32 4 of each slice
    RecvSlic  exponent 4 | the recovery slice

A set can be used if its main packet and all packets of its files are there; each recovery slice replaces one slice of
any file.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from hashlib import md5
from typing import BinaryIO, NamedTuple

from integrity.copies.filenames import find_fault

LONGEST_NAME = 253  # bytes; par2 adds ".1" to the name of what it replaces
ODD_NAME = re.compile(rb"[\x00-\x1f\\]|\A.\Z|[^/]{%d}\Z" % (LONGEST_NAME + 1))
"""What par2 can't write: it takes backslashes for slashes, and escapes control characters; that of Debian crashes on a
path of one character. One damaged file whose name is too long would keep it from healing all others."""

_MAGIC = b"PAR2\0PKT"
_HEADER = struct.Struct("<8sQ16s16s16s")
_MAIN, _FILE, _SLICES, _RECOVERY = (
    b"PAR 2.0\0" + name.ljust(8, b"\0") for name in (b"Main", b"FileDesc", b"IFSC", b"RecvSlic")
)
_SHARED = (_MAIN, _FILE, _SLICES)
_FILE_BODY = struct.Struct("<16s16s16sQ")
_PIECE_BYTES = 1 << 20
_HASHED_AT = 32  # of a packet: what its MD5 covers begins here


class Packet(NamedTuple):
    """One packet of a file. ``body``: of a recovery slice its exponent only."""

    kind: bytes
    set_id: bytes
    offset: int
    length: int
    body: bytes


class SetFile(NamedTuple):
    """A file of a set: its name there, and the content that can be restored."""

    name: bytes
    size_bytes: int
    md5: bytes


class SetContents(NamedTuple):
    """
    What a PAR2 file has.

    Attributes:
        files: that it covers; empty if the packets of one of them are missing, so that nothing can be healed.
        slice_bytes: size of a slice.
        recovery_slices: number of intact slices to heal with.
        is_intact: nothing in the file is damaged.
    """

    files: tuple[SetFile, ...]
    slice_bytes: int
    recovery_slices: int
    is_intact: bool

    @property
    def source_slices(self) -> int:
        """Return the number of slices of all files."""
        return sum(-(-one.size_bytes // self.slice_bytes) for one in self.files)


def read_set(file: BinaryIO) -> SetContents:
    """Read a whole PAR2 file, and check each of its packets."""
    shared: dict[tuple[bytes, bytes], bytes] = {}
    recovery: set[bytes] = set()
    end = 0
    is_intact = True
    for packet in read_packets(file):
        is_intact &= packet.offset == end
        end = packet.offset + packet.length
        if packet.kind == _RECOVERY:
            recovery.add(packet.body)
        elif packet.kind in _SHARED:
            shared[packet.kind, b"" if packet.kind == _MAIN else packet.body[:16]] = packet.body
    is_intact &= end == file.seek(0, 2)
    main = shared.get((_MAIN, b""), b"")
    slice_bytes, number = struct.unpack_from("<QI", main) if len(main) >= 12 else (0, 0)
    ids = [main[12 + 16 * index : 28 + 16 * index] for index in range(number)]
    files = [_read_file(shared.get((_FILE, one), b"")) for one in ids if (_SLICES, one) in shared]
    whole = [one for one in files if one is not None]
    if not slice_bytes or len(whole) != number:
        return SetContents((), slice_bytes, len(recovery), is_intact=False)
    return SetContents(tuple(whole), slice_bytes, len(recovery), is_intact)


def _read_file(body: bytes) -> SetFile | None:
    """Parse the description of a file; None if par2 would write it elsewhere."""
    if len(body) < _FILE_BODY.size:
        return None
    _, digest, _, size_bytes = _FILE_BODY.unpack_from(body)
    name = body[_FILE_BODY.size :].rstrip(b"\0")
    return None if find_fault(name) or ODD_NAME.search(name) else SetFile(name, size_bytes, digest)


def read_packets(file: BinaryIO) -> Iterator[Packet]:
    """Yield the intact packets of a file; what lies between two of them is damaged."""
    size = file.seek(0, 2)
    piece, start, offset = b"", 0, 0
    while offset + _HEADER.size <= size:
        at = offset - start
        if at + _HEADER.size > len(piece):
            piece, start, at = _read_piece(file, offset), offset, 0
        magic, length, digest, set_id, kind = _HEADER.unpack_from(piece, at)
        is_one = magic == _MAGIC and _HEADER.size <= length <= size - offset and length % 4 == 0
        if is_one and at + length > len(piece) and length <= _PIECE_BYTES:
            piece, start, at = _read_piece(file, offset), offset, 0
        if is_one and at + length <= len(piece):
            is_one = md5(piece[at + _HASHED_AT : at + length], usedforsecurity=False).digest() == digest
        elif is_one:
            is_one = kind == _RECOVERY and _digest(file, offset + _HASHED_AT, offset + length) == digest
        if not is_one:
            offset = _find_magic(file, offset + 4, size)
            continue
        body_at = at + _HEADER.size
        yield Packet(kind, set_id, offset, length, piece[body_at : body_at + 4 if kind == _RECOVERY else at + length])
        offset += length


def _read_piece(file: BinaryIO, offset: int) -> bytes:
    file.seek(offset)
    return file.read(_PIECE_BYTES)


def _digest(file: BinaryIO, offset: int, end: int) -> bytes:
    """Return the MD5 of a part of a file."""
    hasher = md5(usedforsecurity=False)
    file.seek(offset)
    while offset < end and (piece := file.read(min(end - offset, _PIECE_BYTES))):
        hasher.update(piece)
        offset += len(piece)
    return hasher.digest()


def _find_magic(file: BinaryIO, offset: int, size: int) -> int:
    """Return where the next packet may begin; the size of the file if there is none."""
    while offset < size:
        file.seek(offset)
        piece = file.read(_PIECE_BYTES)
        found = piece.find(_MAGIC)
        if found >= 0:
            return offset + found
        offset += max(1, len(piece) - len(_MAGIC) + 1)
    return size


def condense(index: BinaryIO, volume: BinaryIO, target: BinaryIO, *, most_twice_bytes: int) -> None:
    """
    Write the packets of a set that par2 has just made into one file: those of its index, and the recovery slices.

    The volume repeats the index up to ten times between the slices, which is more than the slices of small photos. It
    is written a second time behind them if it takes up to ``most_twice_bytes``. What is damaged shows when the file is
    read back.
    """
    shared = index.read()
    target.write(shared)
    for offset, length in _find_recovery(volume):
        volume.seek(offset)
        while length:
            length -= target.write(volume.read(min(length, _PIECE_BYTES)))
    if len(shared) <= most_twice_bytes:
        target.write(shared)


def _find_recovery(file: BinaryIO) -> Iterator[tuple[int, int]]:
    """Yield offset and length of each recovery slice, unchecked."""
    size = file.seek(0, 2)
    piece, start, offset = b"", 0, 0
    while offset + _HEADER.size <= size:
        if offset + _HEADER.size - start > len(piece):
            piece, start = _read_piece(file, offset), offset
        _, length, _, _, kind = _HEADER.unpack_from(piece, offset - start)
        if kind == _RECOVERY:
            yield offset, length
        offset += max(length, _HEADER.size)
