"""
Pictures, music and films by what they state of themselves: checksums of parts, or lengths that must add up.

Structures of lengths are walked, not decoded: a cut-off end, a lost block or damaged headers are found, and hardly any
single flipped bit in picture or sound.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib

from integrity.inspect.checked_file import CheckedFile
from integrity.inspect.outcome import NoChecksum, NotTestable, OwnCheckFailed

_PNG_BEGIN = 8
_MOST_DEPTH = 16
_REVERSED = bytes(int(f"{value:08b}"[::-1], 2) for value in range(256))


def _damaged(at: int) -> OwnCheckFailed:
    return OwnCheckFailed(f"its structure is damaged at byte {at:,}")


def check_png(file: CheckedFile) -> None:
    """By the CRC-32 of each chunk; what follows the last one has none."""
    at, kind = _PNG_BEGIN, b""
    while kind != b"IEND":
        length, kind = struct.unpack(">I4s", file.take(at, 8))
        if not kind.isalpha():
            raise _damaged(at)
        crc = zlib.crc32(kind)
        for piece in file.pieces(at + 8, at + 8 + length):
            crc = zlib.crc32(piece, crc)
        if crc != int.from_bytes(file.take(at + 8 + length, 4)):
            raise OwnCheckFailed(f"the checksum of its chunk {kind.decode('ascii')} at byte {at:,} is wrong")
        file.cover(at, at + 12 + length)
        at += 12 + length
    file.cover(0, _PNG_BEGIN)


def check_ogg(file: CheckedFile) -> None:
    """By the CRC-32 of each page (RFC 3533), which has another order of bits than that of zlib."""
    at = 0
    while at < file.size_bytes:
        head = file.take(at, 27)
        if head[:4] != b"OggS":
            raise _damaged(at)
        segments = file.take(at + 27, head[26])
        page = file.take(at, 27 + len(segments) + sum(segments))
        bare = page[:22] + bytes(4) + page[26:]
        crc = zlib.crc32(bare.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF  # begins with 0, unlike zlib's
        if crc.to_bytes(4).translate(_REVERSED) != page[22:26]:
            raise OwnCheckFailed(f"the checksum of its page at byte {at:,} is wrong")
        file.cover(at, at + len(page))
        at += len(page)


_FLAC_FRAMES = 1 << 16
_FLAC_BYTES = {8: 1, 16: 2, 24: 3}


def check_flac(file: CheckedFile) -> None:
    """By the MD5 of the sound (RFC 9639), which an encoder may leave out; tags and pictures have none."""
    import soundfile

    at, is_last = 4, False
    stream_info = file.take(8, 34)
    while not is_last:
        head = file.take(at, 4)
        is_last, at = bool(head[0] & 0x80), at + 4 + int.from_bytes(head[1:4])
    bits = (int.from_bytes(stream_info[12:14]) >> 4 & 0x1F) + 1
    if bits not in _FLAC_BYTES:
        raise NotTestable(f"{bits} bits a sample are not supported")
    md5 = hashlib.md5(usedforsecurity=False)
    width = _FLAC_BYTES[bits]
    try:
        os.lseek(file.fd, 0, os.SEEK_SET)
        with soundfile.SoundFile(file.fd, closefd=False) as sound:  # a file object needs memory that is run
            while len(samples := sound.read(_FLAC_FRAMES, dtype="int16" if width == 2 else "int32")):
                if width == 2:
                    md5.update(samples.tobytes())
                else:  # the highest bytes of each
                    md5.update(samples.view("uint8").reshape(-1, 4)[:, 4 - width :].tobytes())
    except (soundfile.SoundFileError, ValueError) as error:
        raise OwnCheckFailed(f"its sound can't be decoded: {error}") from error
    if not any(stream_info[18:]):
        raise NoChecksum
    if md5.digest() != stream_info[18:]:
        raise OwnCheckFailed("the checksum of its sound is wrong")
    file.cover(at, file.size_bytes)


_BOXES = frozenset({b"moov", b"trak", b"mdia", b"minf", b"stbl", b"edts", b"dinf", b"moof", b"traf", b"mvex"})
_MAIN_BOXES = (b"ftyp", b"moov", b"mdat", b"meta", b"moof", b"styp")


def check_mp4(file: CheckedFile) -> None:
    """By the lengths of its boxes (ISO/IEC 14496-12): mp4, mov, heic, avif."""
    kinds = _walk_boxes(file, 0, file.size_bytes, 0)
    if not {b"moov", b"meta", b"moof"} & kinds:
        raise OwnCheckFailed("its index (moov) is missing: the recording did not end, or the end is cut off")


def _walk_boxes(file: CheckedFile, at: int, end: int, depth: int) -> set[bytes]:
    kinds: set[bytes] = set()
    while end - at >= 8:
        size, kind = struct.unpack(">I4s", file.take(at, 8))
        head = 8
        if size == 1:
            size, head = int.from_bytes(file.take(at + 8, 8)), 16
        elif size == 0 and not depth:
            size = end - at
        elif size == 0 and not any(kind):
            return kinds  # QuickTime's end of a list
        if size < head or not all(0x20 <= byte < 0x7F or byte in b"\xa9\0" for byte in kind):
            raise _damaged(at)
        if at + size > end:
            raise OwnCheckFailed(f"its part {kind.decode('latin-1')} at byte {at:,} ends behind what it is in")
        if kind in _BOXES and depth < _MOST_DEPTH:
            _walk_boxes(file, at + head, at + size, depth + 1)
        kinds.add(kind)
        at += size
    return kinds


_EBML_SEGMENT = 0x18538067
_EBML_CRC = 0xBF
_CRC_LENGTH = 4
_EBML_PARTS = frozenset(
    {0x114D9B74, 0x1549A966, 0x1F43B675, 0x1654AE6B, 0x1C53BB6B, 0x1941A469, 0x1043A770, 0x1254C367, 0xEC, _EBML_CRC}
)
_MOST_CRC_BYTES = 64 << 20


def check_mkv(file: CheckedFile) -> None:
    """By the lengths of its elements (RFC 8794), and the CRC-32 of those parts that have one."""
    at = 0
    while at < file.size_bytes:
        kind, begin, end = _read_element(file, at)
        if kind == _EBML_SEGMENT:
            _check_segment(file, begin, file.size_bytes if end is None else end)
        if end is None:
            return
        if end > file.size_bytes:
            raise OwnCheckFailed(f"its end is missing ({end:,} bytes are stated)")
        at = end


def _check_segment(file: CheckedFile, at: int, end: int) -> None:
    while at < min(end, file.size_bytes):
        kind, begin, stop = _read_element(file, at)
        if kind not in _EBML_PARTS:
            raise _damaged(at)
        if stop is None:
            raise NotTestable("it was written as a stream, without lengths")
        if stop > end:
            raise OwnCheckFailed(f"its part at byte {at:,} ends behind the file")
        first = file.take(begin, min(6, stop - begin))
        if kind != 0xEC and first[:2] == b"\xbf\x84" and stop - begin < _MOST_CRC_BYTES:
            crc = 0
            for piece in file.pieces(begin + 2 + _CRC_LENGTH, stop):
                crc = zlib.crc32(piece, crc)
            if crc != int.from_bytes(first[2:], "little"):
                raise OwnCheckFailed(f"the checksum of its part at byte {at:,} is wrong")
        at = stop


def _read_element(file: CheckedFile, at: int) -> tuple[int, int, int | None]:
    """Return the number of an element, where its content begins, and where it ends; None: not stated."""
    head = file.take(at, min(12, file.size_bytes - at))
    id_bytes = 9 - head[0].bit_length()
    if id_bytes > 4 or len(head) <= id_bytes or not head[id_bytes]:
        raise _damaged(at)
    size_bytes = 9 - head[id_bytes].bit_length()
    begin = id_bytes + size_bytes
    mask = (1 << 7 * size_bytes) - 1
    size = int.from_bytes(head[id_bytes:begin]) & mask
    return int.from_bytes(head[:id_bytes]), at + begin, None if size == mask else at + begin + size


def check_riff(file: CheckedFile) -> None:
    """By the lengths of its chunks: wav, avi."""
    stated = int.from_bytes(file.take(4, 4), "little")
    if stated in (0, 0xFFFFFFFF):
        raise NotTestable("it was written as a stream, without lengths")
    if 8 + stated > file.size_bytes:
        raise OwnCheckFailed(f"its end is missing ({8 + stated:,} bytes are stated)")
    at = 12
    while at + 8 <= 8 + stated:
        kind, length = struct.unpack("<4sI", file.take(at, 8))
        if not all(0x20 <= byte < 0x7F for byte in kind):
            raise _damaged(at)
        at += 8 + length + length % 2
    if at > 9 + stated:
        raise OwnCheckFailed("its last chunk ends behind the file")


_MP3_KBITS = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_MP3_LOW_KBITS = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_MP3_HZ = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}
_MP3_TAGS = (b"TAG", b"APETAGEX", b"ID3", b"3DI", b"LYRICSBEGIN")
_LEAST_FRAMES = 3
_MP3_LARGEST_FRAME = 1441


def check_mp3(file: CheckedFile) -> None:
    """By the headers of its frames, one right behind the other, and the length that the first one may state."""
    at, frames = _skip_id3(file), 0
    end = at + _find_stated_bytes(file.take(at, min(256, file.size_bytes - at)))
    while at + 4 <= file.size_bytes:
        head = file.take(at, min(16, file.size_bytes - at))
        length = _find_frame_bytes(head)
        if length is None:
            rest = file.take(at, min(4096, file.size_bytes - at))
            if frames < _LEAST_FRAMES:
                raise NotTestable("no frames of MPEG audio were found in it")
            if head.startswith(_MP3_TAGS) or not rest.strip(b"\0"):
                return
            raise _damaged(at)
        at, frames = at + length, frames + 1
    if end > file.size_bytes + _MP3_LARGEST_FRAME:  # the last frame of a recording is often cut off
        raise OwnCheckFailed(f"its end is missing ({end:,} bytes are stated)")


def _find_stated_bytes(frame: bytes) -> int:
    """Return the length that the header of Xing or LAME states; 0: none."""
    place = max(frame.find(b"Xing"), frame.find(b"Info"))
    if place < 0 or len(frame) < place + 16 or not frame[place + 7] & 2:
        return 0
    begin = place + (12 if frame[place + 7] & 1 else 8)
    return int.from_bytes(frame[begin : begin + 4])


def _skip_id3(file: CheckedFile) -> int:
    at = 0
    while (head := file.take(at, min(10, file.size_bytes - at)))[:3] == b"ID3" and len(head) == 10:
        size = 0
        for byte in head[6:]:
            size = size << 7 | byte & 0x7F
        at = min(at + 10 + size + (10 if head[5] & 0x10 else 0), file.size_bytes)
    while at < file.size_bytes and not file.take(at, 1)[0]:
        at += 1  # some writers pad behind the tag
    return at


def _find_frame_bytes(head: bytes) -> int | None:
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return None
    version, layer, rate, hz = head[1] >> 3 & 3, head[1] >> 1 & 3, head[2] >> 4, head[2] >> 2 & 3
    if version == 1 or layer != 1 or rate in (0, 15) or hz == 3:
        return None  # layer III only
    kbits, samples = (_MP3_KBITS, 144) if version == 3 else (_MP3_LOW_KBITS, 72)
    return samples * kbits[rate] * 1000 // _MP3_HZ[version][hz] + (head[2] >> 1 & 1)
