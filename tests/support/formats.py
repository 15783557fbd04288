"""Make intact files of the formats that ``integrity inspect`` tests, by the tools and libraries that write them."""

from __future__ import annotations

import gzip
import io
import lzma
import random
import shutil
import sqlite3
import struct
import subprocess
import tarfile
import wave
import zipfile
import zlib
from bz2 import BZ2Compressor
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pikepdf
import py7zr
import soundfile
from backports import zstd
from PIL import Image

Make = Callable[[random.Random, Path], object]


def make_text(rng: random.Random) -> bytes:
    words = [rng.randbytes(rng.randrange(2, 9)).hex() for _ in range(200)]
    return " ".join(rng.choices(words, k=rng.randrange(2_000, 6_000))).encode()


def _picture(rng: random.Random, mode: str = "RGB") -> Image.Image:
    small = Image.frombytes(mode, (12, 9), rng.randbytes(12 * 9 * len(mode)))
    return small.resize((rng.randrange(100, 200), rng.randrange(80, 160)), Image.Resampling.BICUBIC)


def _sound(rng: random.Random) -> Any:
    time = np.arange(rng.randrange(20_000, 40_000)) / 44_100
    tone = np.sin(time * rng.randrange(500, 5_000)) + np.sin(time * rng.randrange(500, 5_000))
    noise = np.frombuffer(rng.randbytes(len(time)), dtype=np.uint8) / 2_000
    return tone / 3 + noise


def _zip(rng: random.Random, path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(rng.randrange(2, 8)):
            method = rng.choice([zipfile.ZIP_STORED, *[zipfile.ZIP_DEFLATED] * 3, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
            archive.writestr(f"folder/{number}.txt", make_text(rng), compress_type=method)


def _par2(rng: random.Random, path: Path) -> None:
    data = path.with_suffix(".dat")
    data.write_bytes(make_text(rng))
    command = ["par2", "create", "-q", "-q", "-s1024", "-r5", "-n1", str(path.with_suffix("")), str(data)]
    subprocess.run(command, check=True, capture_output=True)
    for other in path.parent.glob(f"{path.stem}.vol*.par2"):
        other.replace(path)
    data.unlink()


def _sqlite(rng: random.Random, path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT UNIQUE, data BLOB)")
    rows = [(f"name {number} {rng.random()}", rng.randbytes(rng.randrange(200))) for number in range(400)]
    database.executemany("INSERT INTO item (name, data) VALUES (?, ?)", rows)
    database.commit()
    database.close()


def _pdf(rng: random.Random, path: Path) -> None:
    document = pikepdf.new()
    for _ in range(rng.randrange(2, 6)):
        document.add_blank_page()
        page = document.pages[-1]
        page.Contents = pikepdf.Stream(document, b"BT " + make_text(rng) + b" ET")
    document.save(path, compress_streams=True)


def _box(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(data), kind) + data


def _mp4(rng: random.Random, path: Path) -> None:
    track = _box(b"trak", _box(b"mdia", _box(b"minf", _box(b"stbl", _box(b"stco", rng.randbytes(400))))))
    index = _box(b"moov", _box(b"mvhd", bytes(100)) + track)
    path.write_bytes(_box(b"ftyp", b"isommp42" + bytes(8)) + index + _box(b"mdat", rng.randbytes(20_000)))


def _element(kind: str, data: bytes) -> bytes:
    return bytes.fromhex(kind) + (len(data) | 1 << 56).to_bytes(8) + data


def _mkv(rng: random.Random, path: Path) -> None:
    inner = _element("4489", rng.randbytes(8)) + _element("4D80", b"libebml")
    info = _element("1549A966", b"\xbf\x84" + zlib.crc32(inner).to_bytes(4, "little") + inner)
    clusters = b"".join(_element("1F43B675", _element("A3", rng.randbytes(4_000))) for _ in range(5))
    path.write_bytes(_element("1A45DFA3", _element("4282", b"matroska")) + _element("18538067", info + clusters))


def _wav(rng: random.Random, path: Path) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(44_100)
        file.writeframes(rng.randbytes(40_000))


def _tar(rng: random.Random, path: Path) -> None:
    with tarfile.open(path, "w") as archive:
        for number in range(5):
            info = tarfile.TarInfo(f"{number}.txt")
            data = make_text(rng)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def _rar5_block(kind: int, fields: bytes, data: bytes = b"") -> bytes:
    body = bytes([kind, 2 if data else 0]) + ((len(data) | 0x80).to_bytes(1) + b"\1" if data else b"") + fields
    header = bytes([len(body)]) + body
    return zlib.crc32(header).to_bytes(4, "little") + header + data


def _rar(rng: random.Random, path: Path) -> None:
    parts = [_rar5_block(1, b"\0"), *(_rar5_block(2, b"\0" * 6, rng.randbytes(0x80 | 0x40)[:192]) for _ in range(3))]
    path.write_bytes(b"Rar!\x1a\x07\1\0" + b"".join(parts) + _rar5_block(5, b"\0"))


def _write(data: Callable[[random.Random], bytes]) -> Make:
    return lambda rng, path: path.write_bytes(data(rng))


def _compress_bz2(rng: random.Random) -> bytes:
    stream = BZ2Compressor(1)
    return stream.compress(make_text(rng)) + stream.flush()


def _zstd(rng: random.Random) -> bytes:
    return zstd.compress(make_text(rng), options={zstd.CompressionParameter.checksum_flag: 1})


def _flac(rng: random.Random, path: Path) -> None:
    soundfile.write(path, _sound(rng), 44_100, subtype=rng.choice(["PCM_16", "PCM_24"]))


def _7z(rng: random.Random, path: Path) -> None:
    with py7zr.SevenZipFile(path, "w") as archive:
        archive.writestr(make_text(rng), "a.txt")
        archive.writestr(make_text(rng), "b.txt")


MAKERS: dict[str, tuple[str, Make]] = {
    "zip": (".zip", _zip),
    "gzip": (".gz", _write(lambda rng: gzip.compress(make_text(rng)))),
    "bzip2": (".bz2", _write(_compress_bz2)),
    "xz": (".xz", _write(lambda rng: lzma.compress(make_text(rng)))),
    "Zstandard": (".zst", _write(_zstd)),
    "7z": (".7z", _7z),
    "PNG": (".png", lambda rng, path: _picture(rng).save(path)),
    "FLAC": (".flac", _flac),
    "Ogg": (".ogg", lambda rng, path: soundfile.write(path, _sound(rng), 44_100)),
    "SQLite": (".sqlite", _sqlite),
    "JPEG": (".jpg", lambda rng, path: _picture(rng).save(path, quality=90)),
    "GIF": (".gif", lambda rng, path: _picture(rng).save(path, save_all=True, append_images=[_picture(rng)])),
    "TIFF": (".tif", lambda rng, path: _picture(rng).save(path, compression=rng.choice(["tiff_lzw", "tiff_deflate"]))),
    "WebP": (".webp", lambda rng, path: _picture(rng).save(path, lossless=rng.random() < 0.5)),
    "PDF": (".pdf", _pdf),
    "MP4": (".mp4", _mp4),
    "Matroska": (".mkv", _mkv),
    "WAV": (".wav", _wav),
    "MP3": (".mp3", lambda rng, path: soundfile.write(path, _sound(rng), 44_100, format="MP3")),
    "tar": (".tar", _tar),
    "RAR": (".rar", _rar),
} | ({"PAR2": (".par2", _par2)} if shutil.which("par2") else {})
"""By the name of the format in ``inspect.formats``: suffix, and what writes a file of it."""


def flip(data: bytes, bit: int) -> bytes:
    """Return data with one bit changed."""
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)
